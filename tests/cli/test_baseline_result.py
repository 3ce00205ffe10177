"""A naive forecast that is handed out instead of a worse model is called by its name everywhere."""

import json

import numpy as np
import pytest
from commands import chronode

from chronode.runs import load, read_card

SMALL = ("--forecast", 12, "--window", 30, "--model", "gru", "--hidden", 4, "--epochs", 1, "--threads", 1)
SEASON = 7


def turned(season):
    """A rise that ends where the validation part begins; with a season, which goes on."""
    steps = np.arange(300)
    level = np.where(steps < 210, 2.0 * steps, 420.0) + 0.3 * np.random.default_rng(0).normal(size=300)
    return level + 40 * np.sin(2 * np.pi * steps / SEASON) * (season > 1)


@pytest.fixture(scope="module", params=[1, SEASON])
def handed_out(tmp_path_factory, request):
    """A run whose result is a naive forecast, with its name and what was printed."""
    folder = tmp_path_factory.mktemp("naive")
    days = np.datetime64("2024-01-01") + np.arange(300)
    rows = [f"{day},{value}" for day, value in zip(days, turned(request.param), strict=True)]
    (folder / "sales.csv").write_text("\n".join(["day,units", *rows]) + "\n")
    printed = chronode("train", folder / "sales.csv", "--time", "day", *SMALL, "-o", folder / "run", plots=True).out
    return folder / "run", "last value" if request.param == 1 else f"seasonal naive ({SEASON})", printed


def test_every_place_names_the_baseline(handed_out, tmp_path):
    run, name, printed = handed_out
    summary = json.loads((run / "summary.json").read_text())
    title = f"baseline: {name}"
    assert summary["baseline"] == name and summary["model"] == title == load(run).model.title
    # The baseline of the same name, measured without the model, is the oracle of what was handed out.
    assert summary["test"]["mae"] == pytest.approx(summary["baselines"][name]["mae"], rel=1e-3)
    linear = next(own for row, own in summary["baselines"].items() if row.startswith("linear"))
    assert linear["mae"] != pytest.approx(summary["test"]["mae"], rel=1e-3)
    assert f'the baseline "{name}"' in printed and "linear start" not in printed
    assert name in summary["notes"][-1]
    report = (run / "report.html").read_text()
    assert f"<h1>run: {title} on" in report and "linear start alone" not in report
    assert f"best baseline: {name}" not in report
    assert title in chronode("runs", run.parent).out
    assert title in chronode("show", run).out.splitlines()[0]
    assert title in chronode("evaluate", run).out
    chronode("pack", run, "-o", tmp_path / "m.chronode")
    card = read_card(tmp_path / "m.chronode")
    assert f"# {title} trained on" in card.replace("\\", "") and "inear model with" not in card


def test_the_c_export_names_what_the_model_is(handed_out, tmp_path):
    run, name, _ = handed_out
    chronode("export", run, "--format", "c", "-o", tmp_path / "c")
    first = next((tmp_path / "c").glob("*.h")).read_text().splitlines()[0]
    assert name in first and "gru" not in first
