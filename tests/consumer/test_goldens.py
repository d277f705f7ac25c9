# Each case of a manifest as a test of pytest; CONVGRAD_MANIFEST says which manifest.
import json, os, subprocess
import pytest

batch = ["convgrad", "batch", os.environ["CONVGRAD_MANIFEST"], "--report", "-"]
report = json.loads(subprocess.run(batch, stdout=subprocess.PIPE).stdout)


@pytest.mark.parametrize("case", report["benchmarks"], ids=lambda case: case["name"])
def test_golden(case):
    assert case["exit_code"] == 0, f"{case['status']}; repeat alone: {case['repro']}"
