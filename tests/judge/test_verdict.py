"""Messages about a model that does not beat the baselines."""

import numpy as np
import pandas
import pytest

from chronode.data import forecast_windows, from_list
from chronode.judge._baselines import baselines
from chronode.judge._verdict import unbeaten, verdict
from chronode.lab.tasks import Parts
from chronode.runs._config import Config
from chronode.search import plan
from chronode.training import Objective
from chronode.training._forecasting import forecast_parts, future_times

LOST = {"metric": "rmse", "test": {"rmse": 3.0}, "baselines": {"mean": {"rmse": 4.0}, "linear (values)": {"rmse": 2.0}}}


def test_the_best_baseline_is_the_one_to_beat():
    assert unbeaten(LOST) == ("linear (values)", 2.0)
    assert unbeaten({**LOST, "test": {"rmse": 1.0}}) is None
    assert unbeaten({**LOST, "test": {"rmse": 2.0}}) == ("linear (values)", 2.0)
    assert unbeaten({**LOST, "test": {"rmse": 1.99999}}) == ("linear (values)", 2.0)
    assert unbeaten({**LOST, "baselines": {}}) is None


def test_a_model_without_error_needs_no_advice():
    perfect = {"metric": "accuracy", "test": {"accuracy": 1.0}, "baselines": {"linear": {"accuracy": 1.0}}}
    assert unbeaten(perfect) is None
    assert unbeaten({**perfect, "test": {"accuracy": 0.99}}) == ("linear", 1.0)


def test_networks_are_compared_without_a_linear_start_unless_it_is_asked_for(tmp_path):
    asked = Config().with_values({"data": {"source": "bitstream"}})
    assert {run.config.model.start for run in plan(asked, ["lstm"], 2, tmp_path)} == {"none"}
    asked = asked.with_values({"model": {"start": "linear"}})
    assert {run.config.model.start for run in plan(asked, ["lstm"], 2, tmp_path)} == {"linear"}


@pytest.mark.parametrize(
    ("changes", "about", "first"),
    [
        ({"epochs": 9, "best_epoch": 9}, {"series": 90, "start": "none", "forecast": False}, "a linear start"),
        ({"epochs": 9, "best_epoch": 9}, {"series": 9000, "start": "linear", "forecast": False}, "more epochs"),
        ({"epochs": 9, "best_epoch": 5}, {"series": 90, "start": "linear", "forecast": False}, "more training series"),
        (
            {"epochs": 9, "best_epoch": 1},
            {"series": 9000, "start": "linear", "forecast": True},
            "a lower learning rate",
        ),
        ({"epochs": 9, "best_epoch": 5}, {"series": 9000, "start": "linear", "forecast": True}, "a longer history"),
    ],
)
def test_three_remedies_follow_from_what_happened(changes, about, first):
    found = verdict({**LOST, **changes}, **about)
    remedies = found.partition("Most likely to help: ")[2].split("; ")
    assert len(remedies) == 3 and remedies[0].startswith(first)


def test_a_linear_start_that_nothing_improved_is_named():
    summary = {**LOST, "test": {"rmse": 2.0}, "epochs": 5, "best_epoch": 0}
    assert "did not improve on the linear start" in verdict(summary, series=50, start="linear", forecast=True)


def test_a_smaller_network_is_not_suggested_for_a_linear_model():
    summary = {**LOST, "test": {"rmse": 2.0}, "epochs": 0, "best_epoch": 0}
    found = verdict(summary, series=50, start="linear", forecast=False, python=True)
    assert "No network of the race improved on the linear start" in found
    remedies = found.partition("Most likely to help: ")[2].split("; ")
    assert remedies[:2] == ["more training series", 'a longer race (budget="5m")'] and len(remedies) == 3
    assert "hidden" not in found and "dropout" not in found


def test_a_model_that_wins_is_not_commented_on():
    assert verdict({**LOST, "test": {"rmse": 1.0}}, series=50, start="none", forecast=False) is None


def test_seasonal_series_are_measured_against_their_last_season():
    wave = np.sin(2 * np.pi * np.arange(200) / 10)
    s = from_list([wave], channels=["x"])
    parts = forecast_parts(s, 5, ["x"], (0.7, 0.15, 0.15), window=30, by_time=True)
    found = baselines(Objective.for_data(parts[0]), Parts(*parts), channels=("x",))
    assert set(found) == {"last value", "drift", "seasonal naive (10)", "linear (values)"}
    assert found["seasonal naive (10)"]["mae"] < 1e-5
    truth = parts[2].target.values
    last = parts[2].base_values[parts[2].starts + parts[2].lengths - 1]
    assert found["last value"]["mae"] == pytest.approx(np.abs(truth - last).mean(), rel=1e-5)
    assert found["linear (values)"]["mae"] < 0.01 * found["last value"]["mae"]


def test_parts_by_time_share_no_target():
    s = from_list([np.arange(120.0)], channels=["x"])
    train, valid, test = forecast_parts(s, 4, ["x"], (0.6, 0.2, 0.2), window=10, by_time=True)
    sets = [set(part.target.values.ravel().tolist()) for part in (train, valid, test)]
    assert not sets[0] & sets[1] and not sets[1] & sets[2]
    assert max(sets[0]) < min(sets[1]) and max(sets[1]) < min(sets[2])
    # The first window of a later part looks back into the part before.
    assert valid.base_values[valid.starts[0]] < min(sets[1])


def test_every_part_is_as_long_as_the_horizon():
    s = from_list([np.arange(40.0)], channels=["x"])
    parts = forecast_parts(s, 10, ["x"], (0.7, 0.15, 0.15), window=8, by_time=True)
    assert [len(part) > 0 for part in parts] == [True, True, True]
    with pytest.raises(ValueError, match="40 steps cannot train and test horizon=20"):
        forecast_parts(s, 20, ["x"], (0.7, 0.15, 0.15), window=8, by_time=True)


def test_windows_have_the_values_that_follow_them():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(n, 2)) for n in (9, 30, 4)]
    w = forecast_windows(from_list(series, channels=["a", "b"]), 3, ["b"], window=6)
    assert len(w) > 0
    for window, future, name in zip(w, w.target.values, w.ids, strict=True):
        row, start, end = int(name.split("[")[0]), *map(int, name.split("[")[1][:-1].split(":"))
        np.testing.assert_allclose(window.values, series[row][start:end], rtol=1e-6)
        np.testing.assert_allclose(future, series[row][end : end + 3, 1], rtol=1e-6)


def test_future_dates_continue_by_whole_months():
    months = np.arange("2020-11", "2021-03", dtype="M8[M]").astype("M8[D]")
    s = from_list([np.arange(4.0)], times=[months])
    assert [str(text)[:10] for text in s.clock.written(future_times(s, 2)[0])] == ["2021-03-01", "2021-04-01"]


@pytest.mark.parametrize("frequency", ["MS", "ME", "QS", "QE", "YE", "B", "D", "W-SUN", "2ME", "6h"])
def test_future_dates_are_those_of_pandas(frequency):
    dates = pandas.date_range("2019-03-31 06:00", periods=40, freq=frequency)
    s = from_list([np.arange(30.0)], times=[dates[:30].to_numpy()])
    found = [pandas.Timestamp(text) for text in s.clock.written(future_times(s, 10)[0])]
    assert found == list(dates[30:])


def test_a_holiday_does_not_hide_weekdays():
    dates = pandas.bdate_range("2024-01-01", periods=40).delete(13)
    s = from_list([np.arange(30.0)], times=[dates[:30].to_numpy()])
    found = [pandas.Timestamp(text) for text in s.clock.written(future_times(s, 9)[0])]
    assert found == list(dates[30:])
