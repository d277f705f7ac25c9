"""The cases to compare: every layer of a list in each pass, layout and type, with operands of small
integers, whose sums every order of addition gives exactly."""
import dataclasses
import json
import random

import numpy

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

    @property
    def groups(self):
        return self.c if self.depthwise else self.workload.get("groups", 1)

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
        if self.depthwise:
            return self.kh, self.kw, self.c, self.mult
        return self.kh, self.kw, self.c // self.groups, self.k

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


# Layers that a kernel meets alike, by their sizes; the first that fits.
FAMILIES = (
    ("depthwise, multiplier", lambda c: c.depthwise and c.mult > 1),
    ("depthwise, dilated", lambda c: c.depthwise and c.dh * c.dw > 1),
    ("depthwise 1xK, Kx1", lambda c: c.depthwise and 1 in (c.kh, c.kw)),
    ("depthwise, stride", lambda c: c.depthwise and c.sh * c.sw > 1),
    ("depthwise 3x3", lambda c: c.depthwise and c.kh * c.kw <= 9),
    ("depthwise 5x5, 7x7", lambda c: c.depthwise and c.kh * c.kw <= 49),
    ("depthwise, larger", lambda c: c.depthwise),
    ("conv2d, groups", lambda c: c.groups > 1),
    ("conv2d, one pixel", lambda c: c.oh * c.ow == 1),  # a matrix product
    ("conv2d, height 1", lambda c: c.h == 1 or c.w == 1),
    ("conv2d, patches", lambda c: (c.kh, c.kw) == (c.sh, c.sw) != (1, 1)),
    ("conv2d, up to 4 channels", lambda c: min(c.c, c.k) <= 4),
    ("conv2d 1x1", lambda c: c.kh * c.kw * c.sh * c.sw == 1),
    ("conv2d, stride or dilation", lambda c: c.sh * c.sw * c.dh * c.dw > 1),
    ("conv2d 3x3", lambda c: (c.kh, c.kw) == (3, 3)),
    ("conv2d, other filters", lambda c: True),
)


def family(case):
    return next(name for name, fits in FAMILIES if fits(case))


def read_cases(lists, dtype, sample, seed):
    """All passes and layouts of the layers of some files; with `sample`, so many of them that the
    seed draws."""
    layers = [layer for file in lists for layer in json.loads(file.read_text())["cases"]]
    cases = [Case(layer, direction, layout, dtype)
             for direction in PASSES for layout in LAYOUTS for layer in layers]
    if sample is None or sample >= len(cases):
        return cases
    return random.Random(seed).sample(cases, sample)


def operands(case):
    """Two arrays as they are stored."""
    generator = numpy.random.default_rng(1)
    values = numpy.array([-2, -1, 1, 2], numpy.float32)
    return [to_stored(generator.choice(values, shape), case.dtype) for shape in case.operand_shapes]


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
