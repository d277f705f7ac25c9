"""The operations: the command's own bits, whatever the type, the layout and where arrays come from."""
import inspect
import itertools
import json
import multiprocessing
import pickle
import subprocess
import threading

import ml_dtypes
import numpy as np
import pytest

import convgrad
from conftest import normal
from convgrad import _core

TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
IMAGE, OUTPUT = (2, 9, 8, 6), (2, 5, 4, 12)  # SAME at stride 2
OPERANDS = {"input": IMAGE, "out_backprop": OUTPUT}


def shapes_of(depthwise, filter_format, data_format):
    """The operands of a convolution with two groups, or a depthwise one of multiplier 2, in the formats asked for."""
    image = {"NHWC": (0, 1, 2, 3), "NCHW": (0, 3, 1, 2)}[data_format]
    filter = (3, 3, 6, 2) if depthwise else (3, 3, 3, 12)
    if filter_format != "HWIO" and depthwise:
        filter = (3, 3, 1, 12)
    order = {"HWIO": (0, 1, 2, 3), "OIHW": (3, 2, 0, 1), "OHWI": (3, 0, 1, 2)}[filter_format]
    return {"input": tuple(IMAGE[axis] for axis in image),
            "out_backprop": tuple(OUTPUT[axis] for axis in image),
            "filter": tuple(filter[axis] for axis in order)}


def cases():
    """(name, op, its operands' arrays, its arguments) of every operation, type and layout."""
    for op, operands, sizes in _core.ops():
        for dtype, data_format, filter_format in itertools.product(TYPES, ["NHWC", "NCHW"],
                                                                   ["HWIO", "OIHW", "OHWI"]):
            shapes = shapes_of("depthwise" in op, filter_format, data_format)
            arrays = {name: normal(shapes[name], dtype, seed) for seed, name in enumerate(operands)}
            arguments = {"strides": 2, "padding": "SAME", "data_format": data_format,
                         "filter_format": filter_format}
            if sizes:
                arguments[sizes] = shapes[sizes.removesuffix("_sizes")]
            name = f"{op}-{np.dtype(dtype).name}-{data_format}-{filter_format}"
            yield name, op, arrays, arguments


@pytest.fixture(scope="module")
def hashes_of_the_command(command, tmp_path_factory):
    """By case: the hash of the result that the command computes of the same arrays in files."""
    folder = tmp_path_factory.mktemp("cases")
    manifest = []
    for name, op, arrays, arguments in cases():
        for operand, array in arrays.items():
            np.save(folder / f"{name}.{operand}.npy", array)
        files = {operand: f"{name}.{operand}.npy" for operand in arrays}
        dtype = next(iter(arrays.values())).dtype.name
        manifest.append({"name": name, "op": op, "dtype": dtype, **files, **arguments})
    (folder / "manifest.json").write_text(json.dumps({"schema": "convgrad-manifest/1",
                                                      "cases": manifest}))
    subprocess.run([command, "batch", folder / "manifest.json", "--report", folder / "report.json"],
                   check=True, stdout=subprocess.DEVNULL)
    report = json.loads((folder / "report.json").read_text())
    return {entry["name"]: entry["output"]["sha256"] for entry in report["benchmarks"]}


CASES = list(cases())


@pytest.mark.parametrize("name,op,arrays,arguments", CASES, ids=[case[0] for case in CASES])
def test_bits_are_the_commands(name, op, arrays, arguments, hashes_of_the_command):
    result = getattr(convgrad, op)(**arrays, **arguments)
    assert result.dtype == next(iter(arrays.values())).dtype
    assert convgrad.data_hash(result) == hashes_of_the_command[name]


def test_functions_take_what_the_table_of_operations_says():
    for op, operands, sizes in _core.ops():
        parameters = list(inspect.signature(getattr(convgrad, op)).parameters)
        assert parameters[-3:] == ["strides", "padding", "options"]
        assert set(parameters[:-3]) == {*operands, *([sizes] if sizes else [])}
        assert op in convgrad.__all__


X, W = normal((2, 7, 6, 4), np.float32, 1), normal((3, 3, 4, 8), np.float32, 2)
Y = convgrad.conv2d(X, W, 1, "SAME")


@pytest.mark.parametrize("other", [
    np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1], X.astype(">f4"),
    memoryview(X), X.tolist()], ids=["Fortran", "strided", "reversed", "big-endian", "buffer", "list"])
def test_other_layouts_are_copied(other):
    filter = W.astype(np.float64) if isinstance(other, list) else W
    assert np.allclose(convgrad.conv2d(other, filter, 1, "SAME"), Y, rtol=1e-5, atol=1e-5)
    if not isinstance(other, list):
        assert np.array_equal(convgrad.conv2d(other, filter, 1, "SAME"), Y)


def test_an_array_at_an_odd_address_is_copied():
    bytes_ = np.zeros(X.nbytes + 1, np.uint8)
    odd = bytes_[1:].view(np.float32).reshape(X.shape)
    odd[:] = X
    assert odd.ctypes.data % 4
    assert np.array_equal(convgrad.conv2d(odd, W, 1, "SAME"), Y)


def test_nothing_is_copied_in_or_out():
    """The peak of a call on a large array is far below the array's own size."""
    import resource
    large = np.ones((1, 2048, 2048, 8), np.float32)  # 128 MiB
    filter = np.ones((1, 1, 8, 1), np.float32)
    convgrad.conv2d(large[:, :8, :8].copy(), filter, 1, "VALID")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = convgrad.conv2d(large, filter, 1, "VALID")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < result.nbytes + large.nbytes // 2
    assert result.flags.owndata is False and result.flags.writeable


def test_read_only_arrays_are_taken():
    fixed = X.copy()
    fixed.flags.writeable = False
    assert np.array_equal(convgrad.conv2d(fixed, W, 1, "SAME"), Y)


@pytest.mark.parametrize("padding", ["same", [[0, 0], [1, 1], [1, 1], [0, 0]], (1, 1, 1, 1), 1,
                                     ((1, 1), (1, 1)), np.ones(2, np.int64)])
def test_padding_may_be_said_as_frameworks_do(padding):
    assert np.array_equal(convgrad.conv2d(X, W, [1, 1, 1, 1], padding), Y)


@pytest.mark.parametrize("arguments,error,code,part", [
    ({"strides": (1, 2, 3)}, convgrad.UsageError, "attribute/strides", "strides [1,2,3]"),
    ({"padding": "SAMEISH"}, convgrad.UsageError, "flag/value", "padding"),
    ({"data_format": "NCWH"}, convgrad.UsageError, "flag/value", "data_format"),
    ({"filter": W.astype(np.float64)}, convgrad.DataError, "operand/dtype", "filter"),
    ({"filter": W.astype(np.int32)}, convgrad.DataError, "operand/dtype", "int32"),
    ({"filter": W.astype(np.complex64)}, convgrad.DataError, "dtype/unsupported", "complex64"),
    ({"filter": object()}, convgrad.DataError, "operand/array", "object"),
    ({"filter": "w.npy"}, convgrad.DataError, "operand/array", "no array of numbers"),
    ({"filter": W[0]}, convgrad.DataError, "shape/rank", "filter"),
    ({"filter": W[:, :, :3]}, convgrad.DataError, "shape/channels", "filter"),
    ({"max_memory": 1}, convgrad.ResourceError, "memory/limit", "max_memory"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_errors_have_code_hint_and_arguments_by_name(arguments, error, code, part):
    with pytest.raises(error) as raised:
        convgrad.conv2d(**{"input": X, "filter": W, "strides": 1, "padding": "SAME", **arguments})
    assert raised.value.code == code
    assert part in str(raised.value) and "--" not in str(raised.value)
    assert str(raised.value).endswith(raised.value.hint)
    assert raised.value.hint or code == "shape/channels"
    assert isinstance(raised.value, (ValueError, MemoryError))
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), str(copy), copy.code) == (error, str(raised.value), code)


def test_an_argument_that_there_is_not_is_a_type_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'stride'"):
        convgrad.conv2d(X, W, 1, "SAME", stride=2)
    with pytest.raises(TypeError):
        convgrad.conv2d(X, W, 1.5, "SAME")


def test_no_elements():
    assert convgrad.conv2d(X[:0], W, 1, "SAME").shape == (0, 7, 6, 8)
    zero = convgrad.conv2d_backprop_filter(X[:0], W.shape, Y[:0], 1, "SAME")
    assert zero.shape == W.shape and not zero.any()


def test_threads_and_precision():
    for threads in (1, 2, 3):
        assert np.array_equal(convgrad.conv2d(X, W, 1, "SAME", threads=threads), Y)
    exact = convgrad.conv2d(X, W, 1, "SAME", precision="exact")
    assert np.array_equal(exact, convgrad.conv2d(X.astype(np.float64), W.astype(np.float64), 1, "SAME",
                                                 precision="exact").astype(np.float32))


def test_other_threads_run_meanwhile():
    """Many calls at once, of several threads, have the bits of one after the other; and a thread of
    Python goes on while a long one computes."""
    results = [None] * 8

    def work(index):
        results[index] = convgrad.conv2d(X, W, 1, "SAME")
    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result, Y) for result in results)

    steps, done = 0, threading.Event()
    large, filter = np.ones((1, 256, 256, 64), np.float32), np.ones((5, 5, 64, 64), np.float32)

    def compute():
        convgrad.conv2d(large, filter, 1, "SAME", threads=1, isa="scalar")
        done.set()
    thread = threading.Thread(target=compute)
    thread.start()
    while not done.wait(0.001):
        steps += 1
    thread.join()
    assert steps > 3


def in_child(queue):
    queue.put(convgrad.data_hash(convgrad.conv2d(X, W, 1, "SAME", threads=2)))


def test_a_child_of_fork_computes():
    convgrad.conv2d(X, W, 1, "SAME", threads=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == convgrad.data_hash(Y)
    child.join()


def test_a_result_outlives_its_operands_and_keeps_its_memory():
    result = convgrad.conv2d(X.copy(), W.copy(), 1, "SAME")
    view = result[1:]
    del result
    for _ in range(20):
        convgrad.conv2d(X, W, 1, "SAME")
    assert np.array_equal(view, Y[1:])


class Foreign:
    """A tensor of another framework, which has nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack():
    assert np.array_equal(convgrad.conv2d(Foreign(X), Foreign(W), 1, "SAME"), Y)


def test_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from convgrad import torch as ours
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x, w = torch.randn(2, 16, 15, 15, dtype=dtype), torch.randn(32, 8, 3, 3, dtype=dtype)
        w.requires_grad_()
        y = torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=2)
        dy = torch.randn_like(y)
        y.backward(dy)
        options = {"stride": 2, "padding": 1, "groups": 2}
        assert torch.allclose(ours.conv2d(x, w, **options).float(), y.float(), 1e-2, 0.1)
        dw = ours.conv2d_weight(x, w.shape, dy, **options)
        assert dw.dtype == dtype and dw.shape == w.shape
        attributes = {"input": x, "filter_sizes": w.shape, "out_backprop": dy, "strides": 2,
                      "padding": 1, "groups": 2}
        convgrad.assert_conv(w.grad, "torch.nn.grad.conv2d_weight", **attributes)
        convgrad.assert_conv(dw, "torch.nn.grad.conv2d_weight", **attributes)
        dx = ours.conv2d_input(x.shape, w, dy, **options)
        assert dx.shape == x.shape
        nhwc = x.to(memory_format=torch.channels_last)
        assert torch.equal(ours.conv2d(nhwc, w, **options), ours.conv2d(x, w, **options))


def test_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    for name in ("float32", "bfloat16", "float16"):  # float64 is switched on for a whole process
        dtype = jax.numpy.dtype(name)
        x, w, dy = (jax.numpy.asarray(array).astype(dtype) for array in (X, W, Y))
        y, gradient = jax.vjp(
            lambda w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), w)
        ours = convgrad.conv2d(x, w, 1, "SAME")
        assert ours.dtype == dtype and ours.shape == y.shape
        assert np.array_equal(ours, convgrad.conv2d(*map(np.asarray, (x, w)), 1, "SAME"))
        assert bool((jax.numpy.asarray(ours) == ours).all())
        attributes = {"filter_sizes": w.shape, "out_backprop": dy, "strides": 1, "padding": "SAME"}
        verdict = convgrad.check(gradient(dy)[0], "conv2d_backprop_filter", input=x, **attributes)
        assert verdict.status in ("PASSED", "SUSPECT"), verdict  # its sums of 16-bit types are its own affair
        assert convgrad.check(2 * gradient(dy)[0], "conv2d_backprop_filter", input=x, **attributes).status == "FAILED"
