"""The environment without what the tool reads of it, so that a CI system's or a cluster's own settings
do not matter."""
import os
import pathlib
import re
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "environment.md"
KEPT = {"HOME", "TERM", "XDG_CACHE_HOME"}


def clear():
    for name in set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE.read_text(encoding="utf-8"))) - KEPT:
        os.environ.pop(name, None)


def run_tests():
    """Runs the tests of the program that calls this, which find the tool that its first word names on
    their PATH, as `convgrad`."""
    binary = pathlib.Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory() as programs:
        pathlib.Path(programs, "convgrad").symlink_to(binary)
        os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
        clear()
        unittest.main()
