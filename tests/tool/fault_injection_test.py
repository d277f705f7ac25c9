#!/usr/bin/env python3
"""Fails the tool's system calls on its files, one at a time, and looks at what is left: the output is
the old file or the complete new one, no unfinished file stays, and the exit code says which.

A result, a part of one and a sum of parts are tried.

usage: tests/tool/fault_injection_test.py PATH_OF_convgrad
Needs strace; exits 77 (skipped) without it or where processes may not be traced.
"""
import pathlib
import subprocess
import sys
import tempfile

import faults

OLD = b"the old output"


class Scene:
    """A directory with operands, an old output and the command that replaces it."""

    # Of calls that the command has no reason to make.
    without = ()

    def __init__(self, tool, directory):
        self.directory = directory
        for name, role, shape in (("x.npy", "input", "1,64,64,8"), ("dy.npy", "out_backprop", "1,64,64,8")):
            subprocess.run([tool, "gen", "--fill", "normal", "--shape", shape, "--dtype", "float32",
                            "--seed", "1", "--role", role, "--output", directory / name], check=True,
                           capture_output=True)
        self.output = directory / "out.npy"
        self.command = self.make_command(tool)
        subprocess.run(self.command, check=True, capture_output=True)
        self.new = self.output.read_bytes()

    def gradient(self, tool, *more):
        return [tool, "run", "depthwise_conv2d_backprop_filter", "--input", self.directory / "x.npy",
                "--filter-sizes", "3,3,8,1", "--out-backprop", self.directory / "dy.npy",
                "--strides", "1", "--padding", "SAME", "--threads", "1", "--quiet", *more]

    def make_command(self, tool):
        return self.gradient(tool, "--output", self.output)

    def run(self, call, inject=None):
        """Runs under strace; returns the finished process."""
        self.output.write_bytes(OLD)
        return faults.trace(self.command, self.directory, call, inject)

    def calls_on_our_files(self, call):
        """(number from 1, text) of each call of a clean run that names this directory."""
        self.run(call)
        return faults.traced_calls(self.directory, call, str(self.directory))

    def leftovers(self):
        return faults.leftovers(self.directory)


class PartScene(Scene):
    """The exact sum of a gradient, not rounded."""

    def make_command(self, tool):
        return self.gradient(tool, "--precision", "exact", "--partial", self.output)


class ReduceScene(Scene):
    """Two parts put together, read in pieces and not mapped."""

    without = ("mmap",)

    def make_command(self, tool):
        parts = [self.directory / "part-0.cgp", self.directory / "part-1.cgp"]
        for image, part in enumerate(parts):
            subprocess.run(self.gradient(tool, "--precision", "exact", "--first-image", str(image),
                                         "--partial", part), check=True, capture_output=True)
        return [tool, "reduce", *parts, "--partial", self.output, "--threads", "1", "--quiet"]


def check_outcome(scene, done, expected):
    """Says what is wrong with the end of a run, or None."""
    output = scene.output.read_bytes()
    lines = done.stderr.decode().splitlines()
    if output not in (OLD, scene.new):
        return f"the output is neither old nor complete ({len(output)} bytes)"
    if scene.leftovers():
        return f"unfinished files stay: {scene.leftovers()}"
    if done.returncode == 0:
        return None if output == scene.new and expected != "error" else "success is claimed"
    if done.returncode != 4 or expected == "invisible":
        return f"exit code {done.returncode}: {lines}"
    if len(lines) != 1 or not lines[0].startswith("convgrad: error: "):
        return f"not one line of error: {lines}"
    return None


def try_errors(scene):
    failures, tried = [], 0
    for call, errors in faults.FAULTS.items():
        calls = scene.calls_on_our_files(call)
        if not calls and call in scene.without:
            continue
        if not calls:
            failures.append(f"{call}: the run makes no such call, so the test proves nothing")
        flushed = next((number for number, text in calls if ".tmp-" in text), None)
        for number, text in calls:
            for error, expected in errors.items():
                # It is a copy of the output's descriptor: what a network file system says then is of
                # writes that failed.
                if call == "close" and number == flushed:
                    expected = "error"
                if "O_DIRECTORY" in text:  # listing for leftovers, or fsync of the directory
                    expected = "any"
                done = scene.run(call, f"error={error}:when={number}")
                wrong = check_outcome(scene, done, expected)
                tried += 1
                if wrong:
                    failures.append(f"{call} #{number} {error}: {wrong}")
    return failures, tried


def try_kills(scene):
    """SIGKILL before and SIGTERM at each call that makes or moves the output."""
    failures, tried = [], 0
    for call in ("openat", "fallocate", "write", "fsync", "renameat", "close"):
        for number, _ in scene.calls_on_our_files(call):
            for signal in ("KILL", "TERM"):
                scene.run(call, f"signal={signal}:when={number}")
                tried += 1
                if scene.output.read_bytes() not in (OLD, scene.new):
                    failures.append(f"{call} #{number} SIG{signal}: the output is half written")
                if signal == "TERM" and scene.leftovers():
                    failures.append(f"{call} #{number} SIGTERM: {scene.leftovers()} stay")
                scene.run(call)  # the next run cleans up
                if scene.leftovers():
                    failures.append(f"{call} #{number} SIG{signal}: the next run leaves {scene.leftovers()}")
                    for name in scene.leftovers():
                        (scene.directory / name).unlink()
    return failures, tried


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    if not faults.can_trace():
        print("skipped: strace is missing or may not trace")
        return faults.SKIPPED
    failures, tried = [], 0
    for kind in (Scene, PartScene, ReduceScene):
        with tempfile.TemporaryDirectory() as name:
            scene = kind(tool, pathlib.Path(name).resolve())
            for failed, count in (try_errors(scene), try_kills(scene)):
                failures += [f"{kind.__name__}: {failure}" for failure in failed]
                tried += count
    for failure in failures:
        print("FAILED", failure)
    print(f"{tried} injected errors and signals, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
