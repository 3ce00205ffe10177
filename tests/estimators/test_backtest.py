"""Backtests: origins, naive forecasts by hand, resuming, and the command."""

import csv
import json

import numpy as np
import pytest
from commands import QUICK, chronode

from chronode.cli.backtest import forecaster_for
from chronode.cli.train import effective
from chronode.estimators import SequenceForecaster
from chronode.estimators import _backtest as module
from chronode.search.engine import Engine

SMALL = {"hidden_size": 4, "epochs": 1, "random_state": 0}


def saws(count=3, steps=70):
    return np.arange(steps) % 4 + np.arange(count)[:, None] * 10.0 + 0.1 * np.arange(steps)


@pytest.fixture(scope="module")
def found():
    return SequenceForecaster("gru", horizon=3, **SMALL).backtest(saws(), origins=4, refit=False)


def test_true_values_are_the_steps_after_each_origin(found):
    X = saws()
    assert found.true.shape == (4, 3, 3, 1)
    for number in range(4):
        first = 70 - 3 * (4 - number)
        np.testing.assert_allclose(found.true[number, :, :, 0], X[:, first : first + 3])


def test_naive_forecasts_are_those_by_hand(found):
    X = saws()
    for number in range(4):
        past = X[:, : 70 - 3 * (4 - number)]
        np.testing.assert_allclose(found.forecasts["last value"][number, ..., 0], np.repeat(past[:, -1:], 3, axis=1))
        np.testing.assert_allclose(found.forecasts["seasonal naive"][number, ..., 0], past[:, -4:-1])
        rise = (past[:, -1] - past[:, 0]) / (past.shape[1] - 1)
        expected = past[:, -1:] + rise[:, None] * np.arange(1, 4)
        np.testing.assert_allclose(found.forecasts["drift"][number, ..., 0], expected)
    assert found.season == 4


def test_errors_are_those_of_their_definition_and_sorted(found):
    gaps = found.forecasts["drift"] - found.true
    assert found.errors()["drift"] == pytest.approx(np.abs(gaps).mean())
    assert found.errors("rmse")["drift"] == pytest.approx(np.sqrt((gaps**2).mean()))
    assert found.by_origin()["drift"][1] == pytest.approx(np.abs(gaps[1]).mean())
    assert list(found.errors().values()) == sorted(found.errors().values())
    assert found.errors()["model"] < 0.5 * found.errors()["last value"]


def test_the_model_is_trained_on_what_comes_before_the_origin():
    forecaster = SequenceForecaster("gru", horizon=2, **SMALL)
    X = saws(steps=60)
    changed = X.copy()
    changed[:, -2:] += 1000  # after the last origin
    one, other = (forecaster.backtest(x, origins=2).forecasts["model"] for x in (X, changed))
    np.testing.assert_array_equal(one, other)
    by_hand = SequenceForecaster("gru", horizon=2, **SMALL).fit(X[:, :-2]).predict(X[:, :-2])
    np.testing.assert_allclose(one[-1], by_hand, rtol=1e-6)
    assert not hasattr(forecaster, "model_")


def test_finished_runs_are_not_repeated(tmp_path, monkeypatch):
    forecaster = SequenceForecaster("gru", horizon=2, **SMALL)
    fits = []
    execute = module.OriginJob.execute
    monkeypatch.setattr(module.OriginJob, "execute", lambda job, *rest: fits.append(job.ends) or execute(job, *rest))
    first = forecaster.backtest(saws(), origins=2, folder=tmp_path)
    assert len(fits) == 2
    again = forecaster.backtest(saws(), origins=3, folder=tmp_path)
    assert len(fits) == 3
    np.testing.assert_array_equal(again.forecasts["model"][1:], first.forecasts["model"])
    forecaster.set_params(hidden_size=5).backtest(saws(), origins=2, folder=tmp_path)
    assert len(fits) == 5


def test_workers_give_the_same_forecasts():
    forecaster = SequenceForecaster("gru", horizon=2, **SMALL)
    here = forecaster.backtest(saws(), origins=2)
    there = forecaster.backtest(saws(), origins=2, engine=Engine(workers=1))
    np.testing.assert_allclose(here.forecasts["model"], there.forecasts["model"], rtol=1e-6)


def test_series_that_are_too_short_are_refused():
    with pytest.raises(ValueError, match="has 20 steps, but origins=5, stride=3 and horizon=3 need 26"):
        SequenceForecaster(horizon=3).backtest(saws(steps=20))


def test_the_command_writes_a_table_a_page_and_numbers(tmp_path):
    rows = "\n".join(f"{w},{t},{value:.2f}" for w, x in enumerate(saws(2)) for t, value in enumerate(x))
    (tmp_path / "saws.csv").write_text(f"w,t,x\n{rows}\n")
    flags = ("--id", "w", "--time", "t", "--forecast", 3, "--origins", 2, "--no-refit", "--model", "gru")
    output = chronode(
        "backtest", tmp_path / "saws.csv", *flags, *QUICK, "--epochs", 1, "--output", tmp_path / "out"
    ).out
    assert "seasonal naive (4)" in output and "last value" in output and "2 origins, 2 series, 3 steps ahead" in output
    table = list(csv.DictReader((tmp_path / "out/backtest.csv").open()))
    assert len(table) == 2 * 2 * 3 and table[0]["origin"] == "1" and float(table[0]["true"]) == pytest.approx(6.4)
    summary = json.loads((tmp_path / "out/backtest.json").read_text())
    gaps = [abs(float(row["last value"]) - float(row["true"])) for row in table]
    assert summary["mae"]["last value"] == pytest.approx(np.mean(gaps))
    page = (tmp_path / "out/backtest.html").read_text()
    assert page.count("<svg") == 4 and "MAE by origin" in page


def test_the_command_names_what_is_missing(tmp_path):
    (tmp_path / "a.csv").write_text("t,x\n0,1\n1,2\n")
    assert "--forecast STEPS" in chronode("backtest", tmp_path / "a.csv", "--time", "t", code=2).err
    assert "no such file" in chronode("backtest", tmp_path / "b.csv", "--forecast", 2, code=2).err


@pytest.mark.parametrize("given", [{}, {"epochs": 7, "batch_size": 3}])
def test_the_command_trains_with_the_defaults_of_forecasts_unless_others_are_given(given):
    found = forecaster_for(effective("saws.csv", None, {"horizon": "3", **given})).get_params()
    usual = SequenceForecaster().get_params()
    names = ("epochs", "batch_size", "early_stop", "learning_rate", "hidden_size", "validation")
    assert {name: found[name] for name in names} == {name: usual[name] for name in names} | given
