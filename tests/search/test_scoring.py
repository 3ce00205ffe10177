"""Scoring in chunks: the rows of one prediction, none lost and none twice, however it was interrupted."""

import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import chronode

import chronode as package
from chronode.data import pack
from chronode.search import Engine, _scoring, score_in_chunks

ROLES = ("--id", "who", "--time", "t", "--target", "ill")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained run, tables of new series, their store, and the predictions of all of them at once."""
    folder = tmp_path_factory.mktemp("scoring")
    rng = np.random.default_rng(0)
    who = rng.permutation(np.repeat(np.arange(40), 8))
    table = {"who": np.char.add("p", who.astype(str)), "t": rng.permutation(len(who)), "x": rng.normal(size=len(who))}
    table["ill"] = np.where(who % 2, "yes", "no")
    before = Path.cwd()
    os.chdir(folder)
    pq.write_table(pa.table(table), "train.parquet")
    del table["ill"]
    Path("new").mkdir()
    for number in range(3):
        rows = pa.table({name: column[number::3] for name, column in table.items()})
        pandas.DataFrame(rows.to_pandas()).to_csv(f"new/{number}.csv", index=False)
    chronode("train", "train.parquet", *ROLES, "--model", "gru", "--hidden-size", 4, "--epochs", 1, "-o", "run")
    pack("new", "new.series", id="who", time="t")
    chronode("predict", "run", "new", "-o", "all.parquet")
    os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def rows_of(path):
    """The predictions, by id, and a failure if one is there twice."""
    found = pq.read_table(path).to_pandas().sort_values("who").reset_index(drop=True)
    assert found["who"].is_unique
    return found


def check(path):
    found, wanted = rows_of(path), rows_of("all.parquet")
    assert found["who"].tolist() == wanted["who"].tolist() and found["ill"].tolist() == wanted["ill"].tolist()
    np.testing.assert_allclose(found["p_yes"], wanted["p_yes"], atol=1e-6)  # batches differ


@pytest.mark.parametrize("source", ["new.series", "new"])
def test_chunks_of_a_store_and_of_tables_have_the_rows_of_one_prediction(source, tmp_path):
    found = score_in_chunks("run", source, tmp_path / "out", rows=50)
    assert found.chunks > 3 and found.before == 0
    check(tmp_path / "out")
    assert not (tmp_path / "out" / "_series").exists()


def test_what_is_there_is_kept_and_what_is_missing_added(tmp_path):
    output = tmp_path / "out"
    score_in_chunks("run", "new.series", output, rows=50)
    kept, lost = sorted(output.glob("*.parquet"))[:2]
    before = kept.stat().st_mtime_ns
    lost.unlink()
    found = score_in_chunks("run", "new.series", output, rows=50)
    assert found.before == found.chunks - 1 and kept.stat().st_mtime_ns == before
    check(output)
    with pytest.raises(ValueError, match="force"):
        score_in_chunks("run", "new.series", output, rows=60)
    score_in_chunks("run", "new.series", output, rows=60, force=True)
    check(output)


def test_a_killed_worker_is_replaced(tmp_path, monkeypatch):
    """The first worker that begins a chunk kills itself, once."""
    monkeypatch.setenv("CHRONODE_TEST_KILL", str(tmp_path / "killed"))
    monkeypatch.setattr(_scoring, "Chunk", Deadly)
    score_in_chunks("run", "new.series", tmp_path / "out", rows=100, engine=Engine(workers=1))
    assert (tmp_path / "killed").exists()
    check(tmp_path / "out")


class Deadly(_scoring.Chunk):
    """A chunk whose worker dies at the first attempt."""

    def execute(self, state, report):
        mark = Path(os.environ["CHRONODE_TEST_KILL"])
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(state, report)


def test_the_command(tmp_path):
    done = chronode("predict", "run", "new.series", "-o", f"{tmp_path}/scores/")
    assert "40 series in 1 files" in done.err
    check(tmp_path / "scores")
    assert "1 of them there already" in chronode("predict", "run", "new.series", "-o", f"{tmp_path}/scores/").err
    assert "--output" in chronode("predict", "run", "new.series", "--workers", 2, code=2).err


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("kind", ["pandas", "polars", "table", "batch"])
def test_batches_that_cut_series_have_the_rows_of_one_prediction(kind, size):
    frame = pandas.concat(map(pandas.read_csv, sorted(Path("new").glob("*.csv")))).sort_values("who")
    frame = frame.reset_index(drop=True)
    convert = {"pandas": lambda part: part, "polars": polars.from_pandas}
    convert |= {"table": partial(pa.Table.from_pandas, preserve_index=False)}
    convert |= {"batch": partial(pa.RecordBatch.from_pandas, preserve_index=False)}
    parts = (convert[kind](frame.iloc[start : start + size]) for start in range(0, len(frame), size))
    found = list(package.score(parts, "run"))
    assert {type(one) for one in found} == {type(convert[kind](frame))}
    tables = [pa.Table.from_batches([one]) if kind == "batch" else pa.table(one) for one in found]
    whole = pa.concat_tables(tables, promote_options="permissive").to_pandas().sort_values("who")
    wanted = rows_of("all.parquet")
    assert whole["who"].tolist() == wanted["who"].tolist()
    np.testing.assert_allclose(whole["p_yes"], wanted["p_yes"], atol=1e-6)
