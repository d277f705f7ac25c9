"""The plugin of pytest, in runs of pytest of its own."""
import json
import shlex
import subprocess

import pytest

DEFAULTS = {"op": "conv2d", "padding": "SAME", "input": "fill:normal@1,5,5,2",
            "filter": "fill:normal@3,3,2,4"}
HASH = {"sha256": "0" * 64}


@pytest.fixture(autouse=True)
def no_ci(monkeypatch):
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def manifest(pytester):
    def write(cases, name="net.convgrad.json"):
        path = pytester.path / name
        path.write_text(json.dumps({"schema": "convgrad-manifest/1", "defaults": DEFAULTS,
                                    "cases": cases}))
        return path
    return write


@pytest.fixture
def outcomes(pytester):
    def run(*words, **wanted):
        result = pytester.runpytest_subprocess(*words, "-p", "no:cacheprovider")
        assert {key: count for key, count in result.parseoutcomes().items()
                if key not in ("warnings", "warning")} == wanted
        return result
    return run


ENDINGS = [{"name": "net/right", "expect": "right.npy"},
           {"name": "net/wrong", "expect": HASH},
           {"name": "without"},
           {"name": "missing", "input": "missing.npy"}]


def test_each_case_is_a_test(manifest, outcomes, pytester):
    manifest(ENDINGS[:1])
    outcomes("--convgrad-record", passed=1)
    assert (pytester.path / "right.npy.golden.json").exists()
    manifest(ENDINGS)
    result = outcomes("-v", passed=1, failed=2, skipped=1)
    result.stdout.fnmatch_lines(["*net.convgrad.json::net/right PASSED*", "*FAILED*",
                                 "*the data hash is not the golden's*", "repeat alone: *"])
    result.stdout.fnmatch_lines(["*missing.npy: cannot be opened*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    repeat = next(line for line in result.outlines if line.startswith("repeat alone: "))
    done = subprocess.run(shlex.split(repeat.removeprefix("repeat alone: ")), capture_output=True)
    assert done.returncode == 1


def test_the_diagnosis_is_shown(manifest, outcomes, pytester, run):
    case = {"name": "caffe", "input": "fill:normal@2,16,16,8", "filter": "fill:normal@3,3,8,16",
            "strides": 2, "expect": "caffe.npy"}
    run("run", "conv2d", "--padding", "1,0,1,0", "--input", case["input"], "--filter",
        case["filter"], "--strides", 2, "--output", pytester.path / "caffe.npy")
    manifest([case])
    outcomes(failed=1).stdout.fnmatch_lines(["explained by pads-*"])


def test_goldens_are_recorded_kept_and_updated(manifest, outcomes, pytester):
    manifest([{"name": "one", "expect": "one.npy"}])
    outcomes(failed=1)
    outcomes("--convgrad-record", passed=1)
    outcomes(passed=1)
    manifest([{"name": "one", "seed": 2, "expect": "one.npy"}])
    before = (pytester.path / "one.npy").read_bytes()
    outcomes(failed=1)
    outcomes("--convgrad-record", failed=1)
    assert (pytester.path / "one.npy").read_bytes() == before
    outcomes("--convgrad-update", passed=1)
    assert (pytester.path / "one.npy").read_bytes() != before
    outcomes(passed=1)


def test_nothing_is_recorded_in_ci(manifest, outcomes, pytester, monkeypatch):
    monkeypatch.setenv("CI", "true")
    manifest([{"name": "one", "expect": "one.npy"}])
    outcomes("--convgrad-record", failed=1).stdout.fnmatch_lines(["*--record*CI*"])
    assert not (pytester.path / "one.npy").exists()


def test_other_names_are_listed_in_the_configuration(manifest, outcomes, pytester):
    (pytester.path / "goldens").mkdir()
    manifest([{"name": "one"}], "goldens/manifest.json")
    manifest([{"name": "two"}], "goldens/lines.jsonl")
    (pytester.path / "goldens" / "lines.jsonl").write_text(json.dumps({**DEFAULTS, "name": "two"}))
    pytester.makeini("[pytest]\nconvgrad_manifests = goldens/manifest.json\n"
                     "  goldens/*.jsonl\nconvgrad_args = --require-golden\n")
    outcomes(failed=2).stdout.fnmatch_lines(["*names no golden*"])


def test_only_what_is_selected_runs(manifest, outcomes, pytester):
    cases = [{"name": name, "output": f"out{index}.npy"}
             for index, name in enumerate(["a[1]", "a1", "b*", "b\\c", "bb"])]
    manifest(cases)
    written = lambda: sorted(path.name for path in pytester.path.glob("out*.npy"))
    outcomes("net.convgrad.json::a[1]", skipped=1)
    assert written() == ["out0.npy"]
    outcomes("net.convgrad.json::b*", "net.convgrad.json::b\\c", skipped=2)
    assert written() == ["out0.npy", "out2.npy", "out3.npy"]
    outcomes(skipped=5)
    assert len(written()) == 5


@pytest.mark.parametrize("text,part", [
    ('{"schema": "convgrad-manifest/1", "cases": [{"name": ]}', "*net.convgrad.json:1:*"),
    ('{"schema": "convgrad-manifest/1", "cases": []}', "*no case*"),
    ('{"schema": "convgrad-manifest/1", "cases": [{"name": "a", "op": "conv3d"}]}', "*conv3d*")])
def test_a_manifest_that_is_refused_is_red(text, part, outcomes, pytester):
    (pytester.path / "net.convgrad.json").write_text(text)
    result = outcomes(errors=1)
    result.stdout.fnmatch_lines([part])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert result.ret != 0


def test_a_batch_that_dies_is_red(manifest, outcomes, pytester):
    manifest([{"name": f"case{index}", "input": "fill:normal@8,256,256,32",
               "filter": "fill:normal@5,5,32,64"} for index in range(20)])
    pytester.makeconftest("""
        import pytest_convgrad, os, signal
        join = pytest_convgrad.Batch._join
        def join_and_kill(self, session):
            join(self, session)
            os.kill(self.process.pid, signal.SIGKILL)
        pytest_convgrad.Batch._join = join_and_kill
        """)
    outcomes(failed=20).stdout.fnmatch_lines(["*the batch ended before this case*"])


def test_xdist_shares_one_batch(manifest, outcomes, pytester):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    manifest([{"name": f"case{index}", "output": f"out{index}.npy"} for index in range(30)])
    outcomes("-n", "3", skipped=30)
    pytester.makeconftest("""
        import pytest_convgrad, pathlib
        popen = pytest_convgrad.subprocess.Popen
        def counted(words, **options):
            with open(pathlib.Path(__file__).parent / "started", "a") as file:
                file.write(" ".join(words) + "\\n")
            return popen(words, **options)
        pytest_convgrad.subprocess.Popen = counted
        """)
    outcomes("-n", "3", skipped=30)
    assert (pytester.path / "started").read_text().count("--events") == 1


def test_what_is_stopped_leaves_no_process(manifest, outcomes, pytester):
    manifest([{"name": "quick", "expect": HASH},
              {"name": "slow", "input": "fill:normal@8,512,512,64",
               "filter": "fill:normal@7,7,64,256", "isa": "scalar"}])
    pytester.makeini("[pytest]\nconvgrad_args = --jobs 1\n")
    outcomes("-x", failed=1)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(pytester.path / "net.convgrad.json") not in listed
