"""The program `convgrad` of the package convgrad, found and run without importing that: it would
take longer than many a case."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys


def find() -> str | None:
    """The program's path."""
    package = importlib.util.find_spec("convgrad")
    for folder in (package and package.submodule_search_locations) or ():
        program = pathlib.Path(folder, "bin", "convgrad")
        if program.exists():
            return str(program)
    return None


def main() -> None:
    """Becomes the program."""
    program = find()
    if program is None:
        sys.exit("convgrad: error: its package has no program; install it again")
    os.execv(program, sys.argv)
