#!/usr/bin/env python3
"""Fails the tool's system calls on its files, one at a time, and looks at what is left: the output is
the old file or the complete new one, no unfinished file stays, and the exit code says which.

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

    def __init__(self, tool, directory):
        self.directory = directory
        self.output = directory / "out.npy"
        for name, role, shape in (("x.npy", "input", "1,64,64,8"), ("dy.npy", "out_backprop", "1,64,64,8")):
            subprocess.run([tool, "gen", "--fill", "normal", "--shape", shape, "--dtype", "float32",
                            "--seed", "1", "--role", role, "--output", directory / name], check=True,
                           capture_output=True)
        self.command = [tool, "run", "depthwise_conv2d_backprop_filter", "--input", directory / "x.npy",
                        "--filter-sizes", "3,3,8,1", "--out-backprop", directory / "dy.npy",
                        "--strides", "1", "--padding", "SAME", "--threads", "1",
                        "--output", self.output, "--quiet"]
        subprocess.run(self.command, check=True, capture_output=True)
        self.new = self.output.read_bytes()

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
    with tempfile.TemporaryDirectory() as name:
        scene = Scene(tool, pathlib.Path(name).resolve())
        failures, tried = try_errors(scene)
        kill_failures, kills = try_kills(scene)
    for failure in failures + kill_failures:
        print("FAILED", failure)
    print(f"{tried} injected errors, {kills} signals, {len(failures + kill_failures)} failures")
    return 1 if failures or kill_failures else 0


if __name__ == "__main__":
    sys.exit(main())
