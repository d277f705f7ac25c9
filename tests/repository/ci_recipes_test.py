"""CI jobs with a batch: JUnit, the Markdown summary, shards by GNU parallel, pytest.

usage: ci_recipes_test.py CONVGRAD
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import tool_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "data" / "golden" / "manifest.json"


def pytest_command():
    for program in ("pytest", "pytest-3"):
        found = shutil.which(program)
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return [found]
    return None


class Recipes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_in_folder(self, *command, **variables):
        return subprocess.run([str(word) for word in command], cwd=self.folder, text=True,
                              env=os.environ | variables, stdin=subprocess.DEVNULL,
                              capture_output=True)

    def write_manifest(self, cases):
        path = self.folder / "manifest.json"
        path.write_text(json.dumps({
            "schema": "convgrad-manifest/1",
            "defaults": {"op": "conv2d", "padding": "SAME", "input": "fill:integer@1,5,5,2",
                         "filter": "fill:integer@3,3,2,4"},
            "cases": cases}))
        return path

    def three_endings(self):
        return self.write_manifest([
            {"name": "net/right <&>"},
            {"name": "net/wrong", "expect": {"sha256": "0" * 64}},
            {"name": "missing", "input": "missing.npy"}])

    def test_junit_tells_every_ending(self):
        done = self.run_in_folder("convgrad", "batch", self.three_endings(), "--junit", "junit.xml")
        self.assertEqual(done.returncode, 4, done.stderr)
        suite = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot().find("testsuite")
        self.assertEqual([suite.get(key) for key in ("tests", "failures", "errors", "skipped")],
                         ["3", "1", "1", "1"])
        cases = {case.get("name"): case for case in suite.findall("testcase")}
        self.assertEqual(set(cases), {"net/right <&>", "net/wrong", "missing"})
        self.assertIn("COMPUTED", cases["net/right <&>"].find("skipped").get("message"))
        self.assertEqual(cases["net/wrong"].get("classname"), "net")
        failure = cases["net/wrong"].find("failure")
        self.assertIn("hash", failure.get("message"))
        self.assertIn("repeat alone: ", failure.text)
        error = cases["missing"].find("error")
        self.assertIn("missing.npy", error.get("message"))
        self.assertTrue(error.get("type").startswith("io/"))

        # The line in the text repeats the case: same verdict, alone.
        repro = failure.text.split("repeat alone: ")[1]
        self.assertEqual(self.run_in_folder("sh", "-c", repro).returncode, 1)

    def test_summary_goes_where_the_job_page_shows_it(self):
        manifest = self.three_endings()
        page = self.folder / "step_summary.md"
        page.write_text("## Other tools\n")
        self.run_in_folder("sh", "-c", f"convgrad batch {manifest} --summary - "
                           '>>"$GITHUB_STEP_SUMMARY"', GITHUB_STEP_SUMMARY=str(page))
        text = page.read_text()
        self.assertTrue(text.startswith("## Other tools\n### convgrad"), text)
        for part in ("2 of 3 cases did not pass", "<code>net/wrong</code>", "| FAILED | 1 |"):
            self.assertIn(part, text)

    def run_pytest(self, manifest, *flags):
        """With the plugin as it lies in the source, which needs nothing but pytest and the tool."""
        pytest = pytest_command()
        if pytest is None:
            self.skipTest("no pytest: 'scripts/install-packages test' installs python3-pytest")
        return self.run_in_folder(
            *pytest, "-q", "-p", "no:cacheprovider", "-p", "pytest_convgrad", "--rootdir",
            manifest.parent, "-o", f"convgrad_manifests={manifest.name}", *flags, manifest,
            PYTHONPATH=str(ROOT / "python"), PYTHONDONTWRITEBYTECODE="1")

    def test_pytest_shows_each_case(self):
        done = self.run_pytest(GOLDENS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("87 passed", done.stdout)
        done = self.run_pytest(self.three_endings())
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("2 failed, 1 skipped", done.stdout)
        for part in ("repeat alone: ", "the data hash is not the golden's", "missing.npy"):
            self.assertIn(part, done.stdout)

    def test_pytest_shows_the_diagnosis(self):
        golden = ["--padding", "EXPLICIT", "--explicit-paddings", "1,0,1,0"]
        done = self.run_in_folder(
            "convgrad", "run", "conv2d", "--input", "fill:normal@2,16,16,8", "--filter",
            "fill:normal@3,3,8,16", "--strides", "2", *golden, "--output", "caffe.npy")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_pytest(self.write_manifest([
            {"name": "caffe", "input": "fill:normal@2,16,16,8", "filter": "fill:normal@3,3,8,16",
             "strides": 2, "expect": "caffe.npy"}]))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("explained by pads-", done.stdout)

    def test_pytest_records_goldens(self):
        manifest = self.write_manifest([{"name": "kept", "expect": "kept.npy"}])
        for flags, status in ((), 1), (("--convgrad-record",), 0), ((), 0):
            self.assertEqual(self.run_pytest(manifest, *flags).returncode, status)

    def test_pytest_is_red_without_cases(self):
        malformed = self.folder / "malformed.json"
        malformed.write_text('{"schema": "convgrad-manifest/1", "cases": [{"name": ]}')
        empty = self.write_manifest([])
        for manifest, flags, why in ((malformed, (), "malformed.json"), (empty, (), "it has no cases"),
                                     (empty, ("-o", "convgrad_args=--allow-empty"), "no case would run")):
            done = self.run_pytest(manifest, *flags)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("1 error", done.stdout)
            self.assertIn(why, done.stdout)

    def test_gnu_parallel_runs_shards(self):
        if not shutil.which("parallel"):
            self.skipTest("no GNU parallel: 'scripts/install-packages test' installs it")
        script = ROOT / "scripts" / "shards-parallel"
        manifest = self.write_manifest([{"name": f"case{i}", "seed": i} for i in range(20)])
        done = self.run_in_folder(script, 3, manifest, "results")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads((self.folder / "results" / "report.json").read_text())
        self.assertEqual([entry["name"] for entry in report["benchmarks"]],
                         [f"case{i}" for i in range(20)])
        done = self.run_in_folder(script, 2, self.three_endings(), "endings")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("2 of 2 shards did not pass", done.stderr)

    def kubernetes_job(self, name="shards-kubernetes.yaml"):
        """The job's text, and what its container does to the volume that this folder stands for."""
        job = (ROOT / "scripts" / name).read_text()
        script = re.search(r"^            - \|\n((?:              .*\n)+)", job, re.MULTILINE).group(1)
        volume = re.search(r"mountPath: (\S+)", job).group(1)
        return job, script.replace(volume, str(self.folder))

    def run_pods(self, script, pods=8, count="SHARDS"):
        return [self.run_in_folder("sh", "-c", script, JOB_COMPLETION_INDEX=str(index),
                                   **{count: str(pods)}).returncode for index in range(pods)]

    def test_the_kubernetes_job_counts_alike_everywhere(self):
        job, script = self.kubernetes_job()
        counts = re.findall(r'^  (?:completions|parallelism): (\d+)|value: "(\d+)"|-of-(\d+)', job,
                            re.MULTILINE)
        self.assertGreaterEqual(len(counts), 4)
        self.assertEqual(len({"".join(count) for count in counts}), 1, counts)
        self.write_manifest([{"name": f"case{i}", "seed": i} for i in range(3)])
        self.assertEqual(self.run_pods(script), [0] * 8)
        parts = sorted((self.folder / "results").glob("shard-*-of-8.json"))
        merged = self.run_in_folder("convgrad", "merge", *parts)
        self.assertEqual(merged.returncode, 0, merged.stderr)
        self.assertEqual(len(json.loads(merged.stdout)["benchmarks"]), 3)
        # Another number of shards, dealt otherwise, leaves what these have done alone.
        self.assertEqual(self.run_pods(script, 2), [0, 0])
        self.assertEqual(len(list((self.folder / "results").glob("shard-*.events.jsonl"))), 10)

    def test_the_kubernetes_job_fails_where_a_result_is_wrong(self):
        job, script = self.kubernetes_job()
        final = {action: {int(code) for code in codes.split(", ")} for action, codes in re.findall(
            r"- action: (\w+)\n        onExitCodes:\n(?:          \w+: \w+\n)+          "
            r"values: \[(.*)\]", job)}
        self.assertEqual(set(final), {"FailJob", "FailIndex"})
        # All codes but those that another attempt may change: resources, and signals.
        codes = set(map(int, re.findall(r"^\| (\d+) \|", (
            ROOT / "docs" / "reference" / "command-line.md").read_text(), re.MULTILINE)))
        bench_alone = {5}
        self.assertEqual(final["FailJob"] | final["FailIndex"], codes - {0, 4} - bench_alone)
        self.assertIn("backoffLimitPerIndex", job)  # which FailIndex needs
        self.three_endings()
        codes = self.run_pods(script)
        self.assertEqual(sorted(codes), [0] * 6 + [1, 4])
        self.assertIn(1, final["FailIndex"])
        self.assertFalse({0, 4} & (final["FailIndex"] | final["FailJob"]))

    def test_the_kubernetes_job_of_parts_has_one_process_bits(self):
        job, script = self.kubernetes_job("parts-kubernetes.yaml")
        reduce_job, reduce_script = self.kubernetes_job("parts-kubernetes-reduce.yaml")
        counts = re.findall(r'^  (?:completions|parallelism): (\d+)|value: "(\d+)"|-of-(\d+)',
                            job + reduce_job, re.MULTILINE)
        self.assertEqual({"".join(count) for count in counts}, {"16"})
        self.assertGreaterEqual(len(counts), 4)
        operands = ("--input", "x.npy", "--out-backprop", "dy.npy")
        for name, role in (("x.npy", "input"), ("dy.npy", "out_backprop")):
            self.run_in_folder("convgrad", "gen", "--fill", "normal", "--shape", "17,6,6,64",
                               "--role", role, "--output", name)
        self.assertEqual(self.run_pods(script, 16, "PARTS"), [0] * 16)
        (self.folder / "parts" / "part-3-of-16.cgp").rename(self.folder / "away.cgp")
        self.assertEqual(self.run_in_folder("sh", "-c", reduce_script).returncode, 3)
        self.assertFalse((self.folder / "filter_gradient.npy").exists())
        (self.folder / "away.cgp").rename(self.folder / "parts" / "part-3-of-16.cgp")
        self.assertEqual(self.run_in_folder("sh", "-c", reduce_script).returncode, 0)
        self.run_in_folder("convgrad", "run", "conv2d_backprop_filter", "--padding", "SAME",
                           *operands, "--filter-sizes", "3,3,64,64", "--precision", "exact",
                           "--output", "whole.npy")
        self.assertEqual((self.folder / "filter_gradient.npy").read_bytes(),
                         (self.folder / "whole.npy").read_bytes())


if __name__ == "__main__":
    tool_environment.run_tests()
