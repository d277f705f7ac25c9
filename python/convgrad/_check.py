"""The verdict on a result that someone else computed."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from convgrad import _core
from convgrad._arguments import (Numbers, Options, Padding, Tensor, as_arguments, as_arrays,
                                 check_options)

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Unpack


class SuspectWarning(UserWarning):
    """A result that `assert_conv` lets pass, though it is further from the exact values than is usual."""


@dataclass(frozen=True)
class Diagnosis:
    """The usual mistake that explains every number."""

    hypothesis: str
    """A short name that stays: ``"filter-flipped"``."""
    exactly: bool
    """Every element is the mistake's exact value, rounded; else within its bound."""
    sentence: str
    """Says what is the matter, and what to do."""
    also: tuple[str, ...]
    """Other mistakes that explain these data as well."""


@dataclass(frozen=True)
class Counts:
    """Elements: all, those of another value, suspect, failing; NaN and infinite ones on either side."""

    elements: int
    differ: int
    suspect: int
    fail: int
    nan: int
    inf: int


@dataclass(frozen=True)
class WorstElement:
    """The element that is worst by one measure; `value` is that measure."""

    index: tuple[int, ...]
    actual: float
    expected: float
    value: float


@dataclass(frozen=True, repr=False)
class Verdict:
    """The verdict of `check`. True in a condition only if it PASSED."""

    status: str
    """``"PASSED"``, ``"SUSPECT"`` (further from the exact values than is usual) or ``"FAILED"``."""
    reason: str
    """One sentence."""
    detail: str
    """A second one, or ``""``."""
    policy: str
    """The level that judged: ``"bits"``, ``"exact class"``, ``"bound"``, or the tolerance."""
    counts: Counts
    worst: Mapping[str, WorstElement]
    """By measure: ``"bound"`` (error over what is allowed), ``"abs"``, ``"rel"``, ``"ulp"``. Empty
    where nothing differs."""
    where: str
    """Where the failing or suspect elements lie, in words, or ``""``."""
    diagnosis: Diagnosis | None
    errors: npt.NDArray[Any] | None = field(compare=False)
    """If asked for: each element's error as float32, by the measure of the level."""
    report: Mapping[str, Any] = field(compare=False)
    """The same as JSON: the key `check` of a report, which `docs/reference/report.md` describes."""
    text: str = field(compare=False)
    """The same as the command prints it."""

    @property
    def passed(self) -> bool:
        return self.status == "PASSED"

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return self.text.rstrip("\n")


def _number(entry: Mapping[str, Any], key: str) -> float:
    """JSON has no NaN and no infinity: the key KEY_class says which."""
    value = entry[key]
    return float(entry[f"{key}_class"] if value is None else value)


def _worst(entry: Mapping[str, Any]) -> WorstElement:
    return WorstElement(tuple(entry["index"]), _number(entry, "actual"), _number(entry, "expected"),
                        _number(entry, "value"))


def _diagnosis(entry: Mapping[str, Any] | None) -> Diagnosis | None:
    if entry is None:
        return None
    return Diagnosis(entry["hypothesis"], entry["explains"] == "exactly", entry["sentence"],
                     tuple(entry["also"]))


def _verdict(report: Mapping[str, Any], text: str, errors: Any) -> Verdict:
    return Verdict(
        status=report["status"], reason=report["reason"], detail=report["detail"],
        policy=report["policy"], counts=Counts(**report["counts"]),
        worst={measure: _worst(entry) for measure, entry in report["worst"].items() if entry},
        where=report["where"]["text"], diagnosis=_diagnosis(report.get("diagnosis")),
        errors=errors, report=report, text=text)


def check(actual: Tensor, op: str, *, input: Tensor | None = None, filter: Tensor | None = None,
          out_backprop: Tensor | None = None, filter_sizes: Sequence[int] | None = None,
          input_sizes: Sequence[int] | None = None, strides: Numbers = 1, padding: Padding,
          tolerance: str | None = None, golden_accumulator: str | None = None,
          operand_rounding: str | None = None, odds: float | None = None, errors: bool = False,
          **options: Unpack[Options]) -> Verdict:
    """Holds `actual`, which you computed, against the exact value of every element.

    Args:
        actual: the result under test, of any floating-point type.
        op: which result it is, by TensorFlow's name or PyTorch's: ``"conv2d_backprop_filter"``,
            ``"torch.nn.grad.conv2d_weight"`` (then images are NCHW and filters OIHW).
        input, filter, out_backprop, filter_sizes, input_sizes: the operands of `op`, and no others.
        strides, padding, options: as the operations take them.
        tolerance: None for the sharpest that the data allow, else ``"bits"``, ``"ulp:4"``,
            ``"abs:1e-6"``, ``"rel:1e-5"`` or ``"rtol:1e-5,atol:1e-8"``.
        golden_accumulator: what `actual` was summed in: ``"f16"``, ``"bf16"``, ``"tf32"``,
            ``"f32"``, ``"f64"``.
        operand_rounding: what float32 operands were rounded to before they were multiplied:
            ``"tf32"``, ``"bf16"``, ``"f16"``.
        odds: a result whose errors are less likely than this under any order of summation is
            FAILED; from 1e-300 to below 1, by default 1e-12.
        errors: also return the error of each element.

    Raises:
        Error: as the operations do. A result that is wrong is no error.
    """
    if not isinstance(op, str):
        raise TypeError(f"op, the second argument, is an operation's name, not {type(op).__name__}; "
                        "the result under test comes first")
    check_options("check", options)
    tensors = {"input": input, "filter": filter, "out_backprop": out_backprop, "actual": actual}
    arguments = {"filter_sizes": filter_sizes, "input_sizes": input_sizes, "strides": strides,
                 "padding": padding, "tolerance": tolerance,
                 "golden_accumulator": golden_accumulator, "operand_rounding": operand_rounding,
                 "odds": None if odds is None else repr(float(odds)), **options}
    entry, text, error_map = _core.check(op, as_arguments(arguments), as_arrays(tensors), errors)
    return _verdict(json.loads(entry)["check"], text, error_map)


def assert_conv(actual: Tensor, op: str, *, allow_suspect: bool = False, err_msg: str = "",
                **arguments: Any) -> None:
    """Raises AssertionError with the verdict unless `check` finds that `actual` is right.

    Args:
        actual, op, arguments: as `check` takes them.
        allow_suspect: a SUSPECT result is a `SuspectWarning`, no error.
        err_msg: put in front of the verdict.
    """
    __tracebackhide__ = True  # of pytest: the caller's line is what matters
    verdict = check(actual, op, **arguments)
    if verdict:
        return
    message = f"{err_msg}\n{verdict!r}" if err_msg else f"\n{verdict!r}"
    if verdict.status == "SUSPECT" and allow_suspect:
        warnings.warn(message, SuspectWarning, stacklevel=2)
        return
    raise AssertionError(message)
