"""The environment without what the tool reads of it, so that a CI system's or a cluster's own settings
do not matter."""
import os
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "environment.md"
KEPT = {"HOME", "TERM", "XDG_CACHE_HOME"}


def clear():
    for name in set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE.read_text(encoding="utf-8"))) - KEPT:
        os.environ.pop(name, None)
