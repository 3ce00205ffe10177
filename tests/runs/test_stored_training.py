"""Training, evaluation and prediction from a store: the numbers of memory, batch by batch."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import chronode

from chronode.data import Scaler, _packing, _sequences, pack, read, split_by_time, split_for_training
from chronode.runs import Config, assemble_run, choose, prepare
from chronode.training import Settings
from chronode.training._loaders import Place, TrainingBatches, ahead, evaluation_batches

ROLES = {"id": "who", "time": "t", "target": "ill", "categorical": "onehot", "static": ["age"]}


def table(series=60, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, series)
    who = np.repeat(np.arange(series), lengths)
    ill = np.repeat(np.arange(series) % 2, lengths)
    rows = rng.permutation(len(who))
    columns = {
        "who": np.char.add("p", np.char.zfill(who.astype(str), 3)),
        "t": np.concatenate([np.cumsum(rng.exponential(size=length)) for length in lengths]),
        "x": rng.normal(size=len(who)) + 2 * ill,
        "y": np.where(rng.random(len(who)) < 0.2, np.nan, rng.normal(size=len(who)) * 50 + 300),
        "ward": np.array(["a", "b"])[rng.integers(0, 2, len(who))],
        "age": np.repeat(rng.integers(20, 90, series), lengths),
        "ill": np.array(["no", "yes"])[ill],
    }
    return pa.table({name: pa.array(column[rows], from_pandas=True) for name, column in columns.items()})


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A table and its store, larger than the sample."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_packing, "CHUNK", 100)
    monkeypatch.setattr(_packing, "_BATCH", 50)
    pq.write_table(table(), "a.parquet")
    pack("a.parquet", "a.series", **ROLES)
    monkeypatch.setattr(_sequences, "_SAMPLED_NUMBERS", 1200)
    return read("a.series")


def equal(one, other):
    assert one is None if other is None else one.equal(other)


def test_batches_are_those_of_memory_scaled_as_they_are_read(stored):
    memory = read("a.parquet", **ROLES)
    scaler = Scaler.fit(memory[:40], dt=True)
    for settings in (Settings(batch_size=7, seed=3), Settings(batch_size=5, subsample=0.6)):
        for part in (slice(0, 40), slice(5, 60, 2)):
            both = [
                list(TrainingBatches(_parts(scaler.transform(s[part])), settings, Place(epoch=2)))
                for s in (stored, memory)
            ]
            assert len(both[0]) == len(both[1]) > 1
            for mine, theirs in zip(*both, strict=True):
                for one, other in zip(mine, theirs, strict=True):
                    equal(one, other)
    pairs = (list(evaluation_batches(scaler.transform(s), 100)) for s in (stored, memory))
    for mine, theirs in zip(*pairs, strict=True):
        equal(mine.x, theirs.x)
        equal(mine.dt, theirs.dt)


def _parts(train):
    from chronode.data import Parts

    return Parts(train, train, train)


def test_means_and_deviations_are_those_of_all_series(stored):
    assert len(stored.sample) < len(stored)
    found, wanted = Scaler.fit(stored), Scaler.fit(stored.loaded())
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-12)
    np.testing.assert_allclose(found.std, wanted.std, rtol=1e-12)
    assert found.static_mean == wanted.static_mean


def test_splits_are_those_of_memory(stored, monkeypatch):
    memory = stored.loaded()
    for mine, theirs in zip(split_for_training(stored, seed=5), split_for_training(memory, seed=5), strict=True):
        assert mine.is_stored and mine.ids.tolist() == theirs.ids.tolist()
    monkeypatch.setattr(_sequences, "_SAMPLED_NUMBERS", 10**6)
    stored = read("a.series")
    parts = [split_by_time(s, (0.7, 0.3), whole_groups=False) for s in (stored, memory)]
    for mine, theirs in zip(*parts, strict=True):
        assert mine.ids.tolist() == theirs.ids.tolist() and mine.lengths.tolist() == theirs.lengths.tolist()
        assert mine.starts.tolist() == theirs.starts.tolist()


def test_an_error_of_the_reading_thread_arrives_and_the_thread_ends():
    def broken():
        yield 1
        raise ValueError("truncated")

    found = ahead(broken())
    assert next(found) == 1
    with pytest.raises(ValueError, match="truncated"):
        next(found)
    stopped = ahead(iter(range(100)))
    assert next(stopped) == 0
    stopped.close()


def test_only_the_network_sees_all_series_at_once_the_rest_a_sample(stored):
    model = {"model": "gru", "hidden_size": 4, "start": "linear"}
    training = {"epochs": 2, "batch_size": 8}
    asked = Config.from_dict({"data": {"source": "a.series"}, "model": model, "training": training})
    prepared = prepare(asked)
    assert prepared.parts.train.is_stored and not prepared.sampled.parts.train.is_stored
    assert len(prepared.sampled.parts.train) < len(prepared.parts.train)
    assert any("samples" in note for note in prepared.notes)
    config, race = choose(asked, prepared)
    assembly = assemble_run(config, prepared, race=race)
    assert assembly.linear is not None and assembly.linear.held_out is None
    fitted = assembly.fit()
    assert fitted.evaluate(prepared.parts.test)["accuracy"] > 0.5


def lines(run):
    return Path(f"{run}/metrics.jsonl").read_text().splitlines()


def test_a_small_store_gives_the_run_of_its_table_bit_for_bit(stored, monkeypatch):
    monkeypatch.setattr(_sequences, "_SAMPLED_NUMBERS", 8_000_000)
    options = ("--model", "gru", "--epochs", 2, "--hidden-size", 4, "--no-guess")
    roles = ("--id", "who", "--time", "t", "--target", "ill", "--categorical", "onehot", "--static", "age")
    chronode("train", "a.parquet", *roles, *options, "-o", "memory")
    chronode("train", "a.series", *options, "-o", "store")
    found, wanted = ([json.loads(line)["loss"] for line in lines(name)] for name in ("store", "memory"))
    assert found == wanted and len(found) == 2
    assert Path("memory/predictions.csv").read_text() == Path("store/predictions.csv").read_text()


def test_commands_on_a_store_larger_than_the_sample(stored):
    chronode("train", "a.series", "--model", "gru", "--epochs", 2, "--hidden-size", 4, "-o", "run")
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["status"] == "finished" and summary["baselines"]
    by_store = chronode("evaluate", "run", "a.series", "--json")
    by_table = chronode("evaluate", "run", "a.parquet", "--json")
    assert json.loads(by_store.out)["metrics"] == json.loads(by_table.out)["metrics"]
    for source in ("a.series", "a.parquet"):
        chronode("predict", "run", source, "-o", f"{source}.csv")
    rows = [list(csv.reader(Path(f"{source}.csv").read_text().splitlines())) for source in ("a.series", "a.parquet")]
    assert rows[0] == rows[1] and len(rows[0]) == 61
    chronode("train", "--resume", "run", "--epochs", 3)
    assert "finished" in chronode("show", "run").out
