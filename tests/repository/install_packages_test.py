"""scripts/install-packages on systems made of a few stand-ins for dpkg-query, apt-get, id and sudo.

usage: install_packages_test.py INSTALL-PACKAGES
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = None


def run(installed, user=0, commands=("dpkg-query", "apt-get")):
    """Output, exit status and apt-get's calls, where only the packages `installed` says are there."""
    with tempfile.TemporaryDirectory() as folder:
        scripts = {
            "id": f"echo {user}",
            "dpkg-query": f"case $4 in {installed}) printf installed ;; *) exit 1 ;; esac",
            "apt-get": 'echo "$@" >>"$CALLS"',
            "sudo": 'echo sudo >>"$CALLS"; exec "$@"',
        }
        for name in ("id", *commands):
            file = pathlib.Path(folder, name)
            file.write_text(f"#!/bin/sh\n{scripts[name]}\n")
            file.chmod(0o755)
        pathlib.Path(folder, "env").symlink_to("/usr/bin/env")
        calls = pathlib.Path(folder, "calls")
        done = subprocess.run([SCRIPT, "test"], env={"PATH": folder, "CALLS": str(calls)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        called = calls.read_text().splitlines() if calls.exists() else []
        return done.stdout + done.stderr, done.returncode, called


class InstallPackages(unittest.TestCase):
    def test_nothing_is_missing(self):
        self.assertEqual(run("*", user=1000), ("", 0, []))

    def test_root_installs_what_is_missing(self):
        output, status, calls = run("lib*|g++|strace")
        self.assertEqual((output, status), ("Installing cmake ninja-build nlohmann-json3-dev python3 clang-format-14 "
                                            "g++-aarch64-linux-gnu "
                                            "parallel python3-pytest slurm-wlm\n", 0))
        self.assertTrue(calls[0].endswith(" update"), calls)
        self.assertTrue(calls[1].endswith(" python3 clang-format-14 g++-aarch64-linux-gnu parallel python3-pytest slurm-wlm"), calls)

    def test_others_need_sudo(self):
        output, status, calls = run("lib*", user=1000)
        self.assertEqual((status, calls), (1, []))
        self.assertIn("neither root nor sudo", output)
        self.assertIn(" cmake ", output)
        output, status, calls = run("lib*", user=1000, commands=("dpkg-query", "apt-get", "sudo"))
        self.assertEqual(status, 0)
        self.assertEqual(calls[0], "sudo")

    def test_other_systems_are_left_alone(self):
        output, status, calls = run("*", commands=())
        self.assertEqual((status, calls), (0, []))
        self.assertIn("Not a Debian system", output)


if __name__ == "__main__":
    SCRIPT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
