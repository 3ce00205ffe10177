"""Every kind of file and frame gives what a plain table gives; options that a kind does not have are named."""

import io
import json
import os
import subprocess
import sys
import threading
import zipfile

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from series_checks import assert_same

from chronode.data import from_long, from_numpy, from_series_rows, from_wide, read
from chronode.data._readers import column_names

ROWS = {
    "who": ["007", "007", "7", "7"],
    "t": ["2024-01-01 10:00:00", "2024-01-01 12:00:00", "2024-01-02 10:00:00", "2024-01-02 11:00:00"],
    "x": [1.5, None, 3.0, 4.0],
    "y": ["p", "p", "q", "q"],
}
ROLES = {"id": "who", "time": "t", "target": "y"}


def text(frame):
    return frame.to_csv(index=False)


def feather_stream(frame, path):
    table = pyarrow.Table.from_pandas(frame)
    with pyarrow.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "a.csv": lambda frame, path: frame.to_csv(path, index=False),
    "a.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "a.csv.bz2": lambda frame, path: frame.to_csv(path, index=False),
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "a.feather": lambda frame, path: frame.to_feather(path),
    "a.arrow": feather_stream,
    "a.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "a.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "a.jsonl.gz": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "a.ndjson": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "a.json": lambda frame, path: frame.to_json(path, orient="records"),
    "columns.json": lambda frame, path: frame.to_json(path),
    "split.json": lambda frame, path: frame.to_json(path, orient="split", indent=1),
    "table.json": lambda frame, path: frame.to_json(path, orient="table", index=False),
    "lists.json": lambda frame, path: path.write_text(json.dumps(ROWS)),
    "a.csv.zip": lambda frame, path: frame.to_csv(path, index=False),
    "a.zip": lambda frame, path: frame.to_csv(
        path, index=False, compression={"method": "zip", "archive_name": "b.tsv"}, sep="\t"
    ),
    "a.psv": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "a.tab": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "a.log": lambda frame, path: frame.to_csv(path, index=False),
    "no-suffix": lambda frame, path: frame.to_csv(path, index=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_series(tmp_path, name):
    WRITERS[name](pandas.DataFrame(ROWS), tmp_path / name)
    made = read(tmp_path / name, **ROLES)
    assert_same(made, from_long(ROWS, **ROLES))
    assert made.ids.tolist() == ["007", "7"]
    assert column_names(tmp_path / name, {}) == list(ROWS)


@pytest.mark.parametrize("name", ["a.xlsx", "a.parquet", "a.feather"])
def test_dates_that_are_stored_as_dates(tmp_path, name):
    frame = pandas.DataFrame({**ROWS, "t": pandas.to_datetime(ROWS["t"])})
    WRITERS[name](frame, tmp_path / name)
    expected = from_long(ROWS, **ROLES)
    for options in ({}, {"time_format": "%d/%m/%Y"}):
        assert read(tmp_path / name, **ROLES, **options).times.tolist() == expected.times.tolist()


FRAMES = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "lazy polars": polars.LazyFrame,
    "Arrow": pyarrow.table,
    "DuckDB": lambda rows: duckdb.from_arrow(pyarrow.table(rows)),
    "mapping": dict,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_gives_the_same_series(kind):
    assert_same(from_long(FRAMES[kind](ROWS), **ROLES), from_long(ROWS, **ROLES))


def test_a_query_of_duckdb():
    found = duckdb.sql("select i // 3 as id, i % 3 as t, i * 0.5 as x from range(6) as r(i)")
    made = from_long(found, id="id", time="t")
    assert made.lengths.tolist() == [3, 3]
    assert made.values[:, 0].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]


def test_sheets_of_excel(tmp_path):
    path = tmp_path / "a.xlsx"
    with pandas.ExcelWriter(path) as book:
        pandas.DataFrame({"note": ["read me"]}).to_excel(book, sheet_name="about", index=False)
        pandas.DataFrame(ROWS).to_excel(book, sheet_name="data", index=False, startrow=2, startcol=1)
    made = read(path, sheet="data", **ROLES)
    assert made.notes[0] == "read sheet 'data', one of 2."
    assert made.lengths.tolist() == [2, 2]
    with pytest.raises(
        ValueError, match="sheet='dat' is not a sheet; the sheets are 'about', 'data'. Did you mean 'data'"
    ):
        read(path, sheet="dat", **ROLES)
    with pytest.raises(ValueError, match="column 'note' is not numeric"):
        read(path)


def test_markers_and_mixed_cells_of_excel(tmp_path):
    path = tmp_path / "a.xlsx"
    pandas.DataFrame({"id": [1, "007", "NA"], "x": [1, "n.d.", " NA "], "z": ["?", 2, 3]}).to_excel(path, index=False)
    made = read(path, id="id", missing_values=["n.d."])
    assert made.ids.tolist() == ["007", "1", "NA"]
    np.testing.assert_array_equal(made.values, [[np.nan, 2], [1, np.nan], [np.nan, 3]])


def test_openpyxl_is_named_if_it_is_not_there(tmp_path, monkeypatch):
    pandas.DataFrame(ROWS).to_excel(tmp_path / "a.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match="a.xlsx: Excel files need openpyxl: pip install openpyxl"):
        read(tmp_path / "a.xlsx")


def test_json_lines_with_fields_that_come_and_go(tmp_path):
    rows = [{"t": 0, "x": 1}, {"t": 1, "z": 2.5, "x": None}, {"t": 2, "x": 3, "z": "?"}]
    path = tmp_path / "a.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)))
    made = read(path, time="t", missing_values=["?"])
    np.testing.assert_array_equal(made.values, [[1, np.nan], [np.nan, 2.5], [3, np.nan]])


# ---- pipes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "a.jsonl.gz"])
def test_the_standard_input_is_read_whatever_it_holds(tmp_path, monkeypatch, name):
    WRITERS[name](pandas.DataFrame(ROWS), tmp_path / name)
    with (tmp_path / name).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        assert_same(read("-", **ROLES), from_long(ROWS, **ROLES))


def test_arrays_in_the_standard_input(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((2, 3, 4)))
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3, 4)))
    for name in ("a.npy", "a.npz"):
        with (tmp_path / name).open("rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            assert read("-", order="NTD").num_channels == 4


def test_a_named_pipe_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(text(pandas.DataFrame(ROWS))))
    writer.start()
    assert_same(read(pipe, **ROLES), from_long(ROWS, **ROLES))
    writer.join()


def test_a_real_pipe_into_a_real_process():
    script = "from chronode.data import read; print(read('-', id='who', time='t').describe())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=text(pandas.DataFrame(ROWS).drop(columns="y")),
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith("4 rows → 2 series, 2 observations")


# ---- arrays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "order", "series", "channels"),
    [
        ((5,), None, 1, 1),
        ((5,), "T", 1, 1),
        ((2, 5), "NT", 2, 1),
        ((5, 3), "TD", 1, 3),
        ((3, 5), "DT", 1, 3),
        ((2, 5, 3), "NTD", 2, 3),
        ((2, 3, 5), "NDT", 2, 3),
    ],
)
def test_npy_files(tmp_path, shape, order, series, channels):
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    np.save(tmp_path / "a.npy", values)
    made = read(tmp_path / "a.npy", order=order)
    assert (len(made), made.num_channels) == (series, channels)
    assert set(made.lengths.tolist()) == {5}
    assert_same(made, from_numpy(values, order=order))
    assert made[0].values[1, 0] == values[(0,) * (len(shape) - 1) + (1,)] if (order or "T").endswith("T") else True


def test_arrays_whose_order_is_not_given(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    with pytest.raises(
        ValueError,
        match=r"a.npy: the order of its axes is required: order='NT' \(a row per series\), order='TD' \(a row per",
    ):
        read(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match="b.npy: the order of its axes is required: order='NTD' or order='NDT'."):
        read(tmp_path / "b.npy")
    with pytest.raises(ValueError, match="must have the axes TD"):
        read(tmp_path / "b.npy", order="TD")


def test_an_option_that_is_none_is_not_given(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones((2, 3, 4)), names=["a", "b"], when=np.arange(6.0).reshape(2, 3))
    made = read(path, id=None, time=None, order="NTD")
    assert made.ids.tolist() == [0, 1]
    assert read(path, id="names", time="when", order="NTD").ids.tolist() == ["a", "b"]
    assert read(path, ids="names", times="when", order="NTD").times.tolist() == [0, 1, 2, 3, 4, 5]
    saved = made.save(tmp_path / "b.npz")
    assert_same(read(saved, id=None, target=None), made)
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    assert read(tmp_path / "a.csv", id=None, delimiter=None, unknown=None).lengths.tolist() == [2]
    (tmp_path / "a.ts").write_text("@data\n1,2\n")
    assert read(tmp_path / "a.ts", id=None).lengths.tolist() == [2]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "a.csv",
            {"traget": "y"},
            r"a.csv: traget=... is not an option for this kind of data. Did you mean 'target'\?",
        ),
        ("a.csv", {"order": "NTD"}, "a.csv: order=... is not an option for this kind of data"),
        ("a.npz", {"order": "NTD", "ignore": ["x"]}, "a.npz: ignore=... is not an option for this kind of data"),
    ],
)
def test_an_option_that_a_kind_does_not_have_is_named(tmp_path, name, options, message):
    pandas.DataFrame(ROWS).to_csv(tmp_path / "a.csv")
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, **options)


def test_options_of_text_do_not_disturb_other_kinds(tmp_path):
    pandas.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    assert_same(read(tmp_path / "a.parquet", delimiter=";", encoding="latin-1", **ROLES), from_long(ROWS, **ROLES))


# ---- a row per series -----------------------------------------------------------------------------------


def test_a_file_of_the_ucr_archive(tmp_path):
    path = tmp_path / "GunPoint_TRAIN.tsv"
    path.write_text("1\t0.5\t1.5\t2.5\n2\t3.5\t4.5\tNaN\n1\t-1\tNaN\t2\n")
    with pytest.raises(
        ValueError, match=r"first line holds numbers.*if every row is a series \(as in the UCR archive\), use row_per_s"
    ):
        read(path)
    made = read(path, row_per_series=True, target="0")
    assert made.lengths.tolist() == [3, 2, 3]
    assert made.classes == ("1", "2")
    assert made.target.values.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(made.values[:, 0], [0.5, 1.5, 2.5, 3.5, 4.5, -1, np.nan, 2])


def test_a_row_per_series_with_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("who,site,label,t0,t1,t2\n07,n,up,1,2,3\n7,s,down,3,2,\n")
    made = read(path, row_per_series=True, id="who", group="site", target="label")
    assert made.ids.tolist() == ["07", "7"]
    assert made.groups.tolist() == ["n", "s"]
    assert made.classes == ("down", "up")
    assert made.lengths.tolist() == [3, 2]
    assert made.channels == ("value",)
    with pytest.raises(ValueError, match="column 'label' is not numeric"):
        read(path, row_per_series=True, id="who", group="site")
    assert read(path, row_per_series=True, id="who", ignore=["site", "label"]).target is None


def test_a_row_without_values_is_named():
    with pytest.raises(ValueError, match="row 2 has no values"):
        from_series_rows({"a": [1, None], "b": [2, None]})


def test_rows_that_look_like_series_are_hinted_at():
    frame = {"who": [1, 2, 3], **{f"t{i}": [0.0, 1.0, 2.0] for i in range(12)}}
    assert "row_per_series=True" in from_long(frame, id="who").notes[-1]
    assert not any("row_per_series" in note for note in from_long({**frame, "who": [1, 1, 2]}, id="who").notes)


# ---- the index of a frame -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, "day"])
def test_a_frame_with_an_index_of_dates_carries_its_times(name):
    index = pandas.to_datetime(["2024-01-01", "2024-01-03", "2024-01-04"]).rename(name)
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0]}, index=index)
    assert from_wide(frame)[0].dt.tolist() == [0, 2, 1]
    assert from_wide(frame.to_period("D"))[0].dt.tolist() == [0, 2, 1]
    assert from_wide(frame.set_index(index - index[0]))[0].dt.tolist() == [0, 2, 1]
    assert from_wide(frame).channels == ("x",)


def test_levels_of_an_index_can_be_named():
    levels = [[7, 7, 8], pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01"])]
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0]}, index=pandas.MultiIndex.from_arrays(levels, names=["who", "day"]))
    for options in ({}, {"time": "day"}):
        made = from_long(frame, id="who", **options)
        assert made.ids.tolist() == [7, 8]
        assert made.clock.unit == "day"
        assert made.channels == ("x",)


def test_a_zip_archive_with_several_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", "t,x\n1,2\n")
        archive.writestr("__MACOSX/a.csv", "?")
    assert len(read(tmp_path / "a.zip", time="t")) == 1
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as archive:
        archive.writestr("b.csv", "t,x\n1,2\n")
    with pytest.raises(ValueError, match="must contain one file, but it contains 'a.csv', 'b.csv': unpack it first"):
        read(tmp_path / "a.zip", time="t")
    (tmp_path / "b.csv.zip").write_text("t,x\n1,2\n")
    with pytest.raises(ValueError, match="b.csv.zip: this is not a valid zip archive"):
        read(tmp_path / "b.csv.zip", time="t")


def test_numbered_columns_of_one_series_are_hinted_at(tmp_path):
    steps = {f"t{i}": [float(i), float(-i)] for i in range(12)}
    pandas.DataFrame({"label": ["a", "b"], **steps}).to_csv(tmp_path / "a.csv", index=False)
    made = read(tmp_path / "a.csv", target="label")
    assert "if t0 to t11 are the steps of one channel, use row_per_series=True" in made.notes[-1]
    assert len(read(tmp_path / "a.csv", target="label", row_per_series=True)) == 2


def test_a_file_of_the_ucr_archive_with_aligned_columns(tmp_path):
    lines = ["  1.0000000e+00  -5.0e-01   7.0e-01", "  2.0000000e+00   5.0e-01  -7.0e-01"]
    (tmp_path / "Coffee_TRAIN.txt").write_text("\n".join(lines) + "\n")
    made = read(tmp_path / "Coffee_TRAIN.txt", row_per_series=True, target="0")
    assert made.classes == ("1", "2")
    assert made[0].values[:, 0].tolist() == pytest.approx([-0.5, 0.7])


def test_an_array_file_has_no_target(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    with pytest.raises(ValueError, match="a .npy file is a single array, so target='y' is not in it"):
        read(tmp_path / "a.npy", order="TD", target="y")
