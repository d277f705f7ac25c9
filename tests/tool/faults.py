"""Fails a program's system calls, one at a time, with strace."""
import collections
import functools
import os
import pathlib
import shutil
import subprocess

SKIPPED = 77

# Call -> error -> what must happen: the run succeeds ("invisible"), it ends with exit 4 and one line
# ("error"), or either ("any": some such calls only tidy up).
FAULTS = {
    "openat": {"EACCES": "error", "EMFILE": "error", "EIO": "error", "ELOOP": "error", "EINTR": "any"},
    "newfstatat": {"EIO": "any"},
    "read": {"EIO": "error", "EINTR": "invisible", "EAGAIN": "invisible"},
    "mmap": {"ENOMEM": "invisible", "ENODEV": "invisible"},
    "fallocate": {"ENOSPC": "error", "EOPNOTSUPP": "invisible", "EINVAL": "invisible",
                  "EINTR": "invisible"},
    "write": {"ENOSPC": "error", "EDQUOT": "error", "EFBIG": "error", "EIO": "error",
              "EINTR": "invisible", "EAGAIN": "invisible"},
    "fsync": {"EIO": "error", "ENOSPC": "error"},
    "close": {"EIO": "any"},
    "renameat": {"EXDEV": "error", "EACCES": "error", "EISDIR": "error", "EBUSY": "error"},
    "flock": {"ENOLCK": "invisible", "EOPNOTSUPP": "invisible"},
}


def can_trace():
    return shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"],
                                                     capture_output=True).returncode == 0


@functools.cache
def tracing_options():
    """With them only the calls that are traced stop the program, which halves the time, where the system
    lets a tracer do that and it says nothing."""
    options = ["-f", "--seccomp-bpf"]
    done = subprocess.run(["strace", *options, "-o", "/dev/null", "-e", "trace=read", "true"],
                          capture_output=True)
    return options if done.returncode == 0 and not done.stderr else ["-f"]


def trace(command, directory, call, inject=None):
    """Runs the command, which works in `directory`, under strace; returns the finished process."""
    options = [*tracing_options(), "-y", "-qq", "-o", directory / "strace.log", "-e", f"trace={call}"]
    if inject:
        options += ["-e", f"inject={call}:{inject}"]
    # The leak sanitizer can't work under a tracer.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run(["strace", *options, *command], capture_output=True, timeout=120,
                          env=environment)


def traced_calls(directory, call, text=None):
    """(number from 1, line) of each call of the last run whose line has `text`; the tracer counts each
    thread's calls alone."""
    counts, calls = collections.Counter(), {}
    for line in (directory / "strace.log").read_text(errors="replace").splitlines():
        thread, _, rest = line.partition(" ")
        if not rest.lstrip().startswith(f"{call}("):
            continue
        counts[thread] += 1
        if text is None or text in line:
            calls.setdefault(counts[thread], line)
    return sorted(calls.items())


def leftovers(directory):
    return [path.name for path in pathlib.Path(directory).rglob("*") if ".tmp-" in path.name]
