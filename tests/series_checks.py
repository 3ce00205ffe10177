"""Helpers of the tests of data: comparing Sequences, and strategies that make them."""

import os

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from chronode.data import Sequences, from_list

# The machine may be busy: what counts is the answer, not the time of one example. CHRONODE_EXAMPLES=2000 looks deeper.
some = settings(
    max_examples=int(os.environ.get("CHRONODE_EXAMPLES", "40")), deadline=None, suppress_health_check=list(HealthCheck)
)

numbers = st.floats(-1e6, 1e6, width=32)
cells = st.one_of(numbers, st.just(float("nan")))


def assert_same(one: Sequences, other: Sequences) -> None:
    """All that a user can see of the series is equal."""
    assert len(one) == len(other)
    assert one.channels == other.channels
    assert one.clock == other.clock
    assert dict(one.categories) == dict(other.categories)
    assert one.notes == other.notes
    assert one.ids.tolist() == other.ids.tolist()
    assert one.groups.tolist() == other.groups.tolist()
    assert one.lengths.tolist() == other.lengths.tolist()
    assert (one.base_times is None) == (other.base_times is None)
    assert one.values.dtype == other.values.dtype
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.times, other.times)
    np.testing.assert_array_equal(one.dt, other.dt)
    assert (one.target is None) == (other.target is None)
    if one.target is not None and other.target is not None:
        assert one.target.classes == other.target.classes
        assert one.target.names == other.target.names
        assert one.target.per_step == other.target.per_step
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.target, b.target)


@st.composite
def lists(draw: st.DrawFn, most: int = 5, longest: int = 6, cell: st.SearchStrategy[float] = cells) -> list:
    """Arrays (T_i, D) of unequal length."""
    width = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=most))
    row = st.lists(cell, min_size=width, max_size=width)
    return [np.array(draw(st.lists(row, min_size=n, max_size=n)), dtype=np.float32).reshape(n, width) for n in lengths]


@st.composite
def sequences(draw: st.DrawFn, most: int = 6, target: str | None = None) -> Sequences:
    """Sequences with or without times and targets, with groups."""
    series = draw(lists(most=most))
    count = len(series)
    found: dict = {"groups": draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))}
    if draw(st.booleans()):
        found["times"] = [draw(times(len(part))) for part in series]
    target = target or draw(st.sampled_from(["none", "class", "step class", "value", "step value"]))
    label, value = st.sampled_from("abc"), st.floats(-10, 10, width=32)
    each = label if "class" in target else value
    if target.startswith("step"):
        found["target"] = [draw(st.lists(each, min_size=len(p), max_size=len(p))) for p in series]
        found["per_step"] = True
    elif target != "none":
        found["target"] = draw(st.lists(each, min_size=count, max_size=count))
    if "class" in target:
        found["classes"] = ["a", "b", "c"]
    return from_list(series, ids=[f"s{i}" for i in range(count)], **found)


def times(length: int) -> st.SearchStrategy[list[int]]:
    """Rising whole numbers."""
    return st.lists(st.integers(0, 1000), min_size=length, max_size=length, unique=True).map(sorted)
