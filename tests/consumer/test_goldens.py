# Each case of a manifest as a test of pytest; CONVGRAD_MANIFEST says which manifest.
import json, os, subprocess
import pytest

batch = ["convgrad", "batch", os.environ["CONVGRAD_MANIFEST"], "--report", "-"]
done = subprocess.run(batch, stdout=subprocess.PIPE)
# Empty where the tool died: then nothing is collected, and pytest exits with 2.
report = json.loads(done.stdout)


def why(case):
    """What the report says of a case that is not right."""
    check = case.get("check", {})
    lines = [case["status"], case.get("error", check).get("message", check.get("reason"))]
    if "diagnosis" in check:
        lines.append(f"explained by {check['diagnosis']['hypothesis']}: "
                     f"{check['diagnosis']['sentence']}")
    if check.get("where"):
        lines.append(f"where: {check['where']}")
    return "\n".join([*filter(None, lines), f"repeat alone: {case['repro']}"])


def test_batch():
    """The manifest was read, had cases, and they tell all that went wrong."""
    assert "error" not in report, report["error"]["message"]
    assert report["benchmarks"], "no case ran"
    assert done.returncode in (0, *(case["exit_code"] for case in report["benchmarks"]))


@pytest.mark.parametrize("case", report["benchmarks"],
                         ids=[case["name"] for case in report["benchmarks"]])
def test_golden(case):
    assert case["exit_code"] == 0, why(case)
    if case["status"] == "COMPUTED":
        pytest.skip("there was no golden to compare with")
