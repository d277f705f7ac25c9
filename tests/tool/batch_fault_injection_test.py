#!/usr/bin/env python3
"""Fails the system calls of batches on their files, one at a time: `batch` with a report and events,
its workers, `--record`, `--resume` and `merge`. Whatever failed, each file is the old one or the new
one, the exit code says which, no unfinished file stays, and the next run makes up for it.

usage: tests/tool/batch_fault_injection_test.py PATH_OF_convgrad
Only some of the calls are failed, evenly chosen, each with the next of the errors it may meet.
CONVGRAD_TEST_FAULTS: at most how many calls of a kind for each command (6). Needs strace; exits 77
(skipped) without it or where processes may not be traced.
"""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import faults

NUM_CASES = 2
REPORTS = ("report.json", "whole.json")
MAX_CALLS = int(os.environ.get("CONVGRAD_TEST_FAULTS", "6"))
# Then the same call of another thread or process was the dynamic loader's.
LOADER_FAILED = b"error while loading shared libraries"
# Where nothing can be written, no command can succeed; what can't be read may not be needed.
WRITING = ("fallocate", "write", "fsync", "renameat")
# Calls that only a batch with workers makes, on no file.
WORKER_FAULTS = {
    "socketpair": {"EMFILE": "error", "ENOBUFS": "error"},
    "sendto": {"EINTR": "invisible", "EAGAIN": "invisible"},
    "recvfrom": {"EINTR": "invisible", "EAGAIN": "invisible"},
    "dup2": {"EMFILE": "error"},
    "execve": {"ENOMEM": "any", "EACCES": "any"},
}


def is_report(text, _):
    """A whole report, with an entry for each case."""
    try:
        return len(json.loads(text)["benchmarks"]) == NUM_CASES
    except ValueError:
        return False


def is_report_of_failure(text):
    """A whole report that says why it may lack entries, or that a case has failed."""
    try:
        report = json.loads(text)
    except ValueError:
        return False
    return "error" in report or any("error" in entry for entry in report["benchmarks"])


def has_events(least):
    """Whole lines of entries, `least` or more, after those that were there."""
    def is_new(text, old):
        lines = text[len(old):].split(b"\n")
        try:
            names = [json.loads(line)["name"] for line in lines[:-1]]
        except ValueError:
            return False
        return text.startswith(old) and lines[-1] == b"" and len(names) >= least
    return is_new


class Scene:
    """A command and the files that it replaces, with what they hold before."""

    def __init__(self, name, directory, tool, words):
        self.name = name
        self.directory = directory
        self.command = [tool, *words]
        self.old = {}  # path -> bytes, or None where there is no file
        self.is_new = {}  # path -> (bytes, old bytes) -> whether they are what a clean run leaves

    def writes(self, name, is_new=None):
        """Its content now is the old one; the new one is a clean run's unless `is_new` tells."""
        path = self.directory / name
        self.old[path] = path.read_bytes() if path.exists() else None
        self.is_new[path] = is_new
        return self

    def prepare(self):
        for path, content in self.old.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)

    def learn(self):
        """The files that a clean run leaves."""
        self.prepare()
        subprocess.run(self.command, check=True, capture_output=True)
        for path, is_new in self.is_new.items():
            if is_new is None:
                new = path.read_bytes()
                self.is_new[path] = lambda text, _, new=new: text == new
        if self.wrong_files(all_new=True):
            raise AssertionError(f"{self.name}: a clean run leaves {self.wrong_files(all_new=True)}")

    def run(self, call, inject=None):
        self.prepare()
        return faults.trace(self.command, self.directory, call, inject)

    def wrong_files(self, all_new):
        wrong = []
        for path, old in self.old.items():
            text = path.read_bytes() if path.exists() else None
            is_new = text is not None and self.is_new[path](text, old or b"")
            if is_new or (not all_new and self.is_sound(path, text, old)):
                continue
            wrong.append(f"{path.name} is " + ("not new" if all_new else "neither old nor new"))
        return wrong

    @staticmethod
    def is_sound(path, text, old):
        """A run that failed may leave: the old file, a report of the failure, or events of which
        the last is cut short."""
        if text == old:
            return True
        if path.suffix == ".jsonl":
            return has_events(0)(text[:text.rfind(b"\n") + 1], old or b"")
        return path.name in REPORTS and is_report_of_failure(text)

    def judge(self, done, expected, may_be_mute=False):
        """Says what is wrong with the end of a run, or None."""
        lines = done.stderr.decode().splitlines()
        wrong = self.wrong_files(all_new=done.returncode == 0)
        if wrong:
            return f"exit code {done.returncode}, but {wrong}: {lines}"
        if faults.leftovers(self.directory):
            return f"unfinished files stay: {faults.leftovers(self.directory)}"
        if done.returncode == 0:
            return "success is claimed" if expected == "error" else None
        if done.returncode != 4 or expected == "invisible":
            return f"exit code {done.returncode}: {lines}"
        shown = lines + done.stdout.decode().splitlines()
        if not shown and may_be_mute:
            return None
        if not any(line.startswith(("convgrad: error: ", "ERROR  ")) for line in shown):
            return f"no line of error: {lines}"
        return None

    def recover(self):
        """Says what is wrong with the next run, after one that failed, or None."""
        done = subprocess.run(self.command, capture_output=True, timeout=120)
        wrong = self.wrong_files(all_new=True)
        left = faults.leftovers(self.directory)
        for name in left:
            (self.directory / name).unlink()
        if done.returncode != 0 or wrong or left:
            return f"the next run: exit code {done.returncode}, {wrong}, leaves {left}"
        return None


def some(calls):
    """At most MAX_CALLS of them, evenly."""
    step = max(1, -(-len(calls) // MAX_CALLS))
    return calls[::step]


def try_errors(scene, all_faults, text):
    failures, tried = [], 0
    for call, errors in all_faults.items():
        scene.run(call)
        turns = itertools.cycle(errors.items())
        for number, line in some(faults.traced_calls(scene.directory, call, text)):
            error, expected = next(turns)
            if expected == "error" and (text and call not in WRITING or "O_DIRECTORY" in line):
                expected = "any"
            done = scene.run(call, f"error={error}:when={number}")
            if LOADER_FAILED in done.stderr:
                continue
            # Processes count their calls apart: the one that fails may be that of the error's own line.
            wrong = scene.judge(done, expected, call == "write") or scene.recover()
            tried += 1
            if wrong:
                failures.append(f"{scene.name}: {call} #{number} {error}: {wrong}")
    return failures, tried


def try_signals(scene, text):
    """SIGKILL and SIGTERM in turn at calls that make or move a file."""
    failures, tried = [], 0
    turns = itertools.cycle(("KILL", "TERM"))
    for call in ("openat", "write", "fsync", "renameat"):
        scene.run(call)
        for number, _ in some(faults.traced_calls(scene.directory, call, text)):
            signal = next(turns)
            scene.run(call, f"signal={signal}:when={number}")
            wrong = scene.wrong_files(all_new=False)
            if signal == "TERM":
                wrong += faults.leftovers(scene.directory)
            wrong = wrong or scene.recover()
            tried += 1
            if wrong:
                failures.append(f"{scene.name}: {call} #{number} SIG{signal}: {wrong}")
    return failures, tried


def write_manifest(tool, directory):
    """Two cases with operands in files and outputs; the golden of one of them, of other operands."""
    case = {"op": "depthwise_conv2d", "filter": "fill:normal@3,3,4,1", "padding": "SAME"}
    for name, seed in (("a", "1"), ("b", "2")):
        subprocess.run([tool, "gen", "--fill", "normal", "--shape", "1,8,8,4", "--seed", seed,
                        "--output", directory / f"{name}.x.npy"], check=True, capture_output=True)
    cases = [{**case, "name": name, "input": f"{name}.x.npy", "output": f"{name}.npy"}
             for name in ("a", "b")]
    goldens = [{**case, "name": name, "input": f"{name}.x.npy", "expect": f"{name}.golden.npy"}
               for name in ("a", "b")]
    for name, listed in (("cases", cases), ("goldens", goldens)):
        text = json.dumps({"schema": "convgrad-manifest/1", "cases": listed})
        (directory / f"{name}.json").write_text(text)


def make_scenes(tool, directory):
    write_manifest(tool, directory)
    cases, events = directory / "cases.json", directory / "events.jsonl"
    # One job: calls that are counted by thread are then the same in each run.
    batch = ["batch", cases, "--threads", "1", "--jobs", "1", "--quiet"]

    def run(*words):
        subprocess.run([tool, *words], check=True, capture_output=True)

    def scene(name, *words):
        return Scene(name, directory, tool, words)

    run(*batch)
    for name in ("a", "b"):  # what a run replaces is another case's output
        (directory / f"{name}.npy").write_bytes((directory / f"{name}.x.npy").read_bytes())
    logged = [*batch, "--events", events, "--report", directory / "report.json"]
    yield [s.writes("a.npy").writes("b.npy").writes("report.json", is_report)
           .writes("events.jsonl", has_events(NUM_CASES))
           for s in (scene("batch", *logged), scene("isolate", *logged, "--isolate"))]

    run(*logged)
    (directory / "b.npy").write_bytes(b"not the output")
    yield [scene("resume", *logged, "--resume").writes("b.npy").writes("report.json", is_report)
           .writes("events.jsonl", has_events(0))]

    record = ["batch", directory / "goldens.json", "--record", "--threads", "1", "--jobs", "1",
              "--quiet"]
    run(*record, "--reason", "first")
    run("gen", "--fill", "ones", "--shape", "1,8,8,4", "--output", directory / "a.golden.npy")
    kept = directory / "a.golden.npy.golden.json"  # of another result too, else it would be kept
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "sha256": "0" * 64}))
    yield [scene("record", *record, "--force-record", "--reason", "second")
           .writes("a.golden.npy").writes("a.golden.npy.golden.json")]

    parts = [directory / f"part-{i}.json" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        run(*batch, "--shard", f"{i}/2", "--report", part)
    yield [scene("merge", "merge", *parts, "--report", directory / "whole.json", "--junit",
                 directory / "junit.xml").writes("whole.json", is_report)
           .writes("junit.xml", lambda text, _: text.rstrip().endswith(b"</testsuites>"))]


def try_scene(scene):
    scene.learn()
    text = str(scene.directory)
    all_faults = dict(faults.FAULTS)
    if scene.name == "isolate":
        del all_faults["newfstatat"]  # by which a worker knows that it is one
    failures, tried = try_errors(scene, all_faults, text)
    if scene.name == "isolate":
        more, again = try_errors(scene, WORKER_FAULTS, None)
        failures, tried = failures + more, tried + again
    more, signals = try_signals(scene, text)
    print(f"{scene.name}: {tried} injected errors, {signals} signals")
    scene.prepare()
    return failures + more


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    if not faults.can_trace():
        print("skipped: strace is missing or may not trace")
        return faults.SKIPPED
    os.environ.pop("CI", None)  # in which nothing is recorded
    with tempfile.TemporaryDirectory() as name:
        scenes = make_scenes(tool, pathlib.Path(name).resolve())
        failures = [failure for group in scenes for scene in group for failure in try_scene(scene)]
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
