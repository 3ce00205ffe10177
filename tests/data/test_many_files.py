"""A folder, a pattern or a partitioned set of files is read as one table."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.data import read
from chronode.data._many_files import size_and_hash

OPTIONS = {"id": "who", "time": "t"}
TABLE = {"who": ["a", "a", "b", "b", "c"], "t": [0.0, 1.0, 0.0, 2.0, 5.0], "x": [1.0, 2.0, 3.0, 4.0, 5.0]}


def same(one, other):
    assert one.ids.tolist() == other.ids.tolist() and one.channels == other.channels
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine.values, theirs.values)
        np.testing.assert_array_equal(mine.times, theirs.times)


def pieces(rows, cuts):
    ends = [0, *sorted(cuts), rows]
    return [slice(start, end) for start, end in itertools.pairwise(ends) if start < end]


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 4), max_size=3),
    suffix=st.sampled_from(["csv", "parquet", "jsonl"]),
    order=st.randoms(),
)
def test_any_division_into_files_gives_the_series_of_one_file(tmp_path_factory, cuts, suffix, order):
    folder = tmp_path_factory.mktemp("many")
    parts = pieces(5, cuts)
    order.shuffle(parts)
    for number, part in enumerate(parts):
        table = pa.table({name: column[part] for name, column in TABLE.items()})
        path = folder / f"part-{number}.{suffix}"
        if suffix == "parquet":
            pq.write_table(table, path)
        elif suffix == "csv":
            path.write_text(table.to_pandas().to_csv(index=False))
        else:
            path.write_text(table.to_pandas().to_json(orient="records", lines=True))
    whole = folder / "whole"
    whole.mkdir()
    pq.write_table(pa.table(TABLE), whole / "all.parquet")
    wanted = read(whole / "all.parquet", **OPTIONS)
    by_id = np.argsort(read(folder / f"*.{suffix}", **OPTIONS).ids)
    same(read(folder / f"*.{suffix}", **OPTIONS)[by_id], wanted)


def test_folders_with_names_and_values_are_columns(tmp_path):
    for ward, rows in (("a", slice(0, 2)), ("b", slice(2, 5))):
        for year in (2023, 2024):
            folder = tmp_path / f"ward={ward}" / f"year={year}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"t": TABLE["t"][rows], "x": TABLE["x"][rows]}), folder / "part.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    s = read(tmp_path, id="ward", time="t", duplicates="keep")
    assert s.ids.tolist() == ["a", "b"] and s.lengths.tolist() == [4, 6] and s.channels == ("x", "year")
    assert set(s[0].values[:, 1]) == {2023, 2024}
    pattern = read(tmp_path / "*" / "year=2023" / "*.parquet", id="ward", time="t", columns=["x"])
    assert pattern.lengths.tolist() == [2, 3]


def test_whole_numbers_in_one_file_and_decimals_in_another_are_one_column(tmp_path):
    (tmp_path / "a.csv").write_text("who,t,x\na,0,1\na,1,\n")
    (tmp_path / "b.csv").write_text("who,t,x\nb,0,1.5\n")
    s = read(tmp_path, **OPTIONS)
    assert s.ids.tolist() == ["a", "b"] and s[1].values.tolist() == [[1.5]] and np.isnan(s[0].values[1, 0])


def test_a_file_with_other_columns_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("who,t,x\na,0,1\n")
    (tmp_path / "b.csv").write_text("who,t,y\nb,0,2\n")
    with pytest.raises(ValueError, match=r"b\.csv.*'x' missing.*'y' only here"):
        read(tmp_path, **OPTIONS)


def test_a_damaged_file_is_named_or_left_out(tmp_path):
    pq.write_table(pa.table(TABLE), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:200])
    with pytest.raises(ValueError, match=r"b\.parquet"):
        read(tmp_path, **OPTIONS)
    s = read(tmp_path, **OPTIONS, skip_bad=True)
    assert len(s) == 3 and any("b.parquet" in note for note in s.notes)


def test_an_empty_folder_and_a_pattern_without_files_are_refused(tmp_path):
    for source in (tmp_path, tmp_path / "*.csv"):
        with pytest.raises(FileNotFoundError, match="no files"):
            read(source)


def test_a_changed_file_changes_the_hash(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    before = size_and_hash(tmp_path)
    assert size_and_hash(tmp_path / "*.csv") == before
    (tmp_path / "b.csv").write_text("x\n2\n")
    assert size_and_hash(tmp_path) != before
