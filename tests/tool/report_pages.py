"""Reports of every kind made up for the tests of their pages, and the pages that the tool makes of them."""
import copy
import functools
import json
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

tool = None  # the path of the tool under test
ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\u2028\u202egnp.exe\"&lt;"
STATUSES = ("PASSED", "SUSPECT", "FAILED", "COMPUTED", "RECORDED", "KEPT", "SKIPPED", "ERROR", "TIMEOUT")


def convgrad(*words, cwd=None, expect=0):
    done = subprocess.run([tool, *map(str, words)], cwd=cwd or ROOT, text=True, capture_output=True)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{words} exits with {done.returncode}, not {expect}:\n{done.stdout}{done.stderr}")
    return done


def context(command="batch", peaks=None):
    return {"date": "2026-11-23T12:00:00+00:00", "host": "builder", "executable": "convgrad", "version": "0.1.0",
            "commit": "0123456", "build_type": "Release", "compiler": "GNU 12.2.0", "num_cpus": 2,
            "cpu_model": "A processor", "caches": [], "load": [0, 0, 0], "cwd": "/tmp",
            "convgrad": {"schema": "convgrad-report/1", "command": f"convgrad {command} cases.json", "isa": "avx2",
                         "isa_available": ["avx2", "scalar"], "threads": 2, "tbb": "12", "algo": "canon-1",
                         "peaks": {"measured": peaks} if peaks else None}}


def entry(index, name, status="PASSED", **more):
    ops = ("conv2d", "conv2d_backprop_input", "conv2d_backprop_filter", "depthwise_conv2d")
    sizes = (14 + index % 40, 16 + index % 7)
    result = {
        "name": name, "family_index": index, "run_type": "iteration", "threads": 1, "iterations": 1, "real_time": 1.0,
        "cpu_time": 1.0, "time_unit": "ms",
        "problem": {"op": ops[index % 4], "dtype": ("float32", "float64", "float16", "bfloat16")[index // 4 % 4],
                    "data_format": "NHWC", "input": [8, sizes[0], sizes[0], 32], "filter": [3, 3, 32, sizes[1]],
                    "out_backprop": [8, sizes[0], sizes[0], sizes[1]], "strides": [1, 1], "dilations": [1, 1],
                    "padding": "SAME", "pads": [1, 1, 1, 1], "groups": 1, "flops": 10 ** 7 * (1 + index % 50),
                    "input_bytes": 10 ** 5 * (1 + index % 90), "output_bytes": 10 ** 5, "terms": 288},
        "run": {"algorithm": "gemm", "isa": "avx2", "precision": "standard", "algo": "canon-1", "threads": 1,
                "tiles": "", "memory_bytes": 1, "scratch_bytes": 1, "peak_rss_bytes": 1, "reproducible": True},
        "timing": {"load_ms": 0.1, "compute_ms": 0.2, "write_ms": 0, "total_ms": 0.3 + (index * 7919) % 1000},
        "tags": ["nightly", f"layer{index % 5}"], "inputs": [], "status": status,
        "exit_code": 0 if status in ("PASSED", "COMPUTED", "RECORDED", "KEPT", "SKIPPED", "SUSPECT") else 1,
        "repro": f"convgrad check conv2d --name case-{index} --input fill:normal@8,14,14,32 --filter fill:normal@3,3,32,16 --padding SAME"}
    if status in ("ERROR", "TIMEOUT"):
        del result["timing"]
        result |= {"error_occurred": True, "error_message": "x.npy: no such file",
                   "error": {"code": "io/missing", "message": "x.npy: no such file"}}
    if status in ("FAILED", "SUSPECT"):
        result["check"] = failed_check(index)
    return result | more


@functools.lru_cache(maxsize=None)
def failed_text(index, mistake):
    worst = {"index": [0, 1, 2, 3], "actual": 1.5, "expected": 1.25, "actual_bits": "0x1", "expected_bits": "0x2", "value": 12.5}
    rng = random.Random(index)
    grid = [[round(rng.gauss(0, 2), 3) for _ in range(14)] for _ in range(14)]
    grid[3][4] = None
    return {"against": "golden", "policy": "bound", "status": "FAILED", "reason": "12 of 6272 elements are beyond the bound",
            "detail": "", "counts": {"elements": 6272, "differ": 100, "suspect": 3, "fail": 12, "nan": 1, "inf": 0},
            "worst": {"bound": worst, "abs": worst, "rel": worst, "ulp": worst}, "needs": {"ulp": 400, "abs": 0.25, "rel": 0.2},
            "where": {"text": "border", "box": [], "fills_box": False, "map": None}, "power": 1e-6,
            "diagnosis": {"hypothesis": mistake, "explains": "exactly", "sentence": "the filter is flipped: turn it", "also": []},
            "profile": {"measure": "bound", "limit": 1,
                        "axes": [{"axis": name, "size": 14, "low": [min(0, min(v or 0 for v in row)) for row in grid],
                                  "high": [max(0, max(v or 0 for v in row)) for row in grid]} for name in ("row", "column")],
                        "grids": [{"down": "row", "down_size": 14, "across": "column", "across_size": 14, "worst": grid}],
                        "errors": {"first": -6, "counts": [40, 30, 20, 10, 5, 3, 2, 1, 1], "zero": 6000, "infinite": 1},
                        "ulps": {"first": 0, "counts": [300, 40, 3, 0, 1], "zero": 5900, "infinite": 1},
                        "model": [5000, 800, 100, 1, 0, 0], "worst": [worst] * 10}}


def failed_check(index, mistake="filter-flipped"):
    return copy.deepcopy(failed_text(index % 8, mistake))


def timed(index, name, threads, median, isa="avx2", **more):
    speed = 1e7 * (1 + index % 50) / (median * 1e6)
    return entry(index, name, "COMPUTED", threads=threads, gflops=speed,
                 run={"algorithm": "gemm", "isa": isa, "precision": "standard", "algo": "canon-1", "threads": threads,
                      "tiles": "", "memory_bytes": 1, "scratch_bytes": 1, "peak_rss_bytes": 1, "reproducible": True},
                 timing={"load_ms": 0, "compute_ms": median, "write_ms": 0, "total_ms": median, "warmup": 1, "samples": 10,
                         "sample_iterations": 1, "min": median * 0.95, "median": median, "mean": median, "stddev": 0.01,
                         "mad": 0.01, "p5": median * 0.96, "p95": median * 1.1, "max": median * 1.2,
                         "ci": [median * 0.98, median * 1.02], "stop_reason": "interval", "cache": "hot"},
                 problem=entry(index, name)["problem"] | {"input_bytes": int(1e7 * (1 + index % 50) / (0.4 * 1.25 ** index)), "output_bytes": 0},
                 roofline={"share": 0.5, "bound": "compute", "peak_gflops": 60 * threads, "peak_gbs": 200},
                 **more)


def peaks(threads):
    levels = [("L1", 32768, 250), ("L2", 1 << 20, 120), ("L3", 1 << 25, 60), ("memory", None, 18)]
    return {"isa": "avx2", "threads": threads, "gflops": {"float32": 60 * threads, "float64": 30 * threads},
            "bandwidth": [{"level": name, "capacity_bytes": size, "read_gbs": rate * threads, "write_gbs": rate / 2 * threads}
                          for name, size, rate in levels], "confirmed": True}


def bench_entries(factor=1.0, isa="avx2"):
    return [timed(i, f"layer{i}_{'dw' if i % 3 else 'conv'}", threads, factor * (1.5 + 0.31 * (i % 50)) / threads ** 0.8 * (1 + i % 3 * 0.03), isa,
                  baseline={"path": "old.json", "verdict": ("FASTER", "SAME", "SLOWER", "INCONCLUSIVE")[i % 4],
                            "ratio": 0.8 + i % 4 * 0.12, "ci": [0.78 + i % 4 * 0.12, 0.83 + i % 4 * 0.12], "regress": 0.05, "median": 2.0, "notes": []})
            for i in range(24) for threads in (1, 2)]


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def report(self, name, entries, command="batch", **more):
        path = self.folder / name
        path.write_text(json.dumps({"context": context(command, **more), "benchmarks": entries}))
        return path

    def page(self, *reports):
        path = self.folder / "page.html"
        convgrad("report", *reports, "--output", path, "--quiet")
        return path
