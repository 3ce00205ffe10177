"""Stores: any tables, packed in parts, are the series that `read` has in memory; damage and changes are noticed."""

import json
import sqlite3

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.data import StoredRows, _packing, check_store, is_store, made_from, pack, read
from chronode.settings import SettingError

OPTIONS = {"id": "who", "time": "t", "target": "ill", "categorical": "onehot", "static": ["sex"]}


def tables(seed=0, rows=400, series=23):
    rng = np.random.default_rng(seed)
    who = rng.integers(0, series, rows)
    x = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows))
    return pa.table(
        {
            "who": [f"p{i:03}" for i in who],
            "t": pa.array(rng.permutation(rows) * 60_000_000, pa.timestamp("us")),
            "x": pa.array(x, from_pandas=True),
            "n": rng.integers(0, 9, rows),
            "ward": pa.array([["a", "b", None][i] for i in rng.integers(0, 3, rows)]),
            "sex": [["f", "m"][i % 2] for i in who],
            "ill": [["no", "yes", "maybe"][i % 3] for i in who],
        }
    )


def same(stored, memory, *, notes=False):
    """Every array, bit for bit."""
    assert stored.ids.tolist() == memory.ids.tolist() and stored.groups.tolist() == memory.groups.tolist()
    assert stored.channels == memory.channels and stored.static_names == memory.static_names
    assert stored.clock == memory.clock and dict(stored.categories) == dict(memory.categories)
    assert stored.lengths.tolist() == memory.lengths.tolist() and stored.rows == memory.rows
    np.testing.assert_array_equal(stored.values, memory.values)
    np.testing.assert_array_equal(stored.times, memory.times)
    for name in ("static",):
        if getattr(memory, name) is not None:
            np.testing.assert_array_equal(getattr(stored, name), getattr(memory, name))
    if memory.target is not None:
        assert stored.classes == memory.classes and stored.target.per_step == memory.target.per_step
        np.testing.assert_array_equal(stored.target.values, memory.target.values)
        np.testing.assert_array_equal(stored.target.given, memory.target.given)
    assert not notes or stored.notes == memory.notes


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 99), chunk=st.sampled_from([1, 7, 60, 10**6]), files=st.integers(1, 4))
def test_packed_in_parts_is_what_memory_has(tmp_path_factory, seed, chunk, files):
    folder, table = tmp_path_factory.mktemp("pack"), tables(seed)
    (folder / "in").mkdir()
    for number in range(files):
        pq.write_table(table.take(list(range(number, table.num_rows, files))), folder / "in" / f"{number}.parquet")
    memory = read(folder / "in", **OPTIONS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_packing, "CHUNK", chunk)
        patched.setattr(_packing, "_BATCH", 32)
        path = pack(folder / "in", folder / "out.series", **OPTIONS)
    stored = read(path)
    assert isinstance(stored.base_values, StoredRows) and isinstance(stored.base_times, StoredRows)
    same(stored, memory)
    for rows in ([0, 3, 5], slice(None)):
        for mine, theirs in zip(stored.batch(rows), memory.batch(rows), strict=True):
            assert (mine is None and theirs is None) or mine.equal(theirs)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "one csv", "hive", "duckdb", "sqlite", "query"])
def test_any_source_of_tables(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(_packing, "CHUNK", 50)
    monkeypatch.setattr(_packing, "_BATCH", 32)
    frame = tables().to_pandas().assign(t=lambda rows: rows.t.dt.strftime("%Y-%m-%d %H:%M:%S"))
    folder, more, options = tmp_path / "in", {}, dict(OPTIONS)
    folder.mkdir()
    frame.to_csv(tmp_path / "whole.csv", index=False)
    if kind in ("csv", "jsonl"):
        for number in range(3):
            part = frame.iloc[number::3]
            part.to_csv(folder / f"{number}.csv", index=False) if kind == "csv" else part.to_json(
                folder / f"{number}.jsonl", orient="records", lines=True, double_precision=15
            )
    elif kind == "one csv":
        folder = tmp_path / "whole.csv"
    elif kind == "hive":
        for ward, part in frame.groupby("sex"):
            (folder / f"sex={ward}").mkdir()
            part.drop(columns="sex").to_parquet(folder / f"sex={ward}" / "a.parquet", index=False)
    else:
        folder = tmp_path / "tables.db"
        if kind == "sqlite":
            with sqlite3.connect(folder) as database:
                frame.to_sql("rows", database, index=False)
        else:
            with duckdb.connect(str(folder)) as database:
                database.sql("CREATE TABLE rows AS SELECT * FROM frame")
        more = {"query": "SELECT * FROM rows;"} if kind == "query" else {"table": "rows"}
    same(read(pack(folder, tmp_path / "out.series", **more, **options)), read(tmp_path / "whole.csv", **options))


def test_targets_at_every_step_numbers_and_rows_without_time(tmp_path, monkeypatch):
    monkeypatch.setattr(_packing, "CHUNK", 40)
    monkeypatch.setattr(_packing, "_BATCH", 16)
    pq.write_table(tables(), tmp_path / "a.parquet")
    for number, options in enumerate(
        (
            {"id": "who", "time": "t", "target": "x", "ignore": ["ward", "sex", "ill"]},
            {"id": "who", "target": "n", "columns": ["x"], "kind": "value"},
            {"id": "who", "time": "t", "columns": ["x", "n"], "group": "sex"},
            {"time": "t", "columns": ["x"], "duplicates": "keep"},
        )
    ):
        stored = read(pack(tmp_path / "a.parquet", tmp_path / f"{number}.series", **options))
        same(stored, read(tmp_path / "a.parquet", **options))


def test_rows_of_one_time_are_merged_in_the_order_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(_packing, "CHUNK", 5)
    monkeypatch.setattr(_packing, "_BATCH", 4)
    rng = np.random.default_rng(1)
    who, when, x = rng.integers(0, 6, 90), rng.integers(0, 5, 90), rng.normal(size=90) * 1e3
    table = {"who": who, "t": when, "x": x, "label": [["a", "b", "c"][i] for i in rng.integers(0, 3, 90)]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    options = {"id": "who", "time": "t", "target": "label"}
    same(read(pack(tmp_path / "a.parquet", tmp_path / "a.series", **options)), read(tmp_path / "a.parquet", **options))


def test_errors_name_file_column_and_cure_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(_packing, "CHUNK", 5)
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"who": ["a", "b"] * 5, "t": range(10), "x": ["1"] * 9 + ["?"]}), folder / "a.parquet")
    (folder / "b.parquet").write_bytes(b"PAR1 broken")
    for options, words in (
        ({"id": "who"}, "b.parquet"),
        ({"id": "whom", "skip_bad": True}, "whom"),
        ({"id": "who", "time": "t", "skip_bad": True}, "'x' is not numeric"),
        ({"id": "who", "channel": "x"}, "channel"),
        ({"id": "who", "table": "rows"}, "table"),
    ):
        with pytest.raises(ValueError, match=words):
            pack(folder, tmp_path / "out.series", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    pq.write_table(pa.table({"who": ["a"], "t": [1], "y": [1]}), folder / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet.*columns"):
        pack(folder, tmp_path / "out.series", id="who")


def test_a_store_says_if_it_is_damaged_or_its_tables_have_changed(tmp_path):
    pq.write_table(tables(), tmp_path / "a.parquet")
    path = pack(tmp_path / "a.parquet", tmp_path / "a.series", **OPTIONS)
    assert is_store(path) and check_store(path) == [] and made_from(path, tmp_path / "a.parquet", OPTIONS)
    assert not made_from(path, tmp_path / "a.parquet", {**OPTIONS, "duplicates": "keep"})
    assert not any("changed" in note for note in read(path).notes)
    pq.write_table(tables(1), tmp_path / "a.parquet")
    assert any("a.parquet has changed" in note for note in read(path).notes)
    assert not made_from(path, tmp_path / "a.parquet", OPTIONS)
    content = bytearray((path / "values.npy").read_bytes())
    content[-3] ^= 1
    (path / "values.npy").write_bytes(content)
    assert check_store(path) == ["values.npy: piece 1 of 1 is damaged"]
    (path / "values.npy").write_bytes(content[:-8])
    with pytest.raises(ValueError, match=r"values\.npy.*bytes instead of"):
        read(path)


def test_options_that_contradict_those_of_packing_are_refused(tmp_path):
    pq.write_table(tables(), tmp_path / "a.parquet")
    path = pack(tmp_path / "a.parquet", tmp_path / "a.series", **OPTIONS)
    assert read(path, id="who", target="ill").classes == ("maybe", "no", "yes")
    for option, value in (("id", "sex"), ("target", "x"), ("columns", ["x"])):
        with pytest.raises(SettingError) as caught:
            read(path, **{option: value})
        assert caught.value.argument == option
    header = json.loads((path / "header.json").read_text())
    header["version"] = 99
    (path / "header.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match="version"):
        read(path)


def test_memory_has_only_what_is_read(tmp_path):
    pq.write_table(tables(), tmp_path / "a.parquet")
    stored = read(pack(tmp_path / "a.parquet", tmp_path / "a.series", **OPTIONS))
    part = stored[[2, 4, 1]]
    assert part.is_stored and not part.loaded().is_stored
    same(part.loaded(), read(tmp_path / "a.parquet", **OPTIONS)[[2, 4, 1]])
