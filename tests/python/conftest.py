"""The tests share this: tensors, and the command in the package under test."""
import pathlib
import subprocess

import numpy as np
import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def command():
    import convgrad
    return str(pathlib.Path(convgrad.__file__).parent / "bin" / "convgrad")


@pytest.fixture
def run(command, tmp_path):
    """Runs the command in a folder of the test; what it must exit with is 0 unless said."""
    def run_command(*words, status=0):
        done = subprocess.run([command, *map(str, words)], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout
    return run_command


def normal(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
