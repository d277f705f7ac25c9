"""Runs what the README shows, in a scratch folder that looks like the repository's root.

A block marked `sh` must exit 0. In a block marked `console` each line after "$ " is a command, and
what follows is what it must print: "..." stands for anything within a line, a line "..." for any
lines, and a last line "[exit status N]" for a status other than 0.

usage: readme_test.py CONVGRAD README
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CONVGRAD = README = None
ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATUS = re.compile(r"\[exit status (\d+)\]\n\Z")


def commands(kind, block):
    """Yields (command, expected output or None, expected status)."""
    if kind == "sh":
        yield block, None, 0
        return
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n", part).group()
        expected = part[len(command):]
        status = STATUS.search(expected)
        yield command, STATUS.sub("", expected), int(status.group(1)) if status else 0


def pattern(expected):
    lines = [r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
             for line in expected.splitlines()]
    return "".join(lines)


class Readme(unittest.TestCase):
    def test_every_command_does_what_is_shown(self):
        blocks = BLOCK.findall(README.read_text(encoding="utf-8"))
        self.assertTrue(blocks, "the README shows no commands")
        with tempfile.TemporaryDirectory() as scratch:
            for folder in ("data", "scripts"):
                pathlib.Path(scratch, folder).symlink_to(ROOT / folder)
            pathlib.Path(scratch, "bin").mkdir()
            pathlib.Path(scratch, "bin", "convgrad").symlink_to(CONVGRAD)
            for kind, block in blocks:
                for command, expected, status in commands(kind, block):
                    with self.subTest(command=command):
                        self.run_one(scratch, command, expected, status)

    def run_one(self, scratch, command, expected, status):
        environment = os.environ | {"PATH": f"{scratch}/bin:{os.environ['PATH']}",
                                    "XDG_CACHE_HOME": f"{scratch}/cache"}
        done = subprocess.run(["sh", "-euc", command], cwd=scratch, env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, status, done.stdout)
        if expected is not None:
            self.assertRegex(done.stdout, rf"\A{pattern(expected)}\Z")


if __name__ == "__main__":
    CONVGRAD = pathlib.Path(sys.argv.pop(1)).resolve()
    README = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
