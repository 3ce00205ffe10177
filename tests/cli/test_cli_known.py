"""`--known` and `--calendar`: forecasts from inputs that are known over the horizon, with both interfaces."""

import csv
import json
import re

import numpy as np
import pytest
from commands import chronode
from work_folder import work_folder

from chronode import SequenceForecaster
from chronode.runs import load

here = pytest.fixture(work_folder)
QUICK = ("--model", "gru", "--hidden", 4, "--epochs", 1, "--batch-size", 32, "--seed", 0)
HORIZON = 4


def sales(path, *, known=160, steps=160):
    """Sales that price and holidays explain; after `known` days, only these are known. Returns the true sales."""
    rng = np.random.default_rng(0)
    price, holiday = rng.uniform(1, 5, steps).round(2), (rng.random(steps) < 0.2).astype(int)
    units = 100 - 10 * price + 25 * holiday
    days = np.datetime64("2024-01-01") + np.arange(steps)
    lines = ["day,units,price,holiday"]
    for step in range(steps):
        lines.append(f"{days[step]},{units[step] if step < known else ''},{price[step]},{holiday[step]}")
    path.write_text("\n".join(lines) + "\n")
    return units


def errors(folder):
    summary = json.loads((folder / "summary.json").read_text())
    return summary["test"]["mae"]


def forecasts(*arguments):
    return np.array(
        [float(row["forecast"]) for row in csv.DictReader(chronode("predict", *arguments).out.splitlines())]
    )


def test_known_inputs_explain_a_forecast_on_both_ways(here):
    pandas = pytest.importorskip("pandas")
    true = sales(here / "sales.csv", steps=160 + HORIZON)  # the file to train on may hold rows of the future, too
    common = (here / "sales.csv", "--time", "day", "--forecast", HORIZON, *QUICK)
    chronode("train", *common, "--known", "price,holiday", "--output", here / "run")
    chronode("train", *common, "--channels", "units", "--allow-missing", "--output", here / "without")
    assert errors(here / "run") < 0.05 * errors(here / "without")
    written = forecasts(here / "run", here / "sales.csv")
    np.testing.assert_allclose(written, true[160:], atol=1)
    table = pandas.read_csv(here / "sales.csv", parse_dates=["day"])
    loaded = SequenceForecaster.load(here / "run")
    np.testing.assert_allclose(loaded.predict(table).ravel(), written, rtol=1e-5)
    options = {"horizon": HORIZON, "known": ["price", "holiday"], "hidden_size": 4, "epochs": 1, "random_state": 0}
    made = SequenceForecaster("gru", **options).fit(table, time="day")
    np.testing.assert_allclose(made.predict(table).ravel(), true[160:], atol=1)
    np.testing.assert_array_equal(
        SequenceForecaster.load(made.save(here / "saved")).predict(table), made.predict(table)
    )
    assert made.score(table.iloc[:160]) > 0.99
    found = made.backtest(table, origins=2, refit=False, time="day")
    assert found.errors()["model"] < 0.1 * found.errors()["last value"]


def test_rows_of_the_future_are_asked_for_and_exports_refused(here):
    sales(here / "sales.csv")
    common = ("--time", "day", "--forecast", HORIZON, "--known", "price,holiday", *QUICK)
    chronode("train", here / "sales.csv", *common, "--output", here / "run")
    message = chronode("predict", here / "run", here / "sales.csv", code=2).err
    assert "series 0 ends at 2024-06-08" in message and "needs rows until 2024-06-12" in message
    assert "'price', 'holiday'" in message and "--known" in message
    assert "static" in chronode("export", here / "run", "--output", here / "c", code=2).err
    message = chronode("train", here / "sales.csv", *common, "--channels", "price", code=2).err
    assert "'price', which is to be forecast" in message
    message = chronode(
        "train", here / "sales.csv", "--time", "day", "--known", "price", "--target", "units", code=2
    ).err
    assert "needs --forecast" in message
    message = chronode("train", here / "sales.csv", *common, "--per-step", code=2).err
    assert "--known" in message and "per" in message


def test_the_calendar_forecasts_without_rows_of_the_future(here):
    days = np.datetime64("2024-01-01") + np.arange(84)
    units = 50 + 20 * np.sin(2 * np.pi * np.arange(84) / 7)
    text = "day,units\n" + "".join(f"{day},{value:.3f}\n" for day, value in zip(days, units, strict=True))
    (here / "weekly.csv").write_text(text)
    common = (here / "weekly.csv", "--time", "day", "--forecast", 7, "--calendar", *QUICK)
    chronode("train", *common, "--window", 3, "--output", here / "run")
    assert json.loads((here / "run" / "data.json").read_text())["reading"]["calendar"] == ["weekday"]
    expected = 50 + 20 * np.sin(2 * np.pi * np.arange(84, 91) / 7)
    np.testing.assert_allclose(forecasts(here / "run", here / "weekly.csv"), expected, atol=1)
    (here / "steps.csv").write_text("units\n" + "".join(f"{value:.3f}\n" for value in units))
    message = chronode("train", here / "steps.csv", "--forecast", 7, "--calendar", *QUICK, code=2).err
    assert "calendar needs dates" in message and "--time" in message


def test_known_inputs_that_make_forecasts_worse_are_left_out_with_a_note(here):
    """The price moves sales until the training part ends; from then on it does the opposite."""
    rng, steps = np.random.default_rng(0), 240
    price = rng.uniform(1, 5, steps)
    units = 100 - 10 * price * np.where(np.arange(steps) < 160, 1, -1) + rng.normal(size=steps)
    days = np.datetime64("2024-01-01") + np.arange(steps)
    rows = [f"{day},{own},{cost}" for day, own, cost in zip(days, units, price, strict=True)]
    (here / "turned.csv").write_text("\n".join(["day,units,price", *rows]) + "\n")
    common = ("--time", "day", "--forecast", HORIZON, "--known", "price", "--start", "linear", *QUICK)
    chronode("train", here / "turned.csv", *common, "--output", here / "run")
    (note,) = [
        text for text in json.loads((here / "run" / "summary.json").read_text())["notes"] if "known inputs" in text
    ]
    error, without = (float(number) for number in re.findall(r"(\d+\.\d+) with", note))
    assert "price" in note and without < error
    assert load(here / "run").model.relative.get_buffer("effects").count_nonzero() == 0
    sales(here / "sales.csv")
    chronode("train", here / "sales.csv", *common, "--output", here / "useful")
    summary = json.loads((here / "useful" / "summary.json").read_text())
    assert not any("known inputs" in text for text in summary["notes"])
    assert load(here / "useful").model.relative.get_buffer("effects").count_nonzero() > 0
