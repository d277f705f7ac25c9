"""PyTorch's ways to compute a case: with oneDNN, and with its own kernels. Without NNPACK, whose
transforms (Winograd, Fourier) round otherwise than a sum of products does."""
import torch
import torch.nn.functional

NAME = f"PyTorch {torch.__version__.split('+')[0]}"


def prepare(threads):
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.backends.nnpack.set_flags(False)


def tensor(array, dtype):
    if dtype == "bfloat16":
        return torch.from_numpy(array.view("<i2")).view(torch.bfloat16)
    return torch.from_numpy(array)


def stored(result, dtype):
    if dtype == "bfloat16":
        return result.view(torch.int16).numpy().view("<u2")
    return result.numpy()


class Convolution:
    """A case in PyTorch's terms: dimensions are [n, c, h, w] whatever lies side by side, filters
    [out, in of a group, kh, kw]. Views cost nothing; where the memory has to be moved to or from
    the case's layouts, that is part of the computation."""

    def __init__(self, case):
        self.case = case
        self.format = torch.channels_last if case.layout == "NHWC" else torch.contiguous_format
        self.symmetric = case.pt == case.pb and case.pl == case.pr
        self.arguments = {
            "stride": (case.sh, case.sw),
            "padding": (case.pt, case.pl) if self.symmetric else (0, 0),
            "dilation": (case.dh, case.dw),
            "groups": case.groups,
        }

    def data(self, given):
        return given.permute(0, 3, 1, 2) if self.case.layout == "NHWC" else given

    def data_back(self, result):
        result = result.contiguous(memory_format=self.format)
        return result.permute(0, 2, 3, 1) if self.case.layout == "NHWC" else result

    def filter(self, given):
        case = self.case
        if case.depthwise:
            return given.permute(2, 3, 0, 1).reshape(case.c * case.mult, 1, case.kh, case.kw)
        return given.permute(3, 2, 0, 1)

    def filter_back(self, result):
        case = self.case
        if case.depthwise:
            result = result.reshape(case.c, case.mult, case.kh, case.kw).permute(2, 3, 0, 1)
        else:
            result = result.permute(2, 3, 1, 0)
        return result.contiguous()

    def padded(self, data):
        if self.symmetric:
            return data
        case = self.case
        return torch.nn.functional.pad(data, (case.pl, case.pr, case.pt, case.pb))

    def backward(self, gradient, data, weights, wanted):
        a = self.arguments
        return torch.ops.aten.convolution_backward(
            gradient, data, weights, None, a["stride"], a["padding"], a["dilation"], False, [0, 0],
            a["groups"], [wanted == "input", wanted == "filter", False])

    def forward(self, given_input, given_filter):
        result = torch.nn.functional.conv2d(self.padded(self.data(given_input)),
                                            self.filter(given_filter), **self.arguments)
        return self.data_back(result)

    def input_gradient(self, given_filter, given_gradient):
        case = self.case
        height = case.h if self.symmetric else case.h + case.pt + case.pb
        width = case.w if self.symmetric else case.w + case.pl + case.pr
        shape_only = torch.empty((case.n, case.c, height, width), dtype=given_filter.dtype,
                                 memory_format=self.format)
        result = self.backward(self.data(given_gradient), shape_only, self.filter(given_filter),
                               "input")[0]
        if not self.symmetric:
            result = result[:, :, case.pt:case.pt + case.h, case.pl:case.pl + case.w]
        return self.data_back(result)

    def filter_gradient(self, given_input, given_gradient):
        case = self.case
        shape_only = self.filter(torch.empty(case.filter_shape, dtype=given_input.dtype))
        result = self.backward(self.data(given_gradient), self.padded(self.data(given_input)),
                               shape_only, "filter")[1]
        return self.filter_back(result)


def ways(case, first, second):
    """Pairs of a name and a function that computes."""
    convolution = Convolution(case)
    compute = {"forward": convolution.forward, "input": convolution.input_gradient,
               "filter": convolution.filter_gradient}[case.direction]

    def run(with_onednn):
        if torch.backends.mkldnn.enabled != with_onednn:
            torch.backends.mkldnn.set_flags(with_onednn)
        return compute(first, second)

    return [("oneDNN", lambda: run(True)), ("own kernels", lambda: run(False))]
