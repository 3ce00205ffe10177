"""darts: forecasts of regular series; global models learn from many series of different lengths."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from darts import TimeSeries
from darts.dataprocessing.transformers import MissingValuesFiller, Scaler
from darts.models import LinearRegressionModel, RNNModel
from protocol import FORECAST, STEP_MS, Answer, Series, Way, main

LAGS = 3
"""Frames that a forecast looks back: not more than the shortest test series has."""
SHORTEST = 6
"""Frames of the shortest training series; RNNModel needs one more than it is trained on at a time."""
FREQUENCY = pd.Timedelta(milliseconds=STEP_MS)


def frame(series: list[Series]) -> pd.DataFrame:
    """Returns one row per series and time, with times as dates."""
    values = np.concatenate([each.values for each in series])
    table = pd.DataFrame(values, columns=[f"c{channel}" for channel in range(values.shape[1])])
    table["time"] = pd.Timestamp(0) + pd.to_timedelta(np.concatenate([each.times for each in series]), unit="ms")
    table["id"] = np.repeat([f"{place:04d}" for place in range(len(series))], [len(each.times) for each in series])
    return table


def as_they_are(series: list[Series]) -> list[TimeSeries]:
    return TimeSeries.from_group_dataframe(frame(series), "id", "time", drop_group_cols="id")


def regular(series: list[Series]) -> list[TimeSeries]:
    """Returns the series on the grid of frames, missing values interpolated by `MissingValuesFiller`."""
    grid = TimeSeries.from_group_dataframe(
        frame(series), "id", "time", drop_group_cols="id", fill_missing_dates=True, freq=FREQUENCY
    )
    return [each.astype(np.float32) for each in MissingValuesFiller().transform(grid)]


def way(
    title: str, source: str, prepare: Callable[[list[Series]], list[TimeSeries]], build: Callable[[int], Any]
) -> Way:
    def train_model(train: list[Series], seed: int) -> Answer:
        scaler = Scaler(global_fit=True)
        model = build(seed)
        model.fit(scaler.fit_transform(prepare(train)))

        def answer(series: list[Series]) -> np.ndarray:
            ahead = [round(each.ahead / STEP_MS) for each in series]
            forecasts = model.predict(n=max(ahead), series=scaler.transform(prepare(series)), verbose=False)
            values = [each.values() for each in scaler.inverse_transform(forecasts)]
            return np.array([each[step - 1, FORECAST] for each, step in zip(values, ahead, strict=True)])

        return answer

    return Way(title, source, train_model, "forecast")


def linear(seed: int) -> LinearRegressionModel:
    return LinearRegressionModel(lags=LAGS)


def lstm(seed: int) -> RNNModel:
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "logger": False, "enable_checkpointing": False}
    return RNNModel(
        LAGS, model="LSTM", training_length=SHORTEST - 1, n_epochs=10, random_state=seed, pl_trainer_kwargs=quiet
    )


if __name__ == "__main__":
    guide = "user guide, TimeSeries; API reference, MissingValuesFiller"
    main(
        "darts",
        version("darts"),
        [
            way("LinearRegressionModel, frame as it is", guide, as_they_are, linear),
            way("regular grid, MissingValuesFiller, LinearRegressionModel", guide, regular, linear),
            way("regular grid, MissingValuesFiller, RNNModel (LSTM)", guide, regular, lstm),
        ],
    )
