"""Everything that works in memory works from a store: the same series, parts and batches, for all kinds of options."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import chronode

from chronode.data import _packing, _sequences, pack, read
from chronode.runs import Config, DataConfig, asked_of, prepare

SERIES = 60


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A table of 60 series of 10 wards, in random order, with missing values, texts and static columns."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    lengths = rng.integers(14, 30, SERIES)
    who = np.repeat(np.arange(SERIES), lengths)
    count, ill = len(who), who % 3 == 0
    columns = {
        "who": np.char.add("p", np.char.zfill(who.astype(str), 3)),
        "ward": who % 10,
        "t": np.concatenate([np.arange(length) + float(rng.integers(0, 3)) for length in lengths]),
        "x": rng.normal(size=count) + 2 * ill,
        "count": rng.integers(1, 90, count).astype(float),
        "y": np.where(rng.random(count) < 0.2, np.nan, rng.normal(size=count) * 50 + 300),
        "mode": np.array(["a", "b", "c"])[rng.integers(0, 3, count)],
        "age": np.repeat(rng.integers(20, 90, SERIES), lengths),
        "sex": np.repeat(np.array(["f", "m"])[rng.integers(0, 2, SERIES)], lengths),
        "ill": np.where(ill, "yes", "no"),
        "score": np.repeat(rng.normal(size=SERIES) * 7 + 3, lengths),
        "stage": rng.integers(0, 3, count).astype(str),
    }
    rows = rng.permutation(count)
    pq.write_table(pa.table({n: pa.array(c[rows], from_pandas=True) for n, c in columns.items()}), folder / "a.parquet")
    return folder / "a.parquet"


COMMON = {"id": "who", "time": "t", "columns": ["x", "count", "y"]}
CASES = {
    "classes": {"target": ["ill"]},
    "numbers": {"target": ["score"], "log": ["count"]},
    "several numbers": {"target": ["score", "age"]},
    "a class at every step": {"target": ["stage"], "per_step": True},
    "texts as columns": {"target": ["ill"], "columns": ["x", "mode"], "categorical": "onehot"},
    "texts as codes": {"target": ["ill"], "columns": ["x", "mode"], "categorical": "codes"},
    "static": {"target": ["ill"], "static": ["age", "sex"], "categorical": "onehot"},
    "groups": {"target": ["ill"], "group": "ward"},
    "sample of groups": {"target": ["ill"], "group": "ward", "sample": 0.5},
    "sample of series": {"target": ["score"], "sample": 31},
    "windows": {"target": ["stage"], "per_step": True, "window": 6, "stride": 3},
    "scaled times": {"target": ["ill"], "scale_time": True},
    "long gaps": {"target": ["ill"], "gaps": "log"},
    "unscaled": {"target": ["ill"], "scale": False},
    "forecast": {"horizon": 2, "window": 6},
    "forecast of a channel": {"horizon": 3, "window": 5, "channels": ["x"], "stride": 2},
    "forecast by time": {"horizon": 2, "window": 6, "split_by": "time"},
    "forecast with static": {"horizon": 2, "window": 6, "static": ["age"], "group": "ward"},
    "forecast at every step": {"horizon": 2, "per_step": True},
    "forecast of logarithms": {"horizon": 2, "window": 6, "channels": ["count"], "log": ["count"]},
    "sample of a forecast": {"horizon": 2, "window": 6, "sample": 0.6},
}
_IN_MEMORY = ("forecast at every step",)


@pytest.mark.parametrize("case", CASES)
def test_a_store_gives_the_series_parts_and_batches_of_its_table(case, tables, tmp_path, monkeypatch):
    given = {**COMMON, **CASES[case]}
    data = DataConfig(str(tables), **{n: tuple(v) if isinstance(v, list) else v for n, v in given.items()})
    monkeypatch.setattr(_packing, "CHUNK", 300)
    asked = {**asked_of(data), "target": list(data.target)}
    store = pack(tables, tmp_path / "a.series", **asked)
    monkeypatch.setattr(_sequences, "_SAMPLED_NUMBERS", 1500)
    training = {"training": {"batch_size": 8}}
    wanted = prepare(replace(Config.from_dict(training), data=data))
    found = prepare(replace(Config.from_dict(training), data=replace(data, source=str(store))))
    assert found.parts.train.is_stored == (case not in _IN_MEMORY)
    for name in ("train", "valid", "test"):
        mine, theirs = getattr(found.parts, name), getattr(wanted.parts, name)
        assert mine.ids.tolist() == theirs.ids.tolist() and mine.groups.tolist() == theirs.groups.tolist()
        for one, other in zip(mine.batch(), theirs.batch(), strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-4, atol=2e-5)
    assert found.reading.scaler is None or found.reading.scaler.mean == pytest.approx(wanted.reading.scaler.mean)
    assert found.objective.metric == wanted.objective.metric
    sampled = found.sampled.parts
    assert not sampled.train.is_stored and 0 < len(sampled.train) <= len(found.parts.train)


def test_samples_of_forecasts_are_windows_that_their_targets_follow(tables, tmp_path, monkeypatch):
    """The linear start of a forecast fits windows that are places in the same values."""
    from chronode.model.start._window_rows import in_place

    store = pack(tables, tmp_path / "a.series", id="who", time="t", columns=["x"])
    monkeypatch.setattr(_sequences, "_SAMPLED_NUMBERS", 1800)
    asked = Config.from_dict({"data": {"source": str(store), "horizon": 2, "window": 5}})
    parts = prepare(asked).sampled.parts
    assert in_place([parts.train, parts.valid], [0])


def test_a_forecast_is_trained_evaluated_and_predicted_from_a_store(tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pack(tables, "a.series", id="who", time="t", columns=["x"])
    monkeypatch.setattr(_sequences, "_SAMPLED_NUMBERS", 1800)
    chronode("train", "a.series", "--forecast", 2, "--model", "gru", "--hidden-size", 4, "--epochs", 2, "-o", "run")
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["status"] == "finished" and summary["baselines"]
    found = [json.loads(chronode("evaluate", "run", source, "--json").out) for source in ("a.series", str(tables))]
    assert found[0]["metrics"] == pytest.approx(found[1]["metrics"], rel=1e-5)
    for source, output in (("a.series", "one.csv"), (str(tables), "two.csv")):
        chronode("predict", "run", source, "-o", output)
    assert Path("one.csv").read_text() == Path("two.csv").read_text()


def test_a_sample_is_stated_and_whole_groups(tables):
    data = {"source": str(tables), "id": "who", "time": "t", "target": "ill", "columns": ["x"], "group": "ward"}
    prepared = prepare(Config.from_dict({"data": {**data, "sample": 20}}))
    groups = [set(getattr(prepared.parts, name).groups) for name in ("train", "valid", "test")]
    assert any("of 60 series are used" in note for note in prepared.notes)
    assert sum(map(len, groups)) == len(set.union(*groups))  # none in two parts
    everything = read(tables, id="who", time="t", group="ward", columns=["x"])
    for group in set.union(*groups):
        chosen = sum((np.asarray(getattr(prepared.parts, n).groups) == group).sum() for n in ("train", "valid", "test"))
        assert chosen == (everything.groups == group).sum()


def test_a_sample_must_be_positive(tables, tmp_path):
    error = chronode("train", str(tables), "--target", "ill", "--sample", 0, "-o", str(tmp_path / "run"), code=2).err
    assert "--sample" in error and "greater than 0" in error
