"""`chronode explain` and `predict --explain`: sums, files, pages and refusals."""

import csv
import json

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals

from chronode.runs import load


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("explain")
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 6, "--output", home / "run")
    return home


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_contributions_of_a_file_sum_to_the_predictions(home, tmp_path):
    new = write_vitals(tmp_path / "new.csv", patients=5, seed=3)
    chronode("explain", home / "run", new, "-o", tmp_path / "why.csv", "--spans", 2)
    chronode("predict", home / "run", new, "-o", tmp_path / "out.csv")
    predicted = {row["patient"]: float(row["p_ill"]) for row in rows(tmp_path / "out.csv")}
    found = rows(tmp_path / "why.csv")
    for patient, chance in predicted.items():
        own = [row for row in found if row["patient"] == patient]
        total = {
            part: sum(float(row["value"]) for row in own if row["part"] == part)
            for part in ("reference", "channel", "span")
        }
        assert {row["output"] for row in own} == {"p(ill)"}
        assert total["reference"] + total["channel"] == pytest.approx(chance, abs=3e-3)
        assert total["span"] == pytest.approx(total["channel"], abs=1e-5)
        spans = [row for row in own if row["part"] == "span"]
        assert len(spans) == 2
        assert spans[0]["to"] == spans[1]["from"]


def test_predict_adds_a_column_for_each_channel(home, tmp_path):
    new = write_vitals(tmp_path / "new.csv", patients=4, seed=3)
    plain = json.loads(chronode("predict", home / "run", new, "--json").out)
    for before, row in zip(
        plain, json.loads(chronode("predict", home / "run", new, "--explain", "--json").out), strict=True
    ):
        assert {name: row[name] for name in before} == before
        parts = [value for name, value in row.items() if name.startswith("by_")]
        assert len(parts) == len(load(home / "run").reading.channels)
        assert row["reference"] + sum(parts) == pytest.approx(row["p_ill"], abs=3e-3)


def test_the_importance_of_the_test_part_and_the_page(home, tmp_path):
    found = json.loads(chronode("explain", home / "run", "--json", "--repeats", 2).out)["importance"]
    assert set(found["names"]) == set(load(home / "run").reading.channels)
    assert all(low <= high for low, high in zip(found["low"], found["high"], strict=True))
    assert np.all(np.diff(found["losses"]) <= 0)
    chronode("explain", home / "run", home / "vitals.csv", "-o", tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text()
    assert page.count("p(ill)") >= 20
    assert "chronode explain" in page


def test_refusals(home, tmp_path):
    assert "'ill'" in chronode("explain", home / "run", home / "vitals.csv", "--of", "il", code=2).err
    assert ".html" in chronode("explain", home / "run", home / "vitals.csv", "-o", "why.txt2", code=2).err
    rows = [f"{w},{t},{np.sin(t + w):.4f}" for w in range(6) for t in range(12)]
    (tmp_path / "wave.csv").write_text("w,t,x\n" + "\n".join(rows) + "\n")
    flags = ("--id", "w", "--time", "t", "--forecast", 2, "--model", "gru", "--epochs", 1, "-o", tmp_path / "run")
    chronode("train", tmp_path / "wave.csv", *flags, *QUICK)
    assert "chronode explain" in chronode("predict", tmp_path / "run", tmp_path / "wave.csv", "--explain", code=2).err
    explained = json.loads(chronode("explain", tmp_path / "run", tmp_path / "wave.csv", "--json").out)["contributions"]
    assert set(explained["names"]) == {"x+1"}
