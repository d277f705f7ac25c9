"""The cases to compare: every workload of data/workloads.json in each pass, layout and type, with
operands of small integers, whose sums every order of addition gives exactly."""
import dataclasses
import json
import pathlib

import numpy

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "data" / "workloads.json"
PASSES = ("forward", "input", "filter")
LAYOUTS = ("NHWC", "NCHW")
# bfloat16 travels as its bits.
STORED = {"float16": "<f2", "bfloat16": "<u2", "float32": "<f4", "float64": "<f8"}
# The largest difference between two right results, as a share of the largest result.
ALLOWED = {"float16": 2**-9, "bfloat16": 2**-6, "float32": 2**-22, "float64": 2**-51}


@dataclasses.dataclass(frozen=True)
class Case:
    workload: dict
    direction: str  # of PASSES
    layout: str
    dtype: str

    @property
    def name(self):
        return self.workload["name"]

    @property
    def key(self):
        return self.name, self.direction, self.layout, self.dtype

    @property
    def depthwise(self):
        return self.workload["op"] == "depthwise"

    def __getattr__(self, size):
        """The sizes of the workload: n, h, w, c, k, kh, kw, sh, sw, dh, dw, pt, pb, pl, pr, ..."""
        try:
            return self.__dict__["workload"][size]
        except KeyError:
            raise AttributeError(size) from None

    def data_shape(self, height, width, channels):
        if self.layout == "NHWC":
            return self.n, height, width, channels
        return self.n, channels, height, width

    @property
    def input_shape(self):
        return self.data_shape(self.h, self.w, self.c)

    @property
    def output_shape(self):
        return self.data_shape(self.oh, self.ow, self.k)

    @property
    def filter_shape(self):
        return self.kh, self.kw, self.c, self.mult if self.depthwise else self.k

    @property
    def operand_shapes(self):
        """In TensorFlow's order."""
        return {
            "forward": (self.input_shape, self.filter_shape),
            "input": (self.filter_shape, self.output_shape),
            "filter": (self.input_shape, self.output_shape),
        }[self.direction]

    @property
    def problem(self):
        """The line that the timing server reads."""
        op = "depthwise_conv2d" if self.depthwise else "conv2d"
        if self.direction != "forward":
            op += "_backprop_" + self.direction

        def listed(sizes):
            return ",".join(str(size) for size in sizes)

        return (f"{op} {self.dtype} {self.layout} in={listed(self.input_shape)} "
                f"filter={listed(self.filter_shape)} strides={self.sh},{self.sw} "
                f"dilations={self.dh},{self.dw} "
                f"pads={self.pt},{self.pb},{self.pl},{self.pr} padding=EXPLICIT")


def all_cases(dtype):
    workloads = json.loads(WORKLOADS.read_text())["cases"]
    return [Case(workload, direction, layout, dtype)
            for direction in PASSES for layout in LAYOUTS for workload in workloads]


def operands(case):
    """Two arrays as they are stored."""
    random = numpy.random.default_rng(1)
    values = numpy.array([-2, -1, 1, 2], numpy.float32)
    return [to_stored(random.choice(values, shape), case.dtype) for shape in case.operand_shapes]


def to_stored(array, dtype):
    if dtype == "bfloat16":  # small integers: nothing is rounded
        return (array.view(numpy.uint32) >> 16).astype("<u2")
    return array.astype(STORED[dtype])


def from_stored(array, dtype):
    """As float32 or float64, exactly."""
    if dtype == "bfloat16":
        return (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array if dtype == "float64" else array.astype(numpy.float32)


def difference(actual, expected, dtype):
    """The largest difference of two stored arrays, as a share of the largest of `expected`."""
    if actual.shape != expected.shape:
        return float("inf")
    actual, expected = (from_stored(array, dtype) for array in (actual, expected))
    return float(numpy.max(numpy.abs(actual - expected)) / numpy.max(numpy.abs(expected)))
