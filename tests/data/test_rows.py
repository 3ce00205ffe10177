"""The fast orders are the plain ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some

from chronode.data._rows import _by_code, _by_time

few = st.integers(0, 3)
many = st.integers(0, 2**31 - 1)


@some
@given(st.lists(st.one_of(few, many), max_size=30))
def test_the_order_by_code_is_stable(values):
    codes = np.array(values, dtype=np.int32)
    count = int(codes.max(initial=0)) + 1
    assert _by_code(codes, count).tolist() == np.argsort(codes, kind="stable").tolist()


@some
@given(st.data())
def test_the_order_by_code_and_time_is_stable(data):
    codes = np.sort(np.array(data.draw(st.lists(st.one_of(few, many), min_size=1, max_size=30)), dtype=np.int32))
    tick = data.draw(st.sampled_from([few, st.integers(-(2**62), 2**62), st.floats(-10, 10)]))
    ticks = np.array(data.draw(st.lists(tick, min_size=len(codes), max_size=len(codes))))
    assert _by_time(codes, ticks, int(codes.max()) + 1).tolist() == np.lexsort((ticks, codes)).tolist()


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_the_order_of_one_series_is_that_of_its_times(kind):
    assert _by_time(None, np.array([3, 1, 1, 2], dtype=kind), 1).tolist() == [1, 2, 3, 0]
