"""neuralforecast: networks for forecasts of regular series in a long frame (unique_id, ds, y)."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import NHITS
from protocol import FORECAST, STEP_MS, Answer, Series, Way, filled, main

HORIZON = 4
"""Frames that are forecast: the longest gap before a reading to be forecast."""
INPUT = 8
QUIET = {"accelerator": "cpu", "enable_progress_bar": False, "logger": False, "enable_checkpointing": False}


def frame(series: list[Series], regular: bool, mask: bool) -> pd.DataFrame:
    """Returns one row per series and time; `regular`: a row for each frame, `mask`: zeros where nothing was read."""
    return pd.concat([_table(f"{place:04d}", each, regular, mask) for place, each in enumerate(series)])


def _table(name: str, each: Series, regular: bool, mask: bool) -> pd.DataFrame:
    frames = np.round(each.times / STEP_MS).astype(int)
    values = each.values
    if regular:
        values = np.full((frames[-1] - frames[0] + 1, values.shape[1]), np.nan)
        values[frames - frames[0]] = each.values
        frames = np.arange(frames[0], frames[-1] + 1)
    seen = ~np.isnan(values[:, FORECAST])
    if regular:
        values = np.nan_to_num(values) if mask else filled(values)
    table = {"unique_id": name, "ds": frames, "y": values[:, FORECAST]}
    if mask:
        table["available_mask"] = seen.astype(int)
    return pd.DataFrame(table)


def way(title: str, source: str, regular: bool, mask: bool) -> Way:
    def train_model(train: list[Series], seed: int) -> Answer:
        model = NHITS(
            h=HORIZON,
            input_size=INPUT,
            max_steps=200,
            windows_batch_size=64,
            start_padding_enabled=True,
            random_seed=seed,
            **QUIET,
        )
        forecaster = NeuralForecast(models=[model], freq=1)
        forecaster.fit(frame(train, regular, mask))

        def answer(series: list[Series]) -> np.ndarray:
            ahead = [round(each.ahead / STEP_MS) for each in series]
            forecasts = forecaster.predict(df=frame(series, regular, mask)).reset_index()
            values = forecasts["NHITS"].to_numpy().reshape(len(series), HORIZON)
            return np.array([row[step - 1] for row, step in zip(values, ahead, strict=True)])

        return answer

    return Way(title, source, train_model, "forecast")


if __name__ == "__main__":
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    main(
        "neuralforecast",
        version("neuralforecast"),
        [
            way("NHITS, frame as it is", "data requirements", regular=False, mask=False),
            way("regular grid, 0 and `available_mask` for missing values, NHITS", "issue 718", regular=True, mask=True),
            way("regular grid, filled forward, NHITS", "data requirements", regular=True, mask=False),
        ],
    )
