"""The forecast that follows the last rows of the file of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..data import Sequences, future_times
from ..model import SequenceModel
from ..runs import Config, Prepared
from ..training import USUAL_INTERVALS, Objective, Trained
from ._model_pictures import forecast_picture
from .pages import details, figure, grid, number, paragraph, table

_LARGEST = 20_000_000
"""Bytes of a file that is read once more for its forecast."""
_MOST_SERIES = 4
_MOST_ROWS = 100


def coming_forecast(prepared: Prepared, model: SequenceModel, objective: Objective, config: Config) -> list[str]:
    """Returns plots and a table of the next steps of the series of the file; nothing if it cannot be forecast from.

    Known inputs need values for the coming steps, which the file of training seldom has.
    """
    reading, source = prepared.reading, Path(config.data.source)
    if reading is None or not reading.horizon or reading.per_step or not source.is_file():
        return []
    if source.stat().st_size > _LARGEST:
        return []
    trained = Trained(model, objective, reading)
    try:
        series = trained.series(source, labeled=False, anyway=True)
    except ValueError:
        return []
    few = series[: min(len(series), _MOST_SERIES)]
    values = np.stack(trained.predict(few).values).reshape(len(few), reading.horizon, -1)
    levels = trained.levels(config.data.intervals) or USUAL_INTERVALS[:1]
    intervals = trained.intervals(few, levels) if trained.can("intervals") is None else {}
    bands = {level: ends.reshape(2, *values.shape) for level, ends in intervals.items()}
    shown = few if trained.scaler is None else trained.scaler.inverse(few)
    name = reading.forecast_channels[0]
    history = shown.channels.index(name)
    drawn = [
        figure(
            forecast_picture(
                shown[row].values[:, history],
                values[row, :, 0],
                None,
                {level: ends[:, row, :, 0] for level, ends in bands.items()},
                f"{name}: series {shown.ids[row]}",
                shown[[row]],
            )
        )
        for row in range(len(few))
    ]
    more = len(series) - len(few)
    note = [paragraph(f"{more:,} more series: chronode predict writes all of them.", "small")] if more else []
    return [grid(*drawn), details("Numbers", _rows(shown, values, bands, list(reading.forecast_channels))), *note]


def _rows(s: Sequences, values: np.ndarray, bands: dict[float, np.ndarray], channels: list[str]) -> str:
    """Returns a table with a row per series, step and channel."""
    times, rows = future_times(s, values.shape[1]), []
    for row in range(len(s)):
        when = range(1, values.shape[1] + 1) if s.base_times is None else s.clock.written(times[row])
        for step, moment in enumerate(when):
            for index, channel in enumerate(channels):
                ends = [
                    f"{number(low[row, step, index])} to {number(high[row, step, index])}"
                    for low, high in bands.values()
                ]
                rows.append([str(s.ids[row]), str(moment), channel, float(values[row, step, index]), *ends])
    columns = ["series", "step" if s.base_times is None else "time", "channel", "forecast"]
    columns += [f"{level:g}% interval" for level in bands]
    cut = paragraph(f"The first {_MOST_ROWS} rows.", "small") if len(rows) > _MOST_ROWS else ""
    return table(columns, rows[:_MOST_ROWS], numeric=columns[3:]) + cut
