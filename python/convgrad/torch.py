"""The operations that PyTorch has names for, with PyTorch's arguments: images are NCHW, weights OIHW.

They take tensors of PyTorch on the CPU, or anything that `convgrad.conv2d` takes, and return a tensor
of PyTorch where they were given one, else an array of NumPy. Neither way is anything copied that is
contiguous. `stride` and `dilation` are a number or (height, width); `padding` likewise, or ``"same"``
or ``"valid"``. There is no bias, and no gradient is recorded.
"""

from __future__ import annotations

import sys
from typing import Any, Mapping, Sequence

import numpy as np

from convgrad._arguments import Numbers, Padding, Tensor
from convgrad._ops import compute


def _like(operand: Any, result: Any) -> Any:
    """The result as the operand's framework has it."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(operand, torch.Tensor):
        return result
    if operand.dtype == torch.bfloat16:
        return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(result)


def _call(name: str, operands: Mapping[str, Any], sizes: Mapping[str, Any], stride: Numbers,
          padding: Padding, dilation: Numbers, groups: int, threads: int | None) -> Any:
    arguments = {**sizes, "strides": stride, "padding": padding, "dilations": dilation,
                 "groups": groups, "threads": threads}
    first = next(iter(operands.values()))
    torch = sys.modules.get("torch")
    bits = np.int16 if torch is not None and isinstance(first, torch.Tensor) else None
    return _like(first, compute(name, operands, arguments, bits))


def conv2d(input: Tensor, weight: Tensor, *, stride: Numbers = 1, padding: Padding = 0,
           dilation: Numbers = 1, groups: int = 1, threads: int | None = None) -> Any:
    """``torch.nn.functional.conv2d``: [N, C, H, W] and [O, C / groups, kh, kw] to [N, O, OH, OW]."""
    return _call("torch.nn.functional.conv2d", {"input": input, "filter": weight}, {},
                 stride, padding, dilation, groups, threads)


def conv2d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor,
                  stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
                  groups: int = 1, *, threads: int | None = None) -> Any:
    """``torch.nn.grad.conv2d_weight``: the gradient by the weight, of the shape `weight_size`."""
    return _call("torch.nn.grad.conv2d_weight", {"input": input, "out_backprop": grad_output},
                 {"filter_sizes": weight_size}, stride, padding, dilation, groups, threads)


def conv2d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor,
                 stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
                 groups: int = 1, *, threads: int | None = None) -> Any:
    """``torch.nn.grad.conv2d_input``: the gradient by the input, of the shape `input_size`."""
    return _call("torch.nn.grad.conv2d_input", {"filter": weight, "out_backprop": grad_output},
                 {"input_sizes": input_size}, stride, padding, dilation, groups, threads)
