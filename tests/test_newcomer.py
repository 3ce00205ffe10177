"""The first commands of a new user: the page shows the stored results, and the judge predicts as it says."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import newcomer  # noqa: E402
import newcomer_judge  # noqa: E402


def test_the_page_shows_the_results():
    rows = json.loads(newcomer.STORE.read_text())
    assert set(rows) <= set(newcomer.COMMANDS)
    assert newcomer.on_page(rows) in newcomer.PAGE.read_text()
    assert (ROOT / "benchmarks" / "newcomer.md").read_text() == newcomer.table(rows)


def test_forecasts_are_judged_on_the_windows_of_the_run(tmp_path, monkeypatch):
    """Series that grow by one: the last value is wrong by 1 and 2 steps, ridge is right, a run that says 0 is worst."""
    values = {name: start + np.arange(30.0) for name, start in (("a", 0), ("b", 50), ("c", 9))}
    data = pd.concat(pd.DataFrame({"id": name, "t": np.arange(30), "y": each}) for name, each in values.items())
    data.to_csv(tmp_path / "data.csv", index=False)
    made = pd.DataFrame(
        {"id": ["c[0:10]", "c[0:20]"], "t": [9.0, 19.0], "true_y+1": [19.0, 29.0], "true_y+2": [20.0, 30.0]}
    )
    made[["y+1", "y+2"]] = 0.0
    made.to_csv(tmp_path / "made.csv", index=False)
    monkeypatch.setitem(newcomer_judge.LAYOUTS, "line", newcomer_judge.Layout("id", "t", value="y"))
    found = newcomer_judge.judge("line", tmp_path / "data.csv", tmp_path / "made.csv", ["--forecast", "2"])
    assert found["best"] == "ridge" and found["others"]["ridge"] == pytest.approx(0, abs=1e-3)
    assert found["others"]["last value"] == pytest.approx(np.sqrt((1 + 4) / 2))
    assert found["test"] == pytest.approx(np.sqrt((19**2 + 29**2 + 20**2 + 30**2) / 4))
    assert found["difference"] > 0
