"""The six operations, by TensorFlow's names, with its operands in its order.

Operands are arrays of NumPy, or anything with ``__dlpack__`` or a buffer in the memory of the CPU:
float16, bfloat16, float32 or float64, both of one type. What lies in C order is not copied. The
result is an array of NumPy of the same type (bfloat16: of ml_dtypes), with the same bits on every
machine and for every number of threads. Other threads of Python run meanwhile.

`strides` is one number, two (height, width) or four in data_format order; `padding` is ``"SAME"``,
``"VALID"``, ``"EXPLICIT"`` or the pads themselves; `convgrad.Options` has the other arguments.

Errors are `convgrad.UsageError` for an argument that is wrong by itself, `convgrad.DataError` for
arrays that don't fit, `convgrad.ResourceError` for too little memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

from convgrad import _core
from convgrad._arguments import (Numbers, Options, Padding, Tensor, as_arguments, as_arrays, bfloat16,
                                 check_options, is_bfloat16, readable)

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Unpack


def compute(op: str, operands: Mapping[str, Any], arguments: Mapping[str, Any],
            dtype_of_bfloat16: Any = None) -> npt.NDArray[Any]:
    """The result of `op`; bfloat16 numbers are viewed as the type given, else as ml_dtypes has it."""
    if dtype_of_bfloat16 is None and any(map(is_bfloat16, operands.values())):
        dtype_of_bfloat16 = bfloat16()  # missing, it is better missed before the work
    result, dtype = _core.compute(op, as_arguments(arguments), as_arrays(operands))
    if dtype == "bfloat16":
        result = result.view(dtype_of_bfloat16)
    return result


def data_hash(tensor: Tensor) -> str:
    """SHA-256 of a tensor's type, shape and elements, as reports and goldens have it."""
    return _core.data_hash(*readable(tensor))


def _call(op: str, operands: Mapping[str, Any], sizes: Mapping[str, Any], strides: Numbers,
          padding: Padding, options: Mapping[str, Any]) -> npt.NDArray[Any]:
    check_options(op, options)
    return compute(op, operands, {**sizes, "strides": strides, "padding": padding, **options})


def conv2d(input: Tensor, filter: Tensor,
           strides: Numbers, padding: Padding,
           **options: Unpack[Options]) -> npt.NDArray[Any]:
    """A convolution (a cross-correlation, as everywhere).

    Args:
        input: the images, ``[N, H, W, C]``.
        filter: ``[kh, kw, C / groups, O]``.
        strides, padding, options: as this module's page says.

    Returns:
        The output, ``[N, OH, OW, O]``.
    """
    return _call("conv2d", {"input": input, "filter": filter}, {},
                 strides, padding, options)


def conv2d_backprop_filter(input: Tensor, filter_sizes: Sequence[int], out_backprop: Tensor,
                           strides: Numbers, padding: Padding,
                           **options: Unpack[Options]) -> npt.NDArray[Any]:
    """The gradient of `conv2d` by its filter.

    Args:
        input: the images, ``[N, H, W, C]``.
        filter_sizes: the filter's shape, ``[kh, kw, C / groups, O]``.
        out_backprop: the gradient by the output, ``[N, OH, OW, O]``.
        strides, padding, options: as this module's page says.

    Returns:
        The gradient, ``[kh, kw, C / groups, O]``.
    """
    return _call("conv2d_backprop_filter", {"input": input, "out_backprop": out_backprop}, {"filter_sizes": filter_sizes},
                 strides, padding, options)


def conv2d_backprop_input(input_sizes: Sequence[int], filter: Tensor, out_backprop: Tensor,
                          strides: Numbers, padding: Padding,
                          **options: Unpack[Options]) -> npt.NDArray[Any]:
    """The gradient of `conv2d` by its input: a transposed convolution.

    Args:
        input_sizes: the images' shape, ``[N, H, W, C]``, or height and width alone.
        filter: ``[kh, kw, C / groups, O]``.
        out_backprop: the gradient by the output, ``[N, OH, OW, O]``.
        strides, padding, options: as this module's page says.

    Returns:
        The gradient, ``[N, H, W, C]``.
    """
    return _call("conv2d_backprop_input", {"filter": filter, "out_backprop": out_backprop}, {"input_sizes": input_sizes},
                 strides, padding, options)


def depthwise_conv2d(input: Tensor, filter: Tensor,
                     strides: Numbers, padding: Padding,
                     **options: Unpack[Options]) -> npt.NDArray[Any]:
    """A depthwise convolution: each channel has filters of its own.

    Args:
        input: the images, ``[N, H, W, C]``.
        filter: ``[kh, kw, C, M]``.
        strides, padding, options: as this module's page says.

    Returns:
        The output, ``[N, OH, OW, C * M]``.
    """
    return _call("depthwise_conv2d", {"input": input, "filter": filter}, {},
                 strides, padding, options)


def depthwise_conv2d_backprop_filter(input: Tensor, filter_sizes: Sequence[int], out_backprop: Tensor,
                                     strides: Numbers, padding: Padding,
                                     **options: Unpack[Options]) -> npt.NDArray[Any]:
    """The gradient of `depthwise_conv2d` by its filter.

    Args:
        input: the images, ``[N, H, W, C]``.
        filter_sizes: the filter's shape, ``[kh, kw, C, M]``.
        out_backprop: the gradient by the output, ``[N, OH, OW, C * M]``.
        strides, padding, options: as this module's page says.

    Returns:
        The gradient, ``[kh, kw, C, M]``.
    """
    return _call("depthwise_conv2d_backprop_filter", {"input": input, "out_backprop": out_backprop}, {"filter_sizes": filter_sizes},
                 strides, padding, options)


def depthwise_conv2d_backprop_input(input_sizes: Sequence[int], filter: Tensor, out_backprop: Tensor,
                                    strides: Numbers, padding: Padding,
                                    **options: Unpack[Options]) -> npt.NDArray[Any]:
    """The gradient of `depthwise_conv2d` by its input.

    Args:
        input_sizes: the images' shape, ``[N, H, W, C]``, or height and width alone.
        filter: ``[kh, kw, C, M]``.
        out_backprop: the gradient by the output, ``[N, OH, OW, C * M]``.
        strides, padding, options: as this module's page says.

    Returns:
        The gradient, ``[N, H, W, C]``.
    """
    return _call("depthwise_conv2d_backprop_input", {"filter": filter, "out_backprop": out_backprop}, {"input_sizes": input_sizes},
                 strides, padding, options)
