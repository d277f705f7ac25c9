"""TensorFlow's ways to compute a case: the operation itself, the operation between transposes where
it only takes NHWC, and the gradient of tf.nn's function where the operation ignores dilations. Its
own kernels or oneDNN's: the environment variable TF_ENABLE_ONEDNN_OPTS decides when it is loaded."""
import os

import tensorflow as tf

KERNELS = "oneDNN" if os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") == "1" else "own kernels"
NAME = f"TensorFlow {tf.__version__}, {KERNELS}"

OPERATIONS = {
    ("forward", False): tf.raw_ops.Conv2D,
    ("input", False): tf.raw_ops.Conv2DBackpropInput,
    ("filter", False): tf.raw_ops.Conv2DBackpropFilter,
    ("forward", True): tf.raw_ops.DepthwiseConv2dNative,
    ("input", True): tf.raw_ops.DepthwiseConv2dNativeBackpropInput,
    ("filter", True): tf.raw_ops.DepthwiseConv2dNativeBackpropFilter,
}


def prepare(threads):
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def tensor(array, dtype):
    given = tf.constant(array)
    return tf.bitcast(given, tf.bfloat16) if dtype == "bfloat16" else given


def stored(result, dtype):
    return (tf.bitcast(result, tf.uint16) if dtype == "bfloat16" else result).numpy()


def same_padding(size, kernel, stride, dilation):
    """The padding that SAME puts before and after."""
    out = -(-size // stride)
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def padding(case):
    """SAME and VALID have faster kernels than EXPLICIT, which not every operation has."""
    pads = (case.pt, case.pb, case.pl, case.pr)
    if pads == (*same_padding(case.h, case.kh, case.sh, case.dh),
                *same_padding(case.w, case.kw, case.sw, case.dw)):
        return "SAME", []
    if not any(pads):
        return "VALID", []
    rows, columns = pads[:2], pads[2:]
    if case.layout == "NHWC":
        return "EXPLICIT", [0, 0, *rows, *columns, 0, 0]
    return "EXPLICIT", [0, 0, 0, 0, *rows, *columns]


def in_order(case, layout, height, width):
    return [1, height, width, 1] if layout == "NHWC" else [1, 1, height, width]


def to_nhwc(data):
    return tf.transpose(data, [0, 2, 3, 1])


def to_nchw(data):
    return tf.transpose(data, [0, 3, 1, 2])


def operation(case, layout):
    """A function of the two operands, in that layout."""
    mode, explicit = padding(case)
    if mode == "EXPLICIT" and layout != case.layout:
        explicit = [*explicit[:2], *explicit[4:], 0, 0]  # from NCHW's order
    attributes = {
        "strides": in_order(case, layout, case.sh, case.sw),
        "dilations": in_order(case, layout, case.dh, case.dw),
        "padding": mode, "explicit_paddings": explicit, "data_format": layout,
    }
    run = OPERATIONS[case.direction, case.depthwise]
    if case.direction == "forward":
        return lambda data, weights: run(input=data, filter=weights, **attributes)
    if case.direction == "input":
        sizes = tf.constant([case.n, case.h, case.w, case.c] if layout == "NHWC"
                            else [case.n, case.c, case.h, case.w])
        return lambda weights, gradient: run(input_sizes=sizes, filter=weights,
                                             out_backprop=gradient, **attributes)
    sizes = tf.constant(case.filter_shape)
    return lambda data, gradient: run(input=data, filter_sizes=sizes, out_backprop=gradient,
                                      **attributes)


def gradient_of_function(case):
    """NHWC. Dilations by tf.nn, which moves space to the batch and back."""
    sizes = tf.zeros([case.n, case.h, case.w, case.c]), tf.zeros(case.filter_shape)

    def forward(data, weights):
        if case.depthwise:
            return tf.nn.depthwise_conv2d(data, weights, [1, 1, 1, 1], "SAME",
                                          dilations=[case.dh, case.dw])
        return tf.nn.convolution(data, weights, padding="SAME", dilations=[case.dh, case.dw])

    @tf.function
    def run(first, second):
        if case.direction == "forward":
            return forward(first, second)
        if case.direction == "input":
            data = tf.cast(sizes[0], first.dtype)
            return tf.gradients(forward(data, first), data, second)[0]
        weights = tf.cast(sizes[1], first.dtype)
        return tf.gradients(forward(first, weights), weights, second)[0]

    return run


def transposed(case, run):
    """An NHWC function for NCHW data."""
    if case.direction == "forward":
        return lambda data, weights: to_nchw(run(to_nhwc(data), weights))
    if case.direction == "input":
        return lambda weights, gradient: to_nchw(run(weights, to_nhwc(gradient)))
    return lambda data, gradient: run(to_nhwc(data), to_nhwc(gradient))


def ways(case, first, second):
    """Pairs of a name and a function that computes."""
    functions = {"": operation(case, "NHWC")}
    if case.dh * case.dw > 1 and padding(case)[0] == "SAME" and case.sh * case.sw == 1:
        functions["gradient of tf.nn"] = gradient_of_function(case)
    if case.layout == "NCHW":
        functions = {(name + ", transposed").strip(", "): transposed(case, run)
                     for name, run in functions.items()}
        functions["native NCHW"] = operation(case, "NCHW")
    return [(name, lambda run=run: run(first, second)) for name, run in functions.items()]
