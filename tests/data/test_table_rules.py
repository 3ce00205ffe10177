"""The rules for tables, one test each; docs/data.md tells them."""

from dataclasses import replace

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import assert_same, cells, some

from chronode.data import from_channel_rows, from_long, from_wide, options_like
from chronode.data.table import MOST_CATEGORIES

nan = float("nan")
ONCE = "classes of 'y' seen once: 'p' (id a), 'q' (id b): kept; a split puts them into training."


def long(**columns):
    told = {"id": ["a", "a", "b", "b"], "t": [0, 1, 0, 2], "x": [1.0, 2.0, 3.0, 4.0], "y": ["p", "p", "q", "q"]}
    return {**told, **columns}


def made(table=None, **options):
    return from_long(long() if table is None else table, **{"id": "id", "time": "t", "target": "y", **options})


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


def test_missing_cells_are_not_observed():
    batch = made(long(x=[1.0, None, nan, 4.0])).batch()
    assert batch.observed[..., 0].tolist() == [[True, False], [False, True]]
    assert batch.x[..., 0].tolist() == [[1, 0], [0, 4]]


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
        "1 row at a time that the same id already has (first: rows 1 and 2, id a): merged, numbers by their mean, "
        "labels by the last."
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
        ValueError, match="1 row at a time that the same id already has .first: rows 3 and 4, id b.: remove them"
    ):
        made(long(t=[0, 1, 2, 2]), duplicates="error")
    s = made(long(t=[0, 1, 2, 2]), duplicates="keep")
    assert s[1].dt.tolist() == [0, 0]
    assert "kept, with dt = 0" in s.notes[0]
    with pytest.raises(ValueError, match="duplicates='drop' is not known; choose one of 'merge', 'error', 'keep'"):
        made(duplicates="drop")


def test_text_among_the_values_is_an_error_with_row_and_text():
    with pytest.raises(ValueError, match="column 'x' is not numeric: row 3 has 'high'. Correct it, or leave"):
        made(long(x=["1", "2", "high", "low"]))
    with pytest.raises(ValueError, match="'day' is not numeric: row 1 has '2024-01-01'. .* give time='day'"):
        made(long(day=["2024-01-01"] * 4))
    with pytest.raises(ValueError, match="'x' is not numeric: row 2 has 'b'"):
        made(long(x=[1, "b", None, 2.5]))


def test_numbers_as_text_are_numbers():
    assert made(long(x=["1", " 2.5", "", "4e1"])).values[:, 0].tolist()[1:4:2] == [2.5, 40]


def test_text_can_become_codes_or_channels():
    table = long(tag=["red", None, "blue", "red"])
    coded = made(table, categorical="codes")
    assert coded.channels == ("x", "tag")
    np.testing.assert_array_equal(coded.values[:, 1], [1, nan, 0, 1])
    hot = made(table, categorical="onehot")
    assert hot.channels == ("x", "tag=blue", "tag=red")
    np.testing.assert_array_equal(hot.values[:, 1:], [[0, 1], [nan, nan], [1, 0], [0, 1]])
    assert hot.categories == {"tag": ("blue", "red")}


def test_text_of_one_time_is_the_last():
    s = from_wide({"t": [0, 0], "tag": ["a", "b"]}, time="t", categorical="codes")
    assert s.values.tolist() == [[1]]


def test_categories_of_training_are_kept_and_others_are_missing_with_a_note():
    train = made(long(tag=["red", "blue", "blue", "red"]), categorical="onehot")
    other = made(long(tag=["red", "green", "green", "red"]), **options_like(train))
    assert other.channels == train.channels
    np.testing.assert_array_equal(other.values[:, 1:], [[0, 1], [nan, nan], [nan, nan], [0, 1]])
    assert any("did not see ('green'; 2 rows): missing" in note for note in other.notes)


def test_too_many_texts_are_no_category():
    count = MOST_CATEGORIES + 1
    table = {"x": np.ones(count), "text": [f"t{i}" for i in range(count)]}
    with pytest.raises(ValueError, match="'text' has 1,001 different texts"):
        from_wide(table, categorical="codes")


def test_a_constant_channel_is_kept_with_a_note():
    s = made(long(c=[2, 2, 2, 2]))
    assert s.channels == ("x", "c")
    assert s.notes == ("constant, kept: c = 2.", ONCE)


def test_a_channel_without_values_is_dropped_with_a_note_or_an_error_or_kept():
    table = long(gone=[None, None, nan, None])
    s = made(table)
    assert s.channels == ("x",)
    assert s.notes == ("no value at all in 'gone': dropped.", ONCE)
    assert made(table, empty="keep").channels == ("x", "gone")
    with pytest.raises(ValueError, match="no value at all in 'gone': leave such columns out"):
        made(table, empty="error")
    with pytest.raises(ValueError, match="nothing to learn from"):
        made(table, columns=["gone"])


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e39])
def test_infinite_values_are_an_error_with_row(value):
    with pytest.raises(ValueError, match=r"x: the value of row 3 is (infinite|1e\+39, too large for float32)"):
        made(long(x=[1, 2, value, 4]))
    assert made(long(x=[1, 2, 1e39, 4]), dtype="float64").values[2, 0] == 1e39


def test_infinite_targets_are_an_error_with_row():
    with pytest.raises(ValueError, match="the target 'y' at row 3 is infinite"):
        made(long(y=[1, 1, float("inf"), 2]))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"id": "idd"}, "id='idd' is not a column; the columns are 'id', 't', 'x', 'y'. Did you mean 'id'"),
        ({"time": "T"}, "time='T' is not a column"),
        ({"target": "yy"}, "target='yy' is not a column.* Did you mean 'y'"),
        ({"columns": ["x", "z"]}, "columns='z' is not a column"),
        ({"columns": ["w", "z"]}, "columns that are not in the table: 'w', 'z'; it has"),
        ({"columns": ["x", "y"]}, "one use only: 'y'"),
        ({"ignore": ["w"]}, "ignore='w' is not a column"),
        ({"ignore": ["x"]}, "no value column is left"),
        ({"group": "g"}, "group='g' is not a column"),
        ({"categorical": "hot"}, "categorical='hot' is not known; choose one of 'error', 'codes', 'onehot'"),
        ({"empty": "no"}, "empty='no'"),
        ({"kind": "number"}, "kind='number'"),
        ({"dtype": "float16"}, "dtype='float16'"),
    ],
)
def test_an_unknown_column_or_option_is_named(options, told):
    with pytest.raises(ValueError, match=told):
        made(**options)


def test_an_id_with_one_row_works():
    s = made(long(id=["a", "b", "b", "b"], t=[0, 0, 1, 2], y=["p", "q", "q", "q"]))
    assert s.lengths.tolist() == [1, 3]
    assert s[0].dt.tolist() == [0]
    assert s.batch().x.shape == (2, 3, 1)


def test_a_missing_id_is_an_error_with_row():
    with pytest.raises(ValueError, match=r"id: the id of row 2 is missing \(1 such rows\)"):
        made(long(id=["a", None, "b", "b"]))


def test_targets_by_id_need_the_same_ids():
    assert made(target={"a": 1.5, "b": 2.5}, ignore=["y"]).target.values.tolist() == [[1.5], [2.5]]
    assert made(target={"a": "p", "b": "q"}, ignore=["y"]).classes == ("p", "q")
    with pytest.raises(ValueError, match="id 'c' has no rows"):
        made(target={"a": 1, "b": 0, "c": 1}, ignore=["y"])
    with pytest.raises(ValueError, match="id 'b' has no target"):
        made(target={"a": 1}, ignore=["y"])


def test_ids_of_a_pandas_category_without_rows_do_not_count():
    table = pandas.DataFrame(long())
    table["id"] = pandas.Categorical(table["id"], categories=["z", "b", "a"])
    assert made(table).ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("table", [{}, {"id": [], "x": []}, pandas.DataFrame({"id": [], "x": []})])
def test_a_table_without_rows_is_an_error(table):
    with pytest.raises(ValueError, match="the table has no rows"):
        from_long(table, id="id")


def test_other_things_are_no_tables():
    with pytest.raises(TypeError, match="a table must be a pandas or polars frame"):
        from_long([1, 2, 3])
    with pytest.raises(ValueError, match="two columns have the same name: 'x'"):
        from_long(pandas.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(ValueError, match="unequal lengths: 'x' 2, 'z' 1"):
        from_long({"x": [1, 2], "z": [1]})
    with pytest.raises(ValueError, match="column 'x' must have one axis"):
        from_long({"x": np.ones((2, 2))})


def test_a_target_with_one_class_is_an_error():
    with pytest.raises(ValueError, match="target 'y' has one class only .'p'.: there is nothing to learn"):
        made(long(y=["p"] * 4))
    assert made(long(y=["p"] * 4), classes=["p", "q"]).target.values.tolist() == [0, 0]


def test_a_class_seen_once_is_kept_with_a_note():
    s = made(long(id=["a", "b", "c", "d"], y=["p", "p", "q", "p"]))
    assert s.notes == ("classes of 'y' seen once: 'q' (id c): kept; a split puts them into training.",)


def test_classes_that_training_did_not_see_are_an_error():
    with pytest.raises(ValueError, match="classes that training did not see: 'q'; it saw 'p', 'r'"):
        made(classes=["p", "r"])
    assert made(classes=["q", "r", "p"]).target.values.tolist() == [2, 0]


def test_a_target_that_is_missing_is_unknown_with_a_note():
    s = made(long(y=["p", "p", None, None], id=["a", "b", "c", "c"], z=[1, 2, 3, 4]), classes=["p", "q"])
    assert s.target.values.tolist() == [0, 0, -100]
    assert "1 series without target 'y': kept." in s.notes
    with pytest.raises(ValueError, match="target 'y' is missing everywhere"):
        made(long(y=[None] * 4))


def test_a_target_that_changes_within_an_id_is_per_step_with_a_note():
    s = made(long(y=["p", "q", "q", "q"]))
    assert s.target.per_step
    assert s.notes[0] == "the target 'y' changes within 1 id (first: a): taken as a target per step."
    with pytest.raises(ValueError, match="changes within 1 id .first: a.: per_step=False needs one"):
        made(long(y=["p", "q", "q", "q"]), per_step=False)
    assert made(per_step=True).target.per_step


def test_one_series_has_a_target_per_step():
    assert from_wide({"x": [1, 2], "y": ["p", "q"]}, target="y").target.per_step


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["p", "p", "q", "q"], "class"),
        ([True, True, False, False], "class"),
        ([0, 0, 1, 1], "class"),
        ([0.0, 0.0, 1.0, 1.0], "class"),
        ([0.5, 0.5, 1.0, 1.0], "value"),
        (["0", "0", "1", "1"], "class"),
    ],
)
def test_the_kind_of_target_is_found(column, kind):
    assert made(long(y=column)).target.kind == kind


def test_many_whole_numbers_are_values_and_few_are_classes_unless_told():
    table = {"x": np.zeros(30), "y": np.arange(30)}
    assert from_wide(table, target="y").target.kind == "value"
    assert len(from_wide(table, target="y", kind="class").classes) == 30
    assert made(long(y=[0, 0, 1, 1]), kind="value").target.values.tolist() == [[0], [1]]
    with pytest.raises(ValueError, match="the target 'y' is not a number at row 1: 'p'"):
        made(kind="value")


def test_class_names_of_numbers_are_sorted_as_numbers():
    assert made(long(y=[10, 10, 9, 9])).classes == ("9", "10")
    assert made(long(y=[10.0, 10.0, None, 9.0])).classes == ("9", "10")


def test_several_targets_are_numbers():
    s = made(long(y=[1.0, 1.0, 2.0, 2.0], w=[3, 3, 4, 4]), target=["y", "w"])
    assert s.target.values.tolist() == [[1, 3], [2, 4]]
    assert s.target.names == ("y", "w")
    with pytest.raises(ValueError, match="one target column only"):
        made(long(w=[1, 1, 2, 2]), target=["y", "w"], kind="class")


def test_groups_belong_to_ids():
    assert made(long(ward=[1, 1, 2, 2]), group="ward").groups.tolist() == [1, 2]
    with pytest.raises(ValueError, match="ward: id a has more than one group"):
        made(long(ward=[1, 2, 2, 2]), group="ward")
    with pytest.raises(ValueError, match="ward: id b has no group"):
        made(long(ward=[1, 1, None, 2]), group="ward")


def test_groups_survive_merging():
    s = made(long(t=[1, 1, 0, 2], ward=["u", "u", "v", "v"]), group="ward")
    assert s.groups.tolist() == ["u", "v"]


def test_a_wide_table_is_one_series():
    s = from_wide({"t": [0, 2], "x": [1, 2]}, time="t")
    assert len(s) == 1
    with pytest.raises(ValueError, match="a wide table is one series"):
        from_wide(long(), id="id")


def rows(**columns):
    told = {"id": [1, 1, 1, 2], "t": [0, 0, 3, 1], "what": ["hr", "temp", "hr", "hr"], "v": [60.0, 37.0, 62.0, 70.0]}
    return {**told, **columns}


def read_rows(table=None, **options):
    told = {"id": "id", "time": "t", "channel": "what", "value": "v"}
    return from_channel_rows(rows() if table is None else table, **{**told, **options})


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
    assert s.notes == ("1 reading of a channel that already has one at that time (first: 'hr'): merged by their mean.",)
    with pytest.raises(ValueError, match="remove them, or use duplicates='merge'"):
        read_rows(table, duplicates="error")
    with pytest.raises(ValueError, match="must be 'merge' or 'error'"):
        read_rows(table, duplicates="keep")


def test_channels_of_training_keep_their_places():
    s = read_rows(columns=["temp", "spo2"])
    assert s.channels == ("temp", "spo2")
    assert "channels left out: 'hr'." in s.notes
    np.testing.assert_array_equal(s[0].values, [[37, nan], [nan, nan]])
    with pytest.raises(ValueError, match="none of the channels 'spo2' occurs"):
        read_rows(columns=["spo2"])


def test_targets_of_readings():
    assert read_rows(rows(y=["p", "p", "p", "q"]), target="y").classes == ("p", "q")
    assert read_rows(target={1: 0.5, 2: 1.5}).target.values.tolist() == [[0.5], [1.5]]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (rows(v=[1, "high", 2, 3]), "v: the value of row 2 is not a number: 'high'"),
        (rows(v=[1, float("inf"), 2, 3]), "v: the value of row 2 is infinite"),
        (rows(what=["hr", None, "hr", "hr"]), "what of row 2 is missing"),
        (rows(id=[1, 1, None, 2]), "id of row 3 is missing"),
    ],
)
def test_bad_readings_are_named(table, told):
    with pytest.raises(ValueError, match=told):
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
        "200 rows → 20 series, 10 observations, median gap 47 min, 2 channels (1 with > 60 % missing), "
        "outcome: 2 classes (10 % positive)"
    )
    assert s.describe().time == "time unit: hours (median gap ≈ 0.78)"
    assert s.describe().as_dict()["classes"] == {"0": 18, "1": 2}
    assert s.describe().missing == {"rare": 0.8}
