"""The rules for the columns of tables and the values in them; docs/data.md tells them."""

import numpy as np
import pytest
from long_tables import ONCE, long, made, nan

from chronode.data import from_long, from_wide, options_like
from chronode.data._table_columns import MOST_CATEGORIES


def test_missing_cells_are_not_observed():
    batch = made(long(x=[1.0, None, nan, 4.0])).batch()
    assert batch.observed[..., 0].tolist() == [[True, False], [False, True]]
    assert batch.x[..., 0].tolist() == [[1, 0], [0, 4]]


def test_text_among_the_values_is_an_error_with_row_and_text():
    with pytest.raises(ValueError, match="column 'x' is not numeric: row 3 has 'high'. Correct it, or leave"):
        made(long(x=["1", "2", "high", "low"]))
    with pytest.raises(ValueError, match="'day' is not numeric: row 1 has '2024-01-01'. .* pass time='day'"):
        made(long(day=["2024-01-01"] * 4))
    with pytest.raises(ValueError, match="'x' is not numeric: row 2 has 'b'"):
        made(long(x=[1, "b", None, 2.5]))


def test_numbers_as_text_are_numbers():
    assert made(long(x=["1", " 2.5", "", "4e1"])).values[:, 0].tolist()[1:4:2] == [2.5, 40]


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\x85", "\x0b", "\t "])
def test_unicode_spaces_are_stripped(space):
    """Spreadsheets fill cells with non-breaking spaces."""
    values = made(long(x=["1", space, f"{space}3{space}", "4"])).base_values[:, 0]
    np.testing.assert_array_equal(values, [1, nan, 3, 4])


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
    assert any("did not occur in training ('green'; 2 rows): treated as missing" in note for note in other.notes)


def test_too_many_texts_are_not_categories():
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
    assert s.notes == ("no values in 'gone': dropped.", ONCE)
    assert made(table, empty="keep").channels == ("x", "gone")
    with pytest.raises(ValueError, match="no values in 'gone': leave these columns out"):
        made(table, empty="error")
    with pytest.raises(ValueError, match="nothing to learn from"):
        made(table, columns=["gone"])


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e39])
def test_infinite_values_are_an_error_with_row(value):
    with pytest.raises(ValueError, match=r"x: the value of row 3 is (infinite|1e\+39, too large for float32)"):
        made(long(x=[1, 2, value, 4]))
    assert made(long(x=[1, 2, 1e39, 4]), dtype="float64").values[2, 0] == 1e39


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "idd"}, "id='idd' is not a column; the columns are 'id', 't', 'x', 'y'. Did you mean 'id'"),
        ({"time": "T"}, "time='T' is not a column"),
        ({"target": "yy"}, "target='yy' is not a column.* Did you mean 'y'"),
        ({"columns": ["x", "z"]}, "columns='z' is not a column"),
        ({"columns": ["w", "z"]}, "columns missing from the table: 'w', 'z'; it has"),
        ({"columns": ["x", "y"]}, "only one role: 'y'"),
        ({"ignore": ["w"]}, "ignore='w' is not a column"),
        ({"ignore": ["x"]}, "is left as a value column"),
        ({"group": "g"}, "group='g' is not a column"),
        ({"categorical": "hot"}, "categorical='hot' is not supported; choose one of 'error', 'codes', 'onehot'"),
        ({"empty": "no"}, "empty='no'"),
        ({"kind": "number"}, "kind='number'"),
        ({"dtype": "float16"}, "dtype='float16'"),
    ],
)
def test_an_unknown_column_or_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)


@pytest.mark.parametrize(
    ("name", "columns", "proposed"),
    [
        ("outcome", ["income", "come", "time"], []),
        ("time", ["item", "timid", "rime"], []),
        ("heart_rate", ["interest_rate", "rate", "Heart Rate"], ["Heart Rate", "rate"]),
        ("lable", ["label", "table"], ["label", "table"]),
        ("hr", ["x", "rh", "temp"], []),
        ("age", ["sage", "voltage", "page"], ["sage", "page"]),
        ("Patient ID", ["patient_id", "outpatients"], ["patient_id"]),
        ("temp", ["temperature", "stamp"], ["temperature"]),
        ("id", ["patient_id", "idx", "width"], ["patient_id", "idx"]),
        ("chartedat", ["charted_at", "started_at"], ["charted_at"]),
    ],
)
def test_only_related_columns_are_proposed(name, columns, proposed):
    table = {column: [1.0, 2.0] for column in columns}
    with pytest.raises(ValueError, match="is not a column") as caught:
        from_long(table, time=name)
    asked = str(caught.value).partition("Did you mean ")[2].rstrip("?")
    assert asked == " or ".join(map(repr, proposed))
