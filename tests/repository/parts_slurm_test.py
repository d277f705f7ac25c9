"""scripts/parts-slurm and parts-slurm-reduce on a real Slurm of two nodes, one of which dies in the
middle: the gradient of operands ten times as large as the memory limit has the bits of one process.

usage: parts_slurm_test.py CONVGRAD      exits with 77 where there is no Slurm
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import slurm_cluster
import tool_environment

CONVGRAD = None
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
PARTS, MOST_MEMORY = 16, 10 << 20
GRADIENT = ("conv2d_backprop_filter", "--padding", "SAME", "--input", "x.npy", "--filter-sizes",
            "3,3,64,64", "--out-backprop", "dy.npy")
# The tool as the nodes see it: n2 computes nothing, so that tasks are lost with it on any machine.
HELD_ON_N2 = """#!/bin/sh
if [ "$SLURMD_NODENAME" = n2 ]; then
  touch "{folder}/held"
  exec sleep 600
fi
exec "{convgrad}" "$@"
"""


class Slurm(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "bin").mkdir()
        tool = self.folder / "bin" / "convgrad"
        tool.write_text(HELD_ON_N2.format(folder=self.folder, convgrad=CONVGRAD))
        tool.chmod(0o755)
        os.environ["PATH"] = f"{self.folder}/bin:{os.environ['PATH']}"
        for name, role in (("x.npy", "input"), ("dy.npy", "out_backprop")):
            self.convgrad("gen", "--fill", "normal", "--shape", "256,28,28,64", "--role", role,
                          "--output", name)
        operands = sum((self.folder / name).stat().st_size for name in ("x.npy", "dy.npy"))
        self.assertGreaterEqual(operands, 9.8 * MOST_MEMORY)

    def convgrad(self, *arguments):
        subprocess.run(["convgrad", *map(str, arguments), "--quiet"], cwd=self.folder, check=True,
                       stdin=subprocess.DEVNULL)

    def submit(self, cluster, array):
        return cluster.submit(f"--array={array}", "--cpus-per-task=2", "--no-requeue",
                              f"--output={self.folder}/%A_%a.log", SCRIPTS / "parts-slurm", "parts",
                              str(PARTS), *GRADIENT, "--threads", "1", "--max-memory", str(MOST_MEMORY))

    def finished(self):
        return [i for i in range(1, PARTS + 1)
                if (self.folder / "parts" / f"part-{i}-of-{PARTS}.cgp").exists()]

    def test_a_node_dies_and_the_gradient_is_the_same(self):
        with slurm_cluster.Cluster(self.folder) as cluster:
            job = self.submit(cluster, f"1-{PARTS}")
            cluster.wait_for("two parts, and a task on n2",
                             lambda: len(self.finished()) >= 2 and (self.folder / "held").exists())
            cluster.lose_node("n2")
            cluster.wait_for_job(job)
            lost = [i for i in range(1, PARTS + 1) if i not in self.finished()]
            self.assertNotEqual(lost, [])
            print("lost with the node:", lost)
            again = self.submit(cluster, ",".join(map(str, lost)))
            reduced = cluster.submit(f"--dependency=afterok:{again}", "--cpus-per-task=2",
                                     f"--output={self.folder}/reduce.log",
                                     SCRIPTS / "parts-slurm-reduce", "parts", str(PARTS), "parts.npy",
                                     "--input", "x.npy", "--out-backprop", "dy.npy")
            cluster.wait_for_job(again)
            cluster.wait_for_job(reduced)
        logs = "".join(file.read_text() for file in self.folder.glob("*.log"))
        self.assertTrue((self.folder / "parts.npy").exists(), logs)
        self.convgrad("run", *GRADIENT, "--precision", "exact", "--output", "whole.npy")
        self.assertEqual((self.folder / "parts.npy").read_bytes(),
                         (self.folder / "whole.npy").read_bytes())


if __name__ == "__main__":
    CONVGRAD = pathlib.Path(sys.argv.pop(1)).resolve()
    reason = slurm_cluster.reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    tool_environment.clear()
    unittest.main()
