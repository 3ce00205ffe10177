"""Commands take files, folders, patterns, stores and databases alike, with the same numbers."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import chronode

from chronode.data import pack, read

ROLES = {"id": "who", "time": "t", "target": "ill"}
SOURCES = {
    "file": ("a.parquet",),
    "folder": ("parts",),
    "pattern": ("parts/*.csv",),
    "partitioned": ("wards",),
    "store": ("a.series",),
    "sqlite": ("a.sqlite", "--table", "readings"),
    "sqlite query": ("a.sqlite", "--query-sql", "SELECT who, t, x, ill FROM readings"),
    "duckdb": ("a.duckdb",),
    "duckdb query": ("a.duckdb", "--query-sql", "SELECT * EXCLUDE x, x + 0 AS x FROM readings"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The same table as every kind of source."""
    duckdb = pytest.importorskip("duckdb")
    folder, rng = tmp_path_factory.mktemp("sources"), np.random.default_rng(0)
    who = np.repeat(np.arange(30), 6)
    columns = {"who": np.char.add("p", np.char.zfill(who.astype(str), 2)), "t": np.tile(np.arange(6.0), 30)}
    columns |= {"x": np.round(rng.normal(size=180) + who % 2, 3), "ill": np.array(["no", "yes"])[who % 2]}
    table = pa.table(columns)
    pq.write_table(table, folder / "a.parquet")
    (folder / "parts").mkdir()
    frame = table.to_pandas()
    for number in range(3):
        frame[60 * number : 60 * number + 60].to_csv(folder / "parts" / f"{number}.csv", index=False)
        (folder / "wards" / f"part={number}").mkdir(parents=True)
        pq.write_table(table.slice(60 * number, 60), folder / "wards" / f"part={number}" / "a.parquet")
    pack(folder / "a.parquet", folder / "a.series", **ROLES)
    with sqlite3.connect(folder / "a.sqlite") as database:
        frame.to_sql("readings", database, index=False)
        database.execute("CREATE TABLE other (a)")
    with duckdb.connect(folder / "a.duckdb") as database:
        database.sql("CREATE TABLE readings AS SELECT * FROM frame")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        options = ("--model", "gru", "--hidden-size", 4, "--epochs", 1, "--start", "none", "--columns", "x")
        roles = ("--id", "who", "--time", "t", "--target", "ill")
        for name, source in SOURCES.items():
            given = () if name == "store" else roles
            chronode("train", *source, *given, *options, "-o", f"runs/{name}")
    return folder


@pytest.mark.parametrize("name", SOURCES)
def test_training_gives_the_numbers_of_the_file(home, name):
    found, wanted = (json.loads((home / "runs" / run / "summary.json").read_text()) for run in (name, "file"))
    assert found["test"] == pytest.approx(wanted["test"], rel=1e-6)


@pytest.mark.parametrize("name", SOURCES)
def test_evaluate_predict_explain_and_check_take_every_source(home, name, monkeypatch, tmp_path):
    """With the model of the same kind of source: its table or query is that of training."""
    monkeypatch.chdir(home)
    source, model = SOURCES[name][0], f"runs/{name}"
    found, wanted = (
        json.loads(chronode("evaluate", run, data, "--json").out)["metrics"]
        for run, data in ((model, source), ("runs/file", "a.parquet"))
    )
    assert found == pytest.approx(wanted, rel=1e-6)
    for run, data, output in ((model, source, tmp_path / "one.csv"), ("runs/file", "a.parquet", tmp_path / "two.csv")):
        chronode("predict", run, data, "-o", output)
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
    chronode("explain", model, source, "-o", tmp_path / "why.csv")
    chronode("check", model, source)
    assert Path(tmp_path / "why.csv").is_file()


def test_errors_of_databases_name_tables_and_cures(home, monkeypatch):
    monkeypatch.chdir(home)
    with pytest.raises(ValueError, match="2 tables.*name one of them"):
        read("a.sqlite", id="who")
    with pytest.raises(ValueError, match="reading.*readings"):
        read("a.sqlite", table="reading")
    for file in ("a.sqlite", "a.duckdb"):
        with pytest.raises(ValueError, match=f"{file}.*(syntax|Parser)"):
            read(file, query_sql="SELEC 1")
    Path("text.sqlite").write_text("no database")
    with pytest.raises(ValueError, match="neither a DuckDB nor an SQLite file"):
        read("text.sqlite")
