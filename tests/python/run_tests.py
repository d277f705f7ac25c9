"""The Python package, put together as pip does, under pytest: what pip installs without CMake, and
what CMake installs of a build with CONVGRAD_PYTHON.

usage: run_tests.py BUILD SOURCE [PYTEST-OPTION...]     run by the Python that the module is for
"""
import os
import pathlib
import shutil
import subprocess
import sys


def main(build, source, *options):
    source = pathlib.Path(source).resolve()
    site = pathlib.Path(build, "python-package").resolve()
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                    "--no-build-isolation", "--config-settings", "wheel.cmake=false",
                    "--config-settings", "wheel.py-api=py3", "--target", site, source], check=True)
    subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", site],
                   check=True, stdout=subprocess.DEVNULL)
    environment = os.environ | {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1",
                                "PATH": f"{site / 'bin'}:{os.environ['PATH']}"}
    tests = source / "tests" / "python"
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quiet",
                           "--rootdir", tests, "-o", "python_files=*_test.py", *(options or [tests])],
                          env=environment, cwd=site).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
