"""Tables with one reading of one channel per row, one test for each rule; docs/data.md tells them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_tables import nan
from series_checks import cells, some

from chronode.data import from_channel_rows, from_long


def rows(**columns):
    usual = {"id": [1, 1, 1, 2], "t": [0, 0, 3, 1], "what": ["hr", "temp", "hr", "hr"], "v": [60.0, 37.0, 62.0, 70.0]}
    return {**usual, **columns}


def read_rows(table=None, **options):
    about = {"id": "id", "time": "t", "channel": "what", "value": "v"}
    return from_channel_rows(rows() if table is None else table, **{**about, **options})


def test_every_channel_has_its_own_clock():
    s = read_rows()
    assert s.channels == ("hr", "temp")
    np.testing.assert_array_equal(s[0].values, [[60, 37], [62, nan]])
    np.testing.assert_array_equal(s[1].values, [[70, nan]])
    assert s[0].dt.tolist() == [0, 3]
    assert s.notes == ()


def test_readings_of_one_channel_and_time_are_merged_with_a_note_or_an_error():
    table = rows(what=["hr", "hr", "hr", "hr"])
    s = read_rows(table)
    assert s[0].values[:, 0].tolist() == [48.5, 62]
    merged = "1 reading of a channel that already has one at that time (first: 'hr'): replaced by their mean."
    assert s.notes == (merged,)
    with pytest.raises(ValueError, match="remove them, or use duplicates='merge'"):
        read_rows(table, duplicates="error")
    with pytest.raises(ValueError, match="must be 'merge' or 'error'"):
        read_rows(table, duplicates="keep")


def test_channels_of_training_keep_their_places():
    s = read_rows(columns=["temp", "spo2"])
    assert s.channels == ("temp", "spo2")
    assert "channels dropped: 'hr'." in s.notes
    np.testing.assert_array_equal(s[0].values, [[37, nan], [nan, nan]])
    with pytest.raises(ValueError, match="none of the channels 'spo2' occurs"):
        read_rows(columns=["spo2"])


def test_targets_of_readings():
    assert read_rows(rows(y=["p", "p", "p", "q"]), target="y").classes == ("p", "q")
    assert read_rows(target={1: 0.5, 2: 1.5}).target.values.tolist() == [[0.5], [1.5]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (rows(v=[1, "high", 2, 3]), "v: the value of row 2 is not a number: 'high'"),
        (rows(v=[1, float("inf"), 2, 3]), "v: the value of row 2 is infinite"),
        (rows(what=["hr", None, "hr", "hr"]), "what of row 2 is missing"),
        (rows(id=[1, 1, None, 2]), "id of row 3 is missing"),
    ],
)
def test_bad_readings_are_named(table, message):
    with pytest.raises(ValueError, match=message):
        read_rows(table)


@some
@given(st.data())
def test_readings_in_any_order_give_the_long_table(data):
    keys = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=8, unique=True))
    values = data.draw(st.lists(st.tuples(cells, cells), min_size=len(keys), max_size=len(keys)))
    wide = {"id": [k[0] for k in keys], "t": [k[1] for k in keys]}
    wide |= {"a": [v[0] for v in values], "b": [v[1] for v in values]}
    single = [
        (i, t, name, v) for (i, t), pair in zip(keys, values, strict=True) for name, v in zip("ab", pair, strict=True)
    ]
    single = data.draw(st.permutations(single))
    table = dict(zip(("id", "t", "what", "v"), map(list, zip(*single, strict=True)), strict=True))
    one = from_long(wide, id="id", time="t", empty="keep", unit=1)
    other = read_rows(table, columns=["a", "b"], unit=1)
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.times, other.times)
    assert one.lengths.tolist() == other.lengths.tolist()
