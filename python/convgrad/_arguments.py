"""Turns Python's values into those that the extension takes: arrays that it can read, attributes as text."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Protocol, Sequence, TypedDict, Union

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


class SupportsDLPack(Protocol):
    """A tensor of another framework, in the memory of the CPU."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


Tensor = Union["npt.NDArray[Any]", SupportsDLPack, memoryview]
"""An operand: an array of NumPy, or anything with ``__dlpack__`` or a buffer."""

Numbers = Union[int, Sequence[int]]
"""A stride or a dilation for height and width alike, two for each, or four in data_format order."""

Padding = Union[str, int, Sequence[int], Sequence[Sequence[int]]]
"""``"SAME"``, ``"VALID"`` or pads: one for all sides, two for height and width, four or eight
numbers, or pairs of them."""


def is_bfloat16(tensor: Any) -> bool:
    """Whatever the framework: ``bfloat16``, ``torch.bfloat16``, ``<dtype: 'bfloat16'>``."""
    return "bfloat16" in str(getattr(tensor, "dtype", ""))


def readable(tensor: Any) -> tuple[Any, bool]:
    """An array that the extension can read, and whether its 16-bit integers are bfloat16 numbers."""
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    if not isinstance(tensor, np.ndarray) and not hasattr(tensor, "__dlpack__"):
        tensor = np.asarray(tensor)
    if not isinstance(tensor, np.ndarray):
        return tensor, False
    if not tensor.dtype.isnative:
        tensor = tensor.astype(tensor.dtype.newbyteorder("="))
    if not tensor.flags.c_contiguous:
        tensor = tensor.copy(order="C")
    return (tensor.view(np.uint16), True) if is_bfloat16(tensor) else (tensor, False)


def _text(value: Any) -> str:
    """A number, or a list of them, as a command line has it; words as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(operator.index(value))


def as_arguments(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Arguments as text; those that are None are left to their defaults."""
    return [(key, _text(value)) for key, value in values.items() if value is not None]


def as_arrays(tensors: Mapping[str, Any]) -> list[tuple[str, Any, bool]]:
    """Operands by name; those that are None were not given."""
    return [(key, *readable(tensor)) for key, tensor in tensors.items() if tensor is not None]


def bfloat16() -> Any:
    """The type that bfloat16 results have."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise ModuleNotFoundError("results of bfloat16 need the package ml_dtypes; "
                                  "pip install ml_dtypes") from error
    return ml_dtypes.bfloat16


class Options(TypedDict, total=False):
    """The options of every operation, besides its operands, `strides` and `padding`."""

    data_format: str | None
    """``"NHWC"`` (default) or ``"NCHW"``: the order of images and of their gradients."""
    dilations: Numbers | None
    """As strides; default 1."""
    explicit_paddings: Padding | None
    """The pads of padding ``"EXPLICIT"``, if `padding` does not have them itself: top, bottom, left,
    right, or a pair for each dimension."""
    filter_format: str | None
    """``"HWIO"`` (default), ``"OIHW"`` (PyTorch, ONNX) or ``"OHWI"``: the order of the filter, of its
    sizes and of its gradient."""
    groups: int | None
    """Refuses shapes that make another number of groups; they follow from the shapes."""
    precision: str | None
    """``"standard"`` (default), ``"double"`` or ``"exact"``."""
    threads: int | None
    """Default: as many as this process has processors."""
    isa: str | None
    """Default: the best instruction set that this machine has."""
    algorithm: str | None
    """Default: the best."""
    no_tuned: bool
    """Chooses as if ``convgrad tune`` had never run here."""
    max_memory: str | int | None
    """``"8GiB"``, or bytes; default: 80 % of what is available."""


def check_options(function: str, options: Mapping[str, Any]) -> None:
    """As Python itself refuses an argument that a function does not have."""
    for key in options:
        if key not in Options.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {key!r}")
