import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sensor_checks import range_starts, shuffled_starts

from chronode.data import from_list
from chronode.lab.tasks._parts import range_windows, shuffled
from chronode.lab.tasks._text_files import held, read_matrix, read_table, same_length

COLUMNS = {"when": "date", "count": "whole", "level": "number", "state": ("on", "off")}
GOOD = "when,count,level,state\n2024-01-01 10:00:00,1,0.5,on\n2024-01-01 11:00:00,2,?,off\n"


def written(folder, text):
    file = folder / "table.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_a_table_is_read_by_kind(tmp_path):
    table = read_table(written(tmp_path, GOOD), COLUMNS, missing="?")
    assert table["when"].astype("datetime64[h]").astype(str).tolist() == ["2024-01-01T10", "2024-01-01T11"]
    assert table["count"].tolist() == [1, 2] and table["count"].dtype == np.int64
    assert table["level"][0] == 0.5 and np.isnan(table["level"][1])
    assert table["state"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.5", "half", r"table.csv, line 2: 'half' is not a valid 'level'"),
        ("0.5", "inf", r"line 2: inf is not a valid 'level': it must be finite"),
        ("0.5", "nan", r"line 2: nan is not a valid 'level': it must be finite"),
        ("2,?", "2.5,?", r"line 3: '2.5' is not a valid 'count'"),
        ("2,?", "?,?", r"line 3: .* is not a valid 'count'"),
        (",off", ",of", r"line 3: 'of' is not a valid 'state'; expected one of 'on', 'off'"),
        (",off", "", r"line 3: 3 cells instead of 4"),
        ("11:00:00", "25:00:00", r"line 3: '2024-01-01 25:00:00' is not a valid 'when'"),
    ],
)
def test_a_wrong_cell_is_reported_with_its_line(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=message):
        read_table(written(tmp_path, GOOD.replace(old, new)), COLUMNS, missing="?")


@pytest.mark.parametrize(
    ("text", "message"), [("", "empty"), (" \n\n", "empty"), ("when,count,level,state\n", "table")]
)
def test_a_table_without_rows_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"table.csv.*{message}"):
        read_table(written(tmp_path, text), COLUMNS)


def test_a_file_that_is_not_there(tmp_path):
    for read in (lambda path: read_table(path, COLUMNS), lambda path: read_matrix(path, 2)):
        with pytest.raises(ValueError, match="gone.txt: no such file"):
            read(tmp_path / "gone.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2\n3\n", "line 2: 1 number instead of 2"),
        ("1 2\n3 4 5\n", "line 2: 3 numbers instead of 2"),
        ("1 2\n\n3 x\n", "line 3: 'x' is not a number"),
        ("1 nan\n", "line 1: 'nan' is not a number"),
        ("1 2\n1e99 3\n", "line 2: '1e99' is not a number"),
        ("1\n2\n", "line 1: 1 number instead of 2"),
    ],
)
def test_a_wrong_matrix_is_reported_with_its_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"table.csv, {message}"):
        read_matrix(written(tmp_path, text), 2)


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_matrix_comes_back(tmp_path_factory, rows):
    file = written(tmp_path_factory.mktemp("matrix"), "\n".join("  ".join(map(repr, row)) for row in rows))
    assert read_matrix(file, 3).tolist() == np.array(rows, np.float32).tolist()


def test_files_that_belong_together_have_as_many_rows(tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'b'} has 1 row, a has 2")):
        same_length({tmp_path / "a": [1, 2], tmp_path / "b": [1]})


@given(st.lists(st.one_of(st.just(np.nan), st.floats(-9, 9)), min_size=1, max_size=20))
def test_held_is_the_last_number_before(column):
    expected, last = [], next((x for x in column if not np.isnan(x)), np.nan)
    for x in column:
        last = last if np.isnan(x) else x
        expected.append(last)
    np.testing.assert_array_equal(held(np.array(column)), expected)


@given(st.integers(2, 60), st.integers(1, 8), st.integers(1, 8))
def test_windows_start_where_the_papers_range_does(rows, length, stride):
    series = from_list([np.arange(float(rows))], ids=["a"])
    expected = range_starts(rows, length, stride)
    if not expected:
        with pytest.raises(ValueError, match="no series is longer"):
            range_windows(series, length, stride)
        return
    found = range_windows(series, length, stride)
    assert [int(window.values[0, 0]) for window in found] == expected


@given(st.integers(1, 80), st.integers(0, 2**31))
def test_shuffled_parts_are_those_of_the_recipe(count, seed):
    series = from_list([[float(i)] for i in range(count)])
    found = [part.values[:, 0].astype(int).tolist() for part in shuffled(series, seed)]
    assert found == shuffled_starts(list(range(count)), seed)
    assert sorted(row for part in found for row in part) == list(range(count))
