"""The exceptions of this package: one class for each exit code of the command."""

from __future__ import annotations


class Error(Exception):
    """Something was asked for that can't be done.

    Attributes:
        code: what went wrong, in a word that stays: ``"attribute/strides"``. The page
            `docs/reference/errors.md` has them all.
        hint: what to do about it; ``""`` where there is nothing to say.
        exit_code: what the command would end with.
    """

    code: str
    hint: str
    exit_code: int

    def __init__(self, message: str, code: str = "", hint: str = "", exit_code: int = 0) -> None:
        super().__init__(message)
        self.code, self.hint, self.exit_code = code, hint, exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.code, self.hint, self.exit_code)


class UsageError(Error, ValueError):
    """An attribute or another argument that is wrong by itself."""


class DataError(Error, ValueError):
    """Arrays whose shapes or types don't fit the operation, or each other."""


class ResourceError(Error, MemoryError):
    """More memory is needed than there is, or than ``max_memory`` allows."""


class InternalError(Error, RuntimeError):
    """A defect of this package."""


_CLASSES: dict[int, type[Error]] = {2: UsageError, 3: DataError, 4: ResourceError, 70: InternalError}


def error_of(message: str, code: str, hint: str, exit_code: int) -> Error:
    """The exception that the extension raises for one of its own errors."""
    return _CLASSES.get(exit_code, Error)(message, code, hint, exit_code)
