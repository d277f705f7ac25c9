"""scripts/install-packages on systems made of a few stand-ins for dpkg-query, apt-get, id and sudo.

usage: install_packages_test.py INSTALL-PACKAGES
"""
import os
import pathlib
import re
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
        said = output.split()
        self.assertEqual((said.pop(0), status), ("Installing", 0))
        self.assertTrue({"cmake", "ninja-build", "zsh"} <= set(said), said)  # for building and for testing
        self.assertFalse([word for word in said if re.fullmatch(r"lib.*|g\+\+|strace", word)], said)
        self.assertEqual(len(set(said)), len(said))
        self.assertTrue(calls[0].endswith(" update"), calls)
        self.assertTrue(calls[1].endswith(" " + " ".join(said)), calls)

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
