"""Sequences from arrays and lists: orders, lengths, targets, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import assert_same, some

from chronode.data import from_list, from_numpy

nan = float("nan")


@some
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_both_orders_give_the_same(count, steps, width, timed):
    values = np.random.default_rng(count).normal(size=(count, steps, width))
    options = {"times": np.arange(steps) * 2.0} if timed else {}
    assert_same(
        from_numpy(values, order="NTD", **options), from_numpy(values.transpose(0, 2, 1), order="NDT", **options)
    )
    assert_same(
        from_numpy(values, order="NTD", **options),
        from_list(list(values), times=[options["times"]] * count if timed else None),
    )


def test_two_axes_are_one_channel():
    assert from_numpy(np.ones((2, 5)), order="NDT").lengths.tolist() == [5, 5]


def test_lengths_tell_padding_which_may_hold_anything():
    values = np.array([[[1.0], [nan], [np.inf]], [[2.0], [3.0], [4.0]]])
    made = from_numpy(values, order="NTD", lengths=[1, 3], target=[[0.5, 9, 9], [1, 2, 3]], per_step=True)
    assert not made.has_missing
    assert [series.values[:, 0].tolist() for series in made] == [[1], [2, 3, 4]]
    assert made[1].target[:, 0].tolist() == [1, 2, 3]


def test_gaps_keep_the_first_one():
    made = from_list([[1.0, 2.0], [3.0]], dt=[[0.5, 2.0], [0.25]])
    assert made.batch().dt.tolist() == [[0.5, 2.0], [0.25, 0.0]]
    both = from_numpy([[1.0, 2.0]], order="NTD", dt=[[0.5, 2.0]])
    assert both.batch().dt.tolist() == [[0.5, 2.0]]
    assert from_list([[1.0, 2.0]], dt=[[0.5, 2.0]], unit=0.5).batch().dt.tolist() == [[1, 4]]


def test_gaps_lose_nothing_in_long_arrays():
    dt = np.random.default_rng(0).random((3, 1000)).astype(np.float32)
    batch = from_numpy(np.ones((3, 1000)), order="NTD", dt=dt).batch()
    np.testing.assert_allclose(batch.dt.numpy(), dt, rtol=1e-5, atol=1e-9)


def test_unsorted_times_of_a_list_are_sorted_with_targets_and_a_note():
    made = from_list([[1.0, 2.0], [3.0]], times=[[5, 1], [0]], target=[["b", "a"], ["a"]])
    assert made[0].values[:, 0].tolist() == [2, 1]
    assert made[0].target.tolist() == [0, 1]
    assert made.notes == ("1 time went back within one series (first at row 2): the rows were sorted by time.",)
    numbers = from_list([[1.0, 2.0]], times=[[5, 1]], target=[[0.5, 1.5]])
    assert numbers[0].target[:, 0].tolist() == [1.5, 0.5]


def test_steps_of_one_time_are_kept_unless_asked():
    series, times = [[1.0, 3.0, 5.0]], [[0, 1, 1]]
    assert from_list(series, times=times)[0].dt.tolist() == [0, 1, 0]
    merged = from_list(series, times=times, duplicates="merge", target=[["a", "b", "a"]])
    assert merged.values[:, 0].tolist() == [1, 4]
    assert merged.target.values.tolist() == [0, 0]
    with pytest.raises(ValueError, match="1 row with a time that the same series already has"):
        from_list(series, times=times, duplicates="error")


def test_nan_is_missing_and_empty_channels_stay():
    made = from_list([[[1.0, nan], [nan, nan]]])
    assert made.channels == ("x0", "x1")
    assert made.notes == ("no values in 'x1': kept, missing everywhere.",)
    assert from_list([[[1.0, nan], [2.0, nan]]], empty="drop").channels == ("x0",)


def test_names_and_types():
    made = from_list([[[1, 2]]], ids=["p7"], groups=["ward"], channels=["a", "b"], dtype="float64")
    assert (made[0].id, made[0].group, made.channels, made.values.dtype) == ("p7", "ward", ("a", "b"), np.float64)
    assert made.batch().x.dtype.is_floating_point
    assert from_list([[1.0]], ids=[np.uint8(3)]).ids.dtype == np.int64


def test_classes_of_arrays():
    assert from_list([[1.0], [2.0]], target=[7, 3]).classes == ("3", "7")
    assert from_list([[1.0], [2.0]], target=[1, 0], classes=["no", "yes"]).target.values.tolist() == [1, 0]
    assert from_list([[1.0], [2.0]], target=[True, False]).classes == ("False", "True")
    assert from_list([[1.0], [2.0]], target=[1, 2], kind="value").target.kind == "value"
    assert from_list([[1.0], [2.0]], target=[1.0, 2.0], kind="class").classes == ("1", "2")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_numpy(np.ones((2, 3, 1)), order="TN"), "order='TN' is not supported; choose one of 'NTD', 'NDT'"),
        (lambda: from_numpy(np.ones(3), order="NTD"), "must have the axes NTD"),
        (lambda: from_numpy(np.ones((2, 0, 1)), order="NTD"), "values is empty"),
        (lambda: from_numpy([["a", "b"]], order="NTD"), "values must hold numbers"),
        (lambda: from_numpy(np.ones((2, 3, 1)), order="NTD", lengths=[4, 1]), r"lengths\[0\] is 4; each must be"),
        (lambda: from_numpy(np.ones((2, 3, 1)), order="NTD", lengths=[1]), "2 whole numbers"),
        (lambda: from_numpy(np.ones((2, 3, 1)), order="NTD", times=np.ones((2, 2))), r"times must have shape \(2, 3\)"),
        (lambda: from_numpy(np.ones((2, 3, 1)), order="NTD", dt=np.ones((2, 3)), times=np.ones(3)), "both given"),
        (lambda: from_numpy(np.ones((2, 3, 1)), order="NTD", target=[1.0]), "target has 1 rows; .* one per series: 2"),
        (lambda: from_list([]), "series is empty"),
        (lambda: from_list(np.ones((2, 3, 1))), "use from_numpy"),
        (lambda: from_list([[1.0], []]), r"series\[1\] has no observation"),
        (lambda: from_list([[[1.0, 2.0]], [[1.0]]]), r"series\[1\] has 1 channels, but series\[0\] has 2"),
        (lambda: from_list([[1.0], ["a"]]), r"series\[1\] must hold numbers"),
        (lambda: from_list([[[1.0], [2.0, 3.0]]]), r"series\[0\] is not an array of numbers"),
        (lambda: from_list([[1.0]], times=[[1, 2]]), r"times\[0\] must have a row for each of the 1 steps"),
        (lambda: from_list([[1.0]], times=[[1], [2]]), "times has 2 parts for 1 series"),
        (lambda: from_list([[1.0]], dt=[[-1.0]]), r"dt of series\[0\], step 0 is -1.0: it must be 0 or more"),
        (lambda: from_list([[1.0]], dt=[[nan]]), "it must be 0 or more"),
        (lambda: from_list([[1.0], [2.0, np.inf]]), r"series\[1\], step 1, channel 'x0' is infinite"),
        (lambda: from_list([[1.0], [2.0, 1e300]]), r"step 1, channel 'x0' is 1e\+300, too large for float32"),
        (lambda: from_list([[1.0]], channels=["a", "b"]), "channels has 2 names for 1 channels"),
        (lambda: from_list([[[1.0, 2.0]]], channels=["a", "a"]), "channels contains a name twice: 'a'"),
        (lambda: from_list([[1.0]], ids=["a", "b"]), "ids must have one entry per series \\(1\\)"),
        (lambda: from_list([[1.0], [2.0]], target=[0, 2], classes=["a", "b"]), "is 2 at row 2; 2 classes were given"),
        (lambda: from_list([[1.0], [2.0]], target=["a", "a"]), "only one class"),
        (lambda: from_list([[1.0], [2.0]], target=[0.5, np.inf]), "target 'target' is infinite or too large at row 2"),
        (lambda: from_list([[1.0], [2.0]], target=[[0, 1], [1, 0]], per_step=False), "there must be one class per row"),
        (lambda: from_list([[1.0], [2.0]], target=[0.5, 1.0], target_names=["a", "b"]), "as many target names"),
        (lambda: from_list([[1.0]], dtype="int8"), "dtype='int8' is not supported"),
    ],
)  # fmt: skip
def test_a_wrong_array_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
