"""scripts/shards-slurm on a real Slurm of two nodes, one of which dies in the middle. One case is so
large that every shard takes some of its images.

usage: slurm_test.py CONVGRAD      exits with 77 where there is no Slurm
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import slurm_cluster
import tool_environment

CONVGRAD = None
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "shards-slurm"
SHARDS, CASES = 4, 64

# Keys that differ between any two runs: times, and what depends on what else ran.
VOLATILE = ("real_time", "cpu_time", "bytes_per_second", "gflops", "timing", "threads", "resumed")


def comparable(report):
    """The part of a report that does not depend on when, where and in how many parts it ran."""
    entries = [{key: value for key, value in entry.items() if key not in VOLATILE}
               for entry in report["benchmarks"]]
    for entry in entries:
        entry["run"] = {key: entry["run"][key] for key in ("algorithm", "precision", "algo")}
    plan = {key: report["context"]["plan"][key] for key in ("sha256", "cases", "shard")}
    return plan, entries


class Slurm(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "convgrad").symlink_to(CONVGRAD)
        self.path = f"{self.folder}/bin:{os.environ['PATH']}"
        os.environ["PATH"] = self.path
        self.manifest = self.folder / "manifest.json"
        self.manifest.write_text(json.dumps({
            "schema": "convgrad-manifest/1",
            "defaults": {"padding": "SAME"},
            "cases": [{"name": f"case{i}", "seed": i, "op": "conv2d", "input": "fill:normal@8,56,56,64",
                       "filter": "fill:normal@3,3,64,64", "output": f"out/{i}.npy"} for i in range(CASES)] +
                     [{"name": "huge", "op": "conv2d_backprop_filter", "precision": "exact",
                       "input": "x.npy", "filter_sizes": [3, 3, 32, 32], "out_backprop": "dy.npy",
                       "output": "out/huge.npy"}],
        }))
        (self.folder / "out").mkdir()
        for name, role in (("x.npy", "input"), ("dy.npy", "out_backprop")):
            self.convgrad("gen", "--fill", "normal", "--dtype", "float64", "--shape", "64,56,56,32",
                          "--role", role, "--output", name).check_returncode()

    def convgrad(self, *arguments):
        return subprocess.run(["convgrad", *map(str, arguments)], cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)

    def submit(self, cluster, array=f"1-{SHARDS}"):
        return cluster.submit(f"--array={array}", "--cpus-per-task=2", "--no-requeue",
                              f"--output={self.folder}/%A_%a.log", SCRIPT, self.manifest, "results",
                              str(SHARDS), "--split-images")

    def finished(self):
        """Cases by shard that have finished so far."""
        return {file.name: len(file.read_text().splitlines())
                for file in (self.folder / "results").glob("*.events.jsonl")}

    def merge(self):
        return self.convgrad("merge", *sorted((self.folder / "results").glob(f"shard-*-of-{SHARDS}.json")))

    def test_a_node_dies_and_the_array_is_resumed(self):
        with slurm_cluster.Cluster(self.folder) as cluster:
            job = self.submit(cluster)
            cluster.wait_for("case of every shard", lambda: len(self.finished()) == SHARDS and
                             min(self.finished().values()) > 0)
            cluster.lose_node("n2")
            cluster.wait_for_job(job)
            killed = self.finished()
            self.assertLess(sum(killed.values()), CASES + SHARDS, "nothing was left to do when the node died")
            refused = self.merge()
            self.assertEqual(refused.returncode, 3, refused.stderr)
            self.assertIn("missing", refused.stderr)

            # The tasks that were lost, alone and one by one; the others have their reports.
            reports = self.folder / "results"
            lost = [i for i in range(1, SHARDS + 1)
                    if not (reports / f"shard-{i}-of-{SHARDS}.json").exists()]
            self.assertNotEqual(lost, [])
            kept = {file: file.read_bytes() for file in reports.glob("shard-*.json")}
            for task in lost:
                cluster.wait_for_job(self.submit(cluster, array=task))
            print("finished when the node died:", killed, "and in the end:", self.finished())
        self.assertEqual(len(list(reports.glob("*.cgp"))), SHARDS, "no part of a shard")
        merged = self.merge()
        self.assertEqual(merged.returncode, 0, merged.stderr + self.logs())
        merged = json.loads(merged.stdout)
        huge = (self.folder / "out" / "huge.npy").read_bytes()
        resumed = sum(entry.get("resumed", False) for entry in merged["benchmarks"])
        for file, content in kept.items():
            self.assertEqual(file.read_bytes(), content, "another task's report was written again")
        self.assertGreaterEqual(resumed, sum(
            killed.get(f"shard-{i}-of-{SHARDS}.events.jsonl", 0) for i in lost))

        whole = self.convgrad("batch", self.manifest, "--report", "-")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(comparable(merged), comparable(json.loads(whole.stdout)))
        self.assertEqual(huge, (self.folder / "out" / "huge.npy").read_bytes())

    def logs(self):
        return "".join(file.read_text() for file in self.folder.glob("*.log"))


if __name__ == "__main__":
    CONVGRAD = pathlib.Path(sys.argv.pop(1)).resolve()
    reason = slurm_cluster.reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    tool_environment.clear()
    unittest.main()
