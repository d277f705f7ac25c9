"""Manifests of convgrad as tests of pytest: each case one.

Collected are files *.convgrad.json and *.convgrad.jsonl, and those that the ini option
`convgrad_manifests` names. One process of `convgrad batch` runs the cases of a manifest; each test
waits for its own case. Needs nothing but pytest and the command: the one in the package convgrad,
else that on PATH.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

import convgrad_command
import pytest

SUFFIXES = (".convgrad.json", ".convgrad.jsonl")
MOST_SELECTION = 1 << 17  # letters, on a command line


def pytest_addoption(parser):
    group = parser.getgroup("convgrad", "manifests of convgrad")
    group.addoption("--convgrad-record", action="store_true",
                    help="make results the goldens that cases name and that are missing")
    group.addoption("--convgrad-update", action="store_true",
                    help="the same, and replace goldens that differ")
    parser.addini("convgrad_manifests", "further manifests: patterns relative to this file's folder",
                  type="linelist", default=[])
    parser.addini("convgrad_args", "further flags of 'convgrad batch', e.g. --allow-suspect --jobs 2",
                  type="args", default=[])


def pytest_collect_file(file_path, parent):
    if file_path.name.endswith(SUFFIXES) or _is_listed(file_path, parent.config):
        return ManifestFile.from_parent(parent, path=file_path)
    return None


def _is_listed(path, config):
    try:
        relative = path.relative_to(config.rootpath).as_posix()
    except ValueError:
        return False
    return any(fnmatch.fnmatch(relative, pattern) for pattern in config.getini("convgrad_manifests"))


def command():
    """The path of the program `convgrad`."""
    program = convgrad_command.find() or shutil.which("convgrad")
    if program is None:
        raise ManifestError("there is no command convgrad; pip install convgrad")
    return program


def _last_line(text):
    return text.strip().rpartition("\n")[2] or "it said nothing"


def _name_of(words):
    """The name of the case that a command line runs alone."""
    for word, following in zip(words, [*words[1:], ""]):
        if word == "--name":
            return following
        if word.startswith("--name="):
            return word[len("--name="):]
    raise ValueError(f"a case without a name: {shlex.join(words)}")


class ManifestError(Exception):
    """The command's words about a manifest that it refuses."""


class ManifestFile(pytest.File):
    def collect(self):
        flags = self.config.getini("convgrad_args")
        done = subprocess.run([command(), "batch", str(self.path), "--list", *flags],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise ManifestError(done.stderr.strip())
        names = [_name_of(shlex.split(line)) for line in done.stdout.splitlines()]
        if not names:
            raise ManifestError(f"{self.path}: no case would run")
        self.batch = Batch(self.path, self.config, set(names))
        for name in names:
            yield CaseItem.from_parent(self, name=name)

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, ManifestError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


class CaseFailure(Exception):
    """A case that is not right."""


class CaseItem(pytest.Item):
    def runtest(self):
        entry = self.parent.batch.entry(self)
        if entry["exit_code"] != 0:
            raise CaseFailure(why(entry))
        if entry["status"] == "COMPUTED":
            pytest.skip("there was no golden to compare with")
        self.add_report_section("call", "convgrad", entry["status"])

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, (CaseFailure, ManifestError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: {self.name}"


def why(entry):
    """The report's words about a case that is not right, and the command line that repeats it."""
    check = entry.get("check", {})
    lines = [entry["status"], entry.get("error", check).get("message", check.get("reason")),
             check.get("detail")]
    if "diagnosis" in check:
        lines.append("explained by {hypothesis}, {explains}: {sentence}".format(**check["diagnosis"]))
    if check.get("where", {}).get("text"):
        lines.append("where: " + check["where"]["text"])
    return "\n".join([*filter(None, lines), f"repeat alone: {entry['repro']}"])


class Batch:
    """The one process that runs a manifest's cases, and what has come of them. Processes of
    pytest-xdist share it: whoever asks first starts it, all read the lines that it appends to a
    file. It holds a lock while it lives, so that all of them see when it has ended."""

    def __init__(self, path, config, names):
        self.path, self.config, self.names = path, config, names
        self.entries = {}
        self.read = 0
        self.folder = None

    def entry(self, item):
        """The entry of the case, when it has finished."""
        if self.folder is None:
            self._join(item.session)
        pause = 0.001
        while item.name not in self.entries:
            has_ended = _has_ended(self.folder)  # before reading: what it wrote last is read below
            self._read()
            if item.name in self.entries:
                break
            if has_ended:
                raise ManifestError("the batch ended before this case: " +
                                    _last_line((self.folder / "stderr").read_text()))
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return self.entries[item.name]

    def _join(self, session):
        """Starts the batch unless it has been started."""
        self.folder = _folder_of_run(self.config) / hashlib.sha256(
            os.fsencode(self.path)).hexdigest()[:16]
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (self.folder / "pid").exists():
                return
            words = [command(), "batch", str(self.path), "--events",
                     str(self.folder / "events.jsonl"), "--quiet", *_flags(self.config),
                     *self._selection(session)]
            with open(self.folder / "stderr", "w") as errors:
                self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=errors,
                                                stderr=errors, pass_fds=[lock.fileno()])
            (self.folder / "pid").write_text(str(self.process.pid))

    def _selection(self, session):
        """Flags for the cases whose tests pytest runs; none for all, nor for more than fit."""
        names = {item.name for item in session.items
                 if isinstance(item, CaseItem) and item.parent.batch is self}
        words = [word for name in sorted(names) for word in ("--match", _as_glob(name))]
        return words if names != self.names and sum(map(len, words)) < MOST_SELECTION else []

    def _read(self):
        """The lines that are new; a last one without its end is left for the next time."""
        try:
            with open(self.folder / "events.jsonl", "rb") as events:
                events.seek(self.read)
                text = events.read()
        except FileNotFoundError:
            return
        whole = text[:text.rfind(b"\n") + 1]
        self.read += len(whole)
        for line in whole.splitlines():
            entry = json.loads(line)
            self.entries[entry["name"]] = entry


def _as_glob(name):
    """The pattern that matches this name alone."""
    return re.sub(r"([*?\[\\])", r"\\\1", name)


def _has_ended(folder):
    with open(folder / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _flags(config):
    flags = list(config.getini("convgrad_args"))
    if config.getoption("--convgrad-update"):
        return [*flags, "--record", "--force-record"]
    return [*flags, "--record"] if config.getoption("--convgrad-record") else flags


# A folder of this run of pytest: its first process makes it, those of pytest-xdist are told.
FOLDER = pytest.StashKey()


def _folder_of_run(config):
    if hasattr(config, "workerinput"):
        return pathlib.Path(config.workerinput["convgrad_folder"])
    if FOLDER not in config.stash:
        config.stash[FOLDER] = pathlib.Path(tempfile.mkdtemp(prefix="convgrad-"))
    return config.stash[FOLDER]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["convgrad_folder"] = str(_folder_of_run(node.config))


def pytest_unconfigure(config):
    """Ends the batches that still run, of tests that were stopped."""
    folder = config.stash.get(FOLDER, None)
    if folder is None:
        return
    for pid in folder.glob("*/pid"):
        if not _has_ended(pid.parent):
            os.kill(int(pid.read_text()), signal.SIGTERM)
    shutil.rmtree(folder, ignore_errors=True)
