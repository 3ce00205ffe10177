"""Packing and scoring that are killed at any moment: no row is lost and none is there twice."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import chronode
from victims import victims

from chronode.data import _packing, check_store, is_store, pack, read
from chronode.search import score_in_chunks

PACK = """
from chronode.data import _packing
_packing.CHUNK, _packing._BATCH = 2000, 1000
import duckdb

def work(say, source, path):
    say("go")
    _packing.pack(source, path, id="who", time="t")
    say("done")
"""
SCORE = """
from chronode.search import score_in_chunks

def work(say, run, store, output):
    import torch
    torch.set_num_threads(1)
    say("go")
    score_in_chunks(run, store, output, rows=40)
    say("done")
"""
# When to kill, as shares of the time of a whole run: on any machine, most kills then meet unfinished work.
SHARES = [
    pytest.param((0.0, 0.3, 0.7), id="3"),
    pytest.param(np.linspace(0.0, 0.9, 13).tolist(), id="13", marks=pytest.mark.slow),
]


def seconds_of(whole_run):
    began = time.monotonic()
    assert whole_run()[-1] == "done"
    return time.monotonic() - began


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    rng = np.random.default_rng(0)
    who = rng.permutation(np.repeat(np.arange(500), 20))
    pq.write_table(
        pa.table({"who": who, "t": rng.permutation(len(who)), "x": rng.normal(size=len(who))}), folder / "a.parquet"
    )
    return folder / "a.parquet"


@pytest.mark.parametrize("shares", SHARES)
def test_a_killed_pack_leaves_the_old_store_or_the_new_one(table, tmp_path, shares):
    whole, path, finished = read(table, id="who", time="t"), tmp_path / "a.series", 0
    with victims(PACK) as killed_after:
        seconds = seconds_of(lambda: killed_after(None, str(table), str(tmp_path / "b.series")))
        shutil.rmtree(tmp_path / "b.series")
        for share in shares:
            said = killed_after(share * seconds, str(table), str(path))
            assert said[0] == "go"
            finished += "done" in said
            if is_store(path):
                assert check_store(path) == []
                np.testing.assert_array_equal(read(path).values, whole.values)
            else:
                assert "done" not in said and not path.exists()
    assert finished < len(shares)
    pack(table, path, id="who", time="t")
    assert [name for name in os.listdir(tmp_path) if name != "a.series"] == []  # what the killed ones left is gone
    np.testing.assert_array_equal(read(path).values, whole.values)


@pytest.mark.parametrize("shares", SHARES)
def test_killed_scoring_goes_on_without_a_lost_or_doubled_row(tmp_path, monkeypatch, shares):
    monkeypatch.chdir(tmp_path)
    rows = [f"p{i % 60},{i // 60},{i % 7},{'yes' if i % 60 > 29 else 'no'}" for i in range(600)]
    Path("a.csv").write_text("who,t,x,ill\n" + "\n".join(rows) + "\n")
    roles = ("--id", "who", "--time", "t", "--target", "ill")
    chronode("train", "a.csv", *roles, "--model", "gru", "--hidden-size", 4, "--epochs", 1, "-o", "run")
    pack("a.csv", "a.series", id="who", time="t", ignore=["ill"])
    finished = 0
    with victims(SCORE) as killed_after:
        seconds = seconds_of(lambda: killed_after(None, "run", "a.series", "whole"))
        for number, share in enumerate(shares):
            output = f"out-{number}"
            finished += "done" in killed_after(share * seconds, "run", "a.series", output)
            finished += "done" in killed_after(share * seconds / 2, "run", "a.series", output)
            scored = score_in_chunks("run", "a.series", output, rows=40)
            ids = pq.read_table(output)["who"].to_pylist()
            assert scored.chunks == 15 and sorted(ids) == sorted({f"p{i}" for i in range(60)})
    assert finished < 2 * len(shares)


def test_an_interrupted_pack_leaves_nothing(table, tmp_path, monkeypatch):
    monkeypatch.setattr(_packing, "CHUNK", 2000)
    monkeypatch.setattr(_packing, "_SECONDS", 0.0)

    def stop(what, share, rows):
        if what == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(table, tmp_path / "a.series", id="who", time="t", on_progress=stop)
    assert os.listdir(tmp_path) == []
