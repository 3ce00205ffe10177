"""The rules for the rows of tables: their order, ids, times and doubles; docs/data.md tells them."""

from dataclasses import replace

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_tables import ONCE, long, made, nan
from series_checks import assert_same, cells, some

from chronode.data import from_long, from_wide, options_like


@pytest.mark.parametrize("library", [pandas.DataFrame, polars.DataFrame, pyarrow.table, dict])
def test_any_kind_of_table_gives_the_same(library):
    table = long(t=np.array(["2024-01-01", "2024-01-02", "2024-01-01", "2024-01-03"], dtype="M8[ms]"))
    table["x"] = np.array([1.0, nan, 3.0, 4.0])
    assert_same(made(library(table)), made(table))


@st.composite
def tables(draw):
    """A long table with distinct (id, time) pairs, and a shuffle of its rows."""
    pairs = st.tuples(st.sampled_from("abcd"), st.integers(0, 50))
    keys = draw(st.lists(pairs, min_size=1, max_size=20, unique=True))
    value = draw(st.lists(cells, min_size=len(keys), max_size=len(keys)))
    labels = draw(st.lists(st.sampled_from(["u", "v"]), min_size=len(keys), max_size=len(keys)))
    table = {"id": [k[0] for k in keys], "t": [k[1] for k in keys], "x": [0.5 if v != v else v for v in value]}
    table |= {"z": [None if v != v else v for v in value], "y": labels, "k": [1.0] * len(keys)}
    return table, draw(st.permutations(range(len(keys))))


@some
@given(tables())
def test_the_order_of_rows_does_not_matter(case):
    table, order = case
    moved = {name: [column[i] for i in order] for name, column in table.items()}
    options = {"id": "id", "time": "t", "target": "y", "classes": ["u", "v"], "per_step": True, "empty": "keep"}
    one, other = (from_long(t, **options) for t in (table, moved))
    assert_same(replace(one, notes=()), replace(other, notes=()))
    rows = sorted(zip(table["id"], table["t"], table["x"], strict=True))
    assert [x for *_, x in rows] == pytest.approx(one.values[:, 0].tolist())


def test_series_are_sorted_by_id_numbers_as_numbers():
    table = {"id": [10, 9, 10], "x": [1, 2, 3]}
    assert from_long(table, id="id").ids.tolist() == [9, 10]
    assert from_long(pandas.DataFrame({"id": [10.0, 9.0], "x": [1, 2]}), id="id").ids.tolist() == [9, 10]


def test_unsorted_times_are_sorted_with_a_note():
    s = made(long(t=[1, 0, 0, 2]))
    assert s[0].values[:, 0].tolist() == [2, 1]
    assert s.notes == ("1 time went back within one id (first at row 2): the rows were sorted by time.", ONCE)


def test_mixed_ids_are_not_unsorted_times():
    s = made({"id": ["a", "b", "a", "b"], "t": [0, 0, 1, 2], "x": [1.0, 3.0, 2.0, 4.0], "y": ["p", "q", "p", "q"]})
    assert_same(s, made())


def test_rows_of_one_time_are_merged_with_a_note():
    table = long(t=[1, 1, 0, 2], x=[1.0, 4.0, nan, 4.0], y=["p", "r", "q", "q"])
    s = made(table, target=None, ignore=["y"])
    assert s.lengths.tolist() == [1, 2]
    assert s[0].values.tolist() == [[2.5]]
    assert s.notes[0] == (
        "1 row with a time that the same id already has (first: rows 1 and 2, id a): merged, using the mean of numbers "
        "and the last label."
    )
    labels = made({**table, "y": ["p", "r", None, "q"]}, per_step=True)
    assert [labels.classes[i] if i >= 0 else None for i in labels.target.values] == ["r", None, "q"]


def test_the_mean_is_of_observed_numbers_and_the_label_the_last_known():
    table = {"t": [0, 0, 0, 1], "x": [nan, 2.0, 4.0, nan], "y": ["p", "q", None, "p"]}
    s = from_wide(table, time="t", target="y")
    np.testing.assert_array_equal(s.values[:, 0], [3, nan])
    assert s.target.values.tolist() == [1, 0]


@pytest.mark.parametrize("big", [3e38, -3e38])
def test_the_mean_of_large_numbers_does_not_overflow(big):
    assert from_wide({"t": [0, 0], "x": [big, big]}, time="t").values[0, 0] == np.float32(big)


def test_rows_of_one_time_can_be_an_error_or_be_kept():
    with pytest.raises(
        ValueError, match="1 row with a time that the same id already has .first: rows 3 and 4, id b.: remove them"
    ):
        made(long(t=[0, 1, 2, 2]), duplicates="error")
    s = made(long(t=[0, 1, 2, 2]), duplicates="keep")
    assert s[1].dt.tolist() == [0, 0]
    assert "kept, with dt = 0" in s.notes[0]
    with pytest.raises(ValueError, match="duplicates='drop' is not supported; choose one of 'merge', 'error', 'keep'"):
        made(duplicates="drop")


def test_an_id_with_one_row_works():
    s = made(long(id=["a", "b", "b", "b"], t=[0, 0, 1, 2], y=["p", "q", "q", "q"]))
    assert s.lengths.tolist() == [1, 3]
    assert s[0].dt.tolist() == [0]
    assert s.batch().x.shape == (2, 3, 1)


def test_a_missing_id_is_an_error_with_row():
    with pytest.raises(ValueError, match=r"id: the id of row 2 is missing \(1 such row\)"):
        made(long(id=["a", None, "b", "b"]))


def test_ids_of_a_pandas_category_without_rows_do_not_count():
    table = pandas.DataFrame(long())
    table["id"] = pandas.Categorical(table["id"], categories=["z", "b", "a"])
    assert made(table).ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("table", [{}, {"id": [], "x": []}, pandas.DataFrame({"id": [], "x": []})])
def test_a_table_without_rows_is_an_error(table):
    with pytest.raises(ValueError, match="the table has no rows"):
        from_long(table, id="id")


def test_other_things_are_not_tables():
    with pytest.raises(TypeError, match="a table must be a frame of pandas or polars, a DuckDB relation"):
        from_long([1, 2, 3])
    with pytest.raises(ValueError, match="two columns have the same name: 'x'"):
        from_long(pandas.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(ValueError, match="unequal lengths: 'x' 2, 'z' 1"):
        from_long({"x": [1, 2], "z": [1]})
    with pytest.raises(ValueError, match="column 'x' must have one axis"):
        from_long({"x": np.ones((2, 2))})


def test_a_wide_table_is_one_series():
    s = from_wide({"t": [0, 2], "x": [1, 2]}, time="t")
    assert len(s) == 1
    with pytest.raises(ValueError, match="a wide table is a single series"):
        from_wide(long(), id="id")


def test_options_like_training_read_another_table_the_same_way():
    train = made(long(t=["2024-01-01", "2024-01-02", "2024-01-01", "2024-01-04"], gone=[None] * 4))
    options = options_like(train)
    other = made(long(t=["2024-01-01 00:00", "2024-01-01 12:00"] * 2, x=[None] * 4, gone=[1, 2, 3, 4]), **options)
    assert other.channels == ("x",)
    assert other.clock.unit == "day"
    assert other[0].dt.tolist() == [0, 0.5]
    numbers = options_like(made(long(t=[0, 1000, 0, 2000])))
    assert made(long(t=[0, 1000, 0, 2000]), **numbers).clock.scale == 1000


def test_the_facts_are_those_of_the_tour():
    count = 200
    table = {
        "patient": np.repeat(np.arange(20), 10),
        "charted_at": np.array("2024-01-01", dtype="M8[m]") + 47 * np.arange(count),
        "hr": np.where(np.arange(count) % 2, 60.0, 70.0),
        "rare": [1.0 if i % 10 == 0 else i / 7 if i % 10 == 1 else None for i in range(count)],
        "outcome": np.repeat([1, 1] + [0] * 18, 10),
    }
    s = from_long(table, id="patient", time="charted_at", target="outcome")
    assert str(s.describe()) == (
        "200 rows → 20 series, 10 observations each, median gap: 47 min, 2 channels (hr, rare), 40% of values missing "
        '(rare 80%), outcome: 2 classes (class "1": 10%)'
    )
    assert s.describe().time == "time unit: hours (median gap ≈ 0.78)"
    assert s.describe().as_dict()["classes"] == {"0": 18, "1": 2}
    assert s.describe().missing == {"rare": 0.8}


def test_the_facts_count_the_rows_of_the_table_and_name_the_channels():
    table = {"id": [1, 1, 1, 2], "t": [0, 0, 1, 0], **{f"c{i}": np.arange(4.0) for i in range(14)}}
    s = from_long(table, id="id", time="t")
    names = ", ".join(f"c{i}" for i in range(12))
    assert str(s.describe()) == (f"4 rows → 2 series, 1-2 observations each, median gap: 1, 14 channels ({names}, ...)")
    assert str(s[:1].describe()).startswith("2 rows → 1 series, 2 observations, median gap: 1, 14 channels")


@pytest.mark.parametrize(
    ("step", "text"),
    [("1D", "1 day"), ("2D", "2 days"), ("7D", "1 week"), ("14D", "2 weeks"), ("1h", "1 h"), ("1s", "1 s")],
)
def test_the_median_gap_is_in_singular_or_plural(step, text):
    times = pandas.date_range("2024-01-01", periods=3, freq=step)
    assert f"median gap: {text}," in str(from_long({"t": times, "x": [1.0, 2.0, 3.0]}, time="t").describe())


def test_three_classes_are_given_by_their_smallest_and_largest_share():
    s = from_long({"id": np.arange(300), "x": np.ones(300), "y": ["a"] + ["b"] * 99 + ["c"] * 200}, id="id", target="y")
    assert str(s.describe()).endswith("y: 3 classes (0.333% to 67% each)")
