"""The tool's words about itself: help at a terminal's width, its topics, completions for shells.

usage: help_test.py CONVGRAD
"""
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

import tool_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPICS = ("ops", "fills", "tolerances", "verdicts", "manifest", "exit-codes")


def output_of(*command, **keywords):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **keywords).stdout


def on_terminal(columns, command, **variables):
    """The output of the command on a terminal of so many columns. Where the system has none to give,
    as in a change of root without /dev/pts, the test is skipped."""
    try:
        child, terminal = pty.fork()
    except OSError as error:
        raise unittest.SkipTest(f"no terminals here: {error}") from None
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", **variables})
    text = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            text += piece
    except OSError:
        pass  # the terminal's other side is closed
    os.close(terminal)
    os.waitpid(child, 0)
    return text.decode().replace("\r\n", "\n")


def commands_and_flags():
    """{command: its flags}, from the reference that the tool prints."""
    page = output_of("convgrad", "help", "--format", "markdown")
    flags = {}
    for name, commands in re.findall(r"^\| `(?:-\w, )?--([a-z0-9-]+)[^`]*` \| ([a-z, ]+) \|", page,
                                     re.MULTILINE):
        for command in commands.split(", "):
            flags.setdefault(command, set()).add(f"--{name}")
    return flags


class Help(unittest.TestCase):
    def test_lines_fit_the_terminal(self):
        in_file = output_of("convgrad", "help", "run")
        self.assertGreater(max(map(len, in_file.splitlines())), 90)
        for columns in (60, 80, 132):
            for subject in ("", *TOPICS, "run", "batch"):
                text = on_terminal(columns, ["convgrad", "help", *subject.split()])
                prose = text.split("\nExamples", maxsplit=1)[0]
                # Words that no blank breaks are as long as they are.
                long = [line for line in prose.splitlines()
                        if len(line) > columns and len(line.split(maxsplit=1)[-1].split()) > 1
                        and not line.startswith(("  --", "  -o", "Usage"))]
                self.assertEqual(long, [], (columns, subject))
        self.assertGreater(max(map(len, on_terminal(132, ["convgrad", "help", "fills"]).split("\n"))),
                           105)

    def test_topics_are_the_reference(self):
        for topic, words in {
                "ops": ["depthwise_conv2d_backprop_filter", "takes: "],
                "fills": ["uniform:LOW:HIGH", "impulse:INDEX"],
                "tolerances": ["rtol:X,atol:Y", "|actual - expected| <= X |expected|", "exact class"],
                "verdicts": ["SUSPECT", "SLOWER", "with --allow-suspect 0"],
                "manifest": ['"schema": "convgrad-manifest/1"', "out_backprop", "defaults"],
                "exit-codes": ["128+n", "70"]}.items():
            text = output_of("convgrad", "help", topic)
            flat = " ".join(text.split())
            for word in words:
                self.assertIn(" ".join(word.split()), flat, topic)
            self.assertNotRegex(text, r"`|\]\(|\|---", topic)
            self.assertIn(topic, output_of("convgrad", "help"))

    def test_verdicts_are_coloured_on_terminals_alone(self):
        check = ["convgrad", "check", "conv2d", "--padding", "SAME", "--input",
                 "fill:normal@1,5,5,2", "--filter", "fill:normal@3,3,2,2"]
        green = "\x1b[32mPASSED\x1b[0m"
        self.assertIn(green, on_terminal(80, check))
        self.assertNotIn("\x1b", on_terminal(80, check, NO_COLOR="1"))
        self.assertNotIn("\x1b", on_terminal(80, check, TERM="dumb"))
        self.assertNotIn("\x1b", output_of(*check))
        self.assertIn(green, output_of(*check, "--color", "always"))
        with tempfile.TemporaryDirectory() as folder:
            manifest = pathlib.Path(folder, "m.json")
            manifest.write_text(
                '{"schema": "convgrad-manifest/1", "cases": [{"name": "a", "op": "conv2d", "padding": '
                '"SAME", "input": "fill:ones@1,4,4,1", "filter": "fill:ones@3,3,1,1", "expect": '
                '{"sha256": "%s"}}]}' % ("0" * 64))
            text = on_terminal(80, ["convgrad", "batch", str(manifest)])
            self.assertEqual(text.count("\x1b[31mFAILED\x1b[0m"), 2, text)
            # Standard error is a file here, whatever standard output is.
            errors = pathlib.Path(folder, "errors")
            on_terminal(80, ["sh", "-c", f"convgrad batch {manifest} --quiet 2>{errors}"])
            self.assertIn("FAILED", errors.read_text())
            self.assertNotIn("\x1b", errors.read_text())


class Completions(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.flags = commands_and_flags()
        self.assertGreater(len(self.flags["batch"]), 20)

    def file_for(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"no {shell}")
        path = self.folder / f"convgrad.{shell}"
        path.write_text(output_of("convgrad", "help", "--format", shell))
        subprocess.run([shell, "-n", path], check=True)
        return path

    def in_bash(self, *words):
        script = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _convgrad; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        return output_of("bash", "-c", script, self.bash_file, "convgrad", *words,
                         cwd=self.folder).split()

    def test_bash(self):
        self.bash_file = self.file_for("bash")
        self.assertEqual(set(self.in_bash("")) - {"--help", "--version"}, set(self.flags))
        for command, flags in self.flags.items():
            self.assertEqual({word for word in self.in_bash(command, "-") if len(word) > 2}, flags)
        self.assertEqual(self.in_bash("run", "--data-format", ""), ["NHWC", "NCHW"])
        self.assertEqual(self.in_bash("run", "--strides", ""), [])
        self.assertEqual(self.in_bash("plan", "depthwise_conv2d_backprop_f"),
                         ["depthwise_conv2d_backprop_filter"])
        self.assertEqual(self.in_bash("help", "tol"), ["tolerances"])
        (self.folder / "in put.npy").touch()
        for words in (["inspect", "in"], ["run", "conv2d", "--input", "in"], ["run", "-o", "in"]):
            self.assertEqual(self.in_bash(*words), ["in", "put.npy"], words)

    def test_fish(self):
        path = self.file_for("fish")

        def complete(line):
            listed = output_of("fish", "--no-config", "-c", f'source {path}; complete -C "{line}"',
                               cwd=self.folder)
            return {row.split("\t")[0] for row in listed.splitlines()}
        self.assertLessEqual(set(self.flags), complete("convgrad "))
        for command, flags in self.flags.items():
            self.assertEqual({word for word in complete(f"convgrad {command} --")}, flags)
        self.assertEqual(complete("convgrad run --padding S"), {"SAME"})
        self.assertIn("depthwise_conv2d", complete("convgrad check d"))

    def test_zsh(self):
        path = self.file_for("zsh")
        text = path.read_text()
        for command, flags in self.flags.items():
            own = text[text.index(f"      {command}) _arguments"):].split(";;")[0]
            # '--flag[...', or '(-o --output)'{-o,--output}'[...'.
            self.assertEqual(set(re.findall(r"^\s+'(--[a-z0-9-]+)\[", own, re.MULTILINE)) |
                             set(re.findall(r"\{-\w,(--[a-z0-9-]+)\}", own)), flags)
        # _arguments takes each specification as it is written.
        output = output_of("zsh", "-fc", f"""
            autoload -U compinit; compinit -u -D
            _files() {{ }}; source {path}
            [[ $_comps[convgrad] == _convgrad ]] || exit 1
            _describe() {{ }}
            _arguments() {{
              if [[ $1 == -C ]]; then state=argument line=($command); else print -l -- "$@"; fi
            }}
            for command in {" ".join(self.flags)}; do _convgrad; done""")
        self.assertIn("'-' for standard output]:F:_files", output)


if __name__ == "__main__":
    tool_environment.run_tests()
