"""The parts of a job by themselves: configs, tables of answers, baselines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.data import Scaler, forecast, from_list
from chronode.judge._baselines import baselines
from chronode.lab.tasks import Parts
from chronode.runs._config import Config
from chronode.runs._tables import as_csv, columns_of
from chronode.training import Objective, Predictions

SECONDS = st.lists(st.integers(0, 10**6), min_size=2, max_size=20, unique=True).map(sorted)


@settings(deadline=None)
@given(SECONDS, st.sampled_from(["", "Z"]))
def test_dates_come_back_as_they_were(seconds, zone):
    start = np.datetime64("2024-02-28T23:00:00")
    dates = [f"{start + np.timedelta64(s, 's')}{zone}" for s in seconds]
    s = from_list([[0.0] * len(dates)], times=[dates])
    assert s.clock.written(s.times) == dates


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=20, unique=True).map(sorted))
def test_times_that_are_numbers_come_back_as_they_were(times):
    s = from_list([[0.0] * len(times)], times=[times])
    assert s.clock.written(s.times) == times


_NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)


@settings(deadline=None)
@given(st.integers(1, 99), st.lists(_NAMES, max_size=3), st.floats(0.001, 1), st.booleans())
def test_a_config_comes_back_through_plain_data(epochs, ignore, rate, missing):
    sections = {"data": {"ignore": ignore}, "model": {"missing": missing}}
    config = Config.from_dict({**sections, "training": {"epochs": epochs, "learning_rate": rate}})
    assert Config.from_dict(config.as_dict()) == config
    assert config.data.ignore == tuple(ignore)


def test_answers_per_step_have_the_id_and_time_of_each_step():
    s = from_list([[1.0, 2.0], [3.0, 4.0, 5.0]], times=[[0, 2], [1, 2, 4]], ids=["a", "b"])
    said = Predictions(s.ids, [np.ones((2, 1), np.float32), np.full((3, 1), 2, np.float32)], None, ("x+1",))
    assert as_csv(columns_of(said, s, id="who", time="t")) == (
        "who,t,x+1\na,0.0,1.0\na,2.0,1.0\nb,1.0,2.0\nb,2.0,2.0\nb,4.0,2.0\n"
    )
    assert columns_of(said, s, last=True)["time"] == [2.0, 4.0]


def test_the_last_value_goes_through_holes_but_not_into_another_series():
    s = forecast(from_list([[1.0, np.nan, 3.0], [np.nan, 7.0]], channels=["x"]))
    found = baselines(Objective.for_data(s), Parts(s, s, s), channels=("x",))
    # Known: 3 after (1, hole) encoded as 1; 7 after a hole that nothing is before, encoded as 0.
    assert found["last value"]["mae"] == pytest.approx((2 + 7) / 2)


def test_baselines_are_in_the_units_of_the_target_whatever_the_scaling():
    plain = from_list([[float(i), float(i + 1), float(i + 2)] for i in range(9)], channels=["x"])
    raw = forecast(plain, horizon=2)
    scaler = Scaler.fit(raw)
    scaled = scaler.transform(raw)
    found = [
        baselines(Objective.for_data(data, scaler=s), Parts(data, data, data), channels=("x",))["last value"]
        for data, s in ((raw, None), (scaled, scaler))
    ]
    assert found[0]["mae"] == pytest.approx(1.5)  # one step ahead is 1 more, two steps 2 more
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_the_mean_of_training_has_no_skill():
    train = from_list([[0.0]] * 4, target=[1.0, 2.0, 3.0, 6.0])
    found = baselines(Objective.for_data(train), Parts(train, train, train))["mean"]
    assert (found["r2"], found["mae"]) == (pytest.approx(0), pytest.approx(1.5))
