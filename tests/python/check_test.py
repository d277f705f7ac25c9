"""The verdict on someone's result."""
import ml_dtypes
import numpy as np
import pytest

import convgrad
from conftest import normal

X, DY = normal((2, 9, 9, 4), np.float32, 1), normal((2, 9, 9, 8), np.float32, 2)
CASE = {"input": X, "filter_sizes": (3, 3, 4, 8), "out_backprop": DY, "padding": "SAME"}
OP = "conv2d_backprop_filter"
RIGHT = convgrad.conv2d_backprop_filter(X, (3, 3, 4, 8), DY, 1, "SAME")
FLIPPED = RIGHT[::-1, ::-1].copy()


def test_a_right_result_passes():
    verdict = convgrad.check(RIGHT, OP, **CASE)
    assert verdict and verdict.passed and verdict.status == "PASSED"
    assert verdict.counts.elements == 288 and verdict.counts.fail == 0
    assert verdict.worst["bound"].value < 1
    assert repr(verdict).startswith(f"PASSED  {OP} float32 NHWC in=2,9,9,4 filter=3,3,4,8")
    convgrad.assert_conv(RIGHT, OP, **CASE)


def test_a_wrong_result_fails_with_its_diagnosis():
    verdict = convgrad.check(FLIPPED, OP, **CASE)
    assert not verdict and verdict.status == "FAILED"
    assert verdict.diagnosis.hypothesis == "filter-flipped"
    assert verdict.counts.fail > 100
    index = verdict.worst["abs"].index
    assert verdict.worst["abs"].actual == FLIPPED[index]
    assert verdict.worst["abs"].expected == pytest.approx(RIGHT[index], rel=1e-5)
    assert verdict.report["diagnosis"]["sentence"] == verdict.diagnosis.sentence
    with pytest.raises(AssertionError, match="layer 3\nFAILED(.|\n)*explained by +filter-flipped"):
        convgrad.assert_conv(FLIPPED, OP, err_msg="layer 3", **CASE)


def test_an_element_that_is_not_a_number():
    broken = RIGHT.copy()
    broken[1, 2, 3, 4] = np.nan
    verdict = convgrad.check(broken, OP, **CASE)
    assert not verdict and verdict.counts.fail == 1 and verdict.counts.nan == 1
    assert verdict.worst["abs"].index == (1, 2, 3, 4)
    assert np.isnan(verdict.worst["abs"].actual)


def test_tolerance():
    near = RIGHT + np.float32(1e-3)
    assert not convgrad.check(near, OP, **CASE)
    assert convgrad.check(near, OP, tolerance="abs:2e-3", **CASE).policy.startswith("abs:")
    with pytest.raises(convgrad.UsageError) as raised:
        convgrad.check(near, OP, tolerance="2e-3", **CASE)
    assert raised.value.code == "tolerance/syntax"


def test_errors_of_each_element():
    near = RIGHT.copy()
    near[0, 0, 0, 0] += 0.5
    errors = convgrad.check(near, OP, errors=True, tolerance="abs:1e-3", **CASE).errors
    assert errors.shape == RIGHT.shape and errors.dtype == np.float32
    assert errors[0, 0, 0, 0] == pytest.approx(0.5, rel=1e-4)
    assert np.count_nonzero(errors > 0.1) == 1
    assert convgrad.check(near, OP, **CASE).errors is None


def test_a_result_of_another_shape_or_type_is_incomparable():
    assert convgrad.check(RIGHT[:2], OP, **CASE).reason == "incomparable"
    assert convgrad.check(RIGHT.astype(np.int32), OP, **CASE).reason == "incomparable"


def test_a_result_of_a_narrower_type():
    assert convgrad.check(RIGHT.astype(ml_dtypes.bfloat16), OP, **CASE)
    assert convgrad.check(RIGHT.astype(np.float16), OP, **CASE)


def test_operands_are_those_of_the_operation():
    with pytest.raises(convgrad.UsageError) as raised:
        convgrad.check(RIGHT, OP, **{**CASE, "out_backprop": None})
    assert raised.value.code == "operand/missing" and "out_backprop" in str(raised.value)
    with pytest.raises(convgrad.UsageError) as raised:
        convgrad.check(RIGHT, OP, filter=RIGHT, **CASE)
    assert raised.value.code == "operand/unexpected"
    with pytest.raises(convgrad.UsageError) as raised:
        convgrad.check(RIGHT, "conv2d_backprop_filters", **CASE)
    assert raised.value.code == "op/unknown" and OP in raised.value.hint


def suspect():
    """A result that no summation usually has, yet none is forbidden to: found by growing an error."""
    for factor in 1.1 ** np.arange(160):
        candidate = RIGHT.copy()
        candidate[1, 1, 1, 1] += np.float32(1e-7 * factor)
        verdict = convgrad.check(candidate, OP, **CASE)
        if verdict.status == "SUSPECT":
            return candidate
        assert verdict.status == "PASSED", "there is nothing between PASSED and FAILED"
    raise AssertionError("no error was large enough")


def test_a_suspect_result_fails_unless_it_is_allowed():
    result = suspect()
    assert not convgrad.check(result, OP, **CASE)
    with pytest.raises(AssertionError, match="SUSPECT"):
        convgrad.assert_conv(result, OP, **CASE)
    with pytest.warns(convgrad.SuspectWarning, match="SUSPECT"):
        convgrad.assert_conv(result, OP, allow_suspect=True, **CASE)


def test_the_odds_are_the_callers():
    assert convgrad.check(RIGHT, OP, odds=0.5, **CASE).report["odds"]["limit"] == 0.5
    with pytest.raises(convgrad.UsageError, match="odds"):
        convgrad.check(RIGHT, OP, odds=2, **CASE)


def test_pytorch_names_imply_their_formats():
    nchw = {"input": X.transpose(0, 3, 1, 2), "out_backprop": DY.transpose(0, 3, 1, 2),
            "filter_sizes": (8, 4, 3, 3), "padding": 1}
    assert convgrad.check(RIGHT.transpose(3, 2, 0, 1), "torch.nn.grad.conv2d_weight", **nchw)
    assert not convgrad.check(FLIPPED.transpose(3, 2, 0, 1), "torch.nn.grad.conv2d_weight", **nchw)


def test_the_result_comes_before_the_operation():
    with pytest.raises(TypeError, match="the result under test comes first"):
        convgrad.check("conv2d_backprop_filter", RIGHT, padding="SAME")
