"""The test section of a report: metrics, plots, the best and the worst series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Sequences, future_times
from ..judge import headline, permutation_importance
from ..model import SequenceModel
from ..runs import Config, Prepared, Summary
from ..training import USUAL_INTERVALS, Objective, Predictions, Trained, intervals_of, known_rows, labeled
from ._best_and_worst import best_and_worst
from ._model_pictures import (
    MOST_CLASSES,
    calibration_picture,
    class_table,
    confusion_picture,
    forecast_picture,
    horizon_picture,
    residual_pictures,
    steps_picture,
    threshold_pictures,
)
from ._time_axis import origin_of, series_name, time_axis
from .explain_page import importance_picture
from .pages import details, figure, grid, number, paragraph, table

_MOST_TARGETS = 3
_MOST_ROWS = 50
# Steps that the importance of columns may predict in all, which keeps a report fast.
_MOST_STEPS = 200_000


def own_units(s: Sequences, scaler: Any) -> Sequences:
    """Returns the series before scaling, unless their batches are generated as the model takes them."""
    return s if scaler is None or s.finish is not None else scaler.inverse(s)


def scores_table(summary: Summary, model: str, intervals: dict[str, tuple[float, float]]) -> str:
    """Returns a row per metric, with the model and the baselines side by side."""
    first = headline(asdict(summary))
    names = [name for name in dict.fromkeys([first, *summary.test]) if name in summary.test]

    def own(name: str) -> str:
        value = summary.test.get(name)
        ends = "" if name not in intervals else " ({} to {})".format(*map(number, intervals[name]))
        return "" if value is None else f"{number(value)}{ends}"

    columns = [model, *summary.baselines]
    count = len(summary.targets)
    rows = [
        [
            labeled(name, summary.positive, count),
            own(name),
            *(scores.get(name) for scores in summary.baselines.values()),
        ]
        for name in names
    ]
    note = "In brackets: 95% intervals; all series of a group count together."
    if not intervals:
        note = "No intervals: they need a test part with at least two groups."
    if summary.positive is not None:
        note += f" The positive class is {summary.positive}; --positive changes it."
    return table(["metric", *columns], rows, numeric=columns, best=0) + paragraph(note, "small")


def targets_table(summary: Summary, model: str) -> list[str]:
    """Returns a row for each metric of each of several targets, with the model and the baselines side by side."""
    if not summary.targets:
        return []
    columns = [model, *summary.baselines]
    rows: list[list[Any]] = [
        [target, labeled(name, one.positive), value, *(scores.get(name) for scores in one.baselines.values())]
        for target, one in summary.targets.items()
        for name, value in one.test.items()
    ]
    note = "Each target in its own units; the metrics over all targets are those of scaled values."
    if any("accuracy" in measured.test for measured in summary.targets.values()):
        note = "The loss above is the sum over the targets, each as a share of the loss of a constant prediction."
    return [table(["target", "metric", *columns], rows, numeric=columns, best=0), paragraph(note, "small")]


def test_parts(
    prepared: Prepared, model: SequenceModel, objective: Objective, predictions: Predictions
) -> dict[str, TestPart]:
    """Returns the test part with each target that has metrics of its own; the arguments are those of `TestPart`."""
    parts = prepared.parts
    tests = parts.test.with_classes(objective.class_names).by_target
    models = Trained(model, objective, prepared.reading).by_target
    return {
        name: TestPart(
            replace(prepared, reading=one.reading, parts=replace(parts, test=test, scaler=one.scaler)),
            one.model,
            one.objective,
            predicted,
        )
        for (name, one), test, predicted in zip(models.items(), tests, predictions.by_target, strict=True)
    }


class TestPart:
    """The test part with the predictions of the model."""

    def __init__(self, prepared: Prepared, model: SequenceModel, objective: Objective, predictions: Predictions):
        self.prepared, self.model, self.objective, self.predictions = prepared, model, objective, predictions
        self.scaled = prepared.parts.test.with_classes(objective.class_names)
        self.scaler = prepared.parts.scaler
        self.shown = own_units(self.scaled, self.scaler)
        self.cases_shown = _with_own_target(self.shown, None if self.shown is not self.scaled else self.scaler)
        self.predicted, self.true, self.groups, self.weights = known_rows(self.scaled, predictions)

    def importance(self) -> list[str]:
        """Returns the permutation importance of the columns; nothing for one column or too few series."""
        if len(self.scaled) < 2 or self.scaled.num_channels + self.scaled.num_static < 2 or self.scaled.finish:
            return []
        trained = Trained(self.model, self.objective, self.prepared.reading)
        measured = permutation_importance(trained, self.scaled, repeats=3, most_steps=_MOST_STEPS)
        return [grid(importance_picture(measured, labeled(measured.metric, self.objective.positive)))]

    def pictures(self, config: Config) -> list[str]:
        """Returns plots of confusion and calibration, or of residuals, or of forecasts."""
        if not len(self.predicted):
            return []
        if self.objective.classes is not None:
            pictures, rows = self._thresholds()
            classes = self.objective.classes
            each = class_table(self.objective.predicted(self.predicted), self.true, classes)
            return [details("Each class", each), grid(*self._class_pictures(classes), *pictures), *rows]
        if config.data.horizon:
            drawn = grid(*self._forecasts(config.data.horizon, config.data.intervals or USUAL_INTERVALS[:1]))
            return [*self._each_series(config.data.horizon), drawn]
        few = slice(_MOST_TARGETS)
        more = len(self.predictions.names) - _MOST_TARGETS
        note = [paragraph(f"{more} more targets are not shown.", "small")] if more > 0 else []
        return [grid(*residual_pictures(self.predicted[:, few], self.true[:, few], self.predictions.names[few])), *note]

    def _thresholds(self) -> tuple[list[str], list[str]]:
        """Returns plots over all thresholds between two classes, and a table of some."""
        goal = self.objective
        if goal.positive is None:
            return [], []
        one = goal.positive_number
        rows = self.predicted[:, one], self.true == one
        pictures, rows = threshold_pictures(*rows, goal.positive, goal.threshold, self.weights)
        if goal.threshold is None:
            return pictures, [rows]
        text = f"Predictions use the threshold {number(goal.threshold)}; it was chosen after training, so the metrics "
        return pictures, [rows, paragraph(f"{text}in the table above are those of the more likely class.", "small")]

    def _class_pictures(self, classes: tuple[str, ...]) -> Iterator[str]:
        if len(classes) <= MOST_CLASSES:
            yield confusion_picture(self.objective.predicted(self.predicted), self.true, classes)
        if len(self.predicted) >= 10:
            yield calibration_picture(self.predicted, self.true, classes)

    def _forecasts(self, horizon: int, levels: Sequence[float]) -> Iterator[str]:
        reading, target = self.prepared.reading, self.shown.target
        assert reading is not None and target is not None
        channels = list(reading.forecast_channels)
        for row in _last_of_groups(self.shown, 3):
            yield figure(self._forecast(row, horizon, channels, levels))
        if horizon > 1:
            yield horizon_picture(self.predicted - self.true, horizon, channels)
        yield from residual_pictures(self.predicted[:, :1], self.true[:, :1], self.predictions.names[:1])

    def _each_series(self, horizon: int) -> list[str]:
        """Returns the errors of the forecasts of each series of a panel, the largest first; nothing for one series."""
        reading, target = self.prepared.reading, self.cases_shown.target
        assert reading is not None and target is not None
        origins = np.array([origin_of(id) for id in self.shown.ids])
        if reading.per_step or len(set(origins)) < 2:
            return []
        channel = reading.forecast_channels[0]
        places = [step * len(reading.forecast_channels) for step in range(horizon)]
        gaps = np.stack(self.predictions.values)[:, places] - np.asarray(target.values)[:, places]
        rows = []
        for name in dict.fromkeys(origins.tolist()):
            gap = gaps[origins == name]
            if np.isfinite(gap).any():
                rows.append([name, len(gap), float(np.sqrt(np.nanmean(gap**2))), float(np.nanmean(np.abs(gap)))])
        rows.sort(key=lambda row: -row[2])
        columns = ["series", "windows", f"RMSE of {channel}", "MAE"]
        more = [paragraph(f"{len(rows) - _MOST_ROWS} more series are not shown.", "small")] if rows[_MOST_ROWS:] else []
        shown = table(columns, rows[:_MOST_ROWS], numeric=columns[1:])
        return [details(f"Each series: {len(rows)}, the largest error first", shown, *more)]

    def _forecast(self, row: int, horizon: int, channels: list[str], levels: Sequence[float] = ()) -> str:
        """Returns the plot of a forecast of the first channel, with its history, the true values and intervals."""
        series, name = self.shown[row], channels[0]
        places = [step * len(channels) for step in range(horizon)]
        true = np.atleast_2d(np.asarray(series.target))[-1][places]
        history = series.values[:, self.shown.channels.index(name)]
        predicted = np.atleast_2d(self.predictions.values[row])[-1][places]
        intervals: dict[float, NDArray[Any]] = {}
        if levels and self.model.margins is not None and self.model.margins.known:
            ends = intervals_of(self.model, self.scaled[[row]], levels, self.scaler)
            intervals = {level: bounds[:, 0, places] for level, bounds in zip(levels, ends, strict=True)}
        title = f"{name}: {series_name(series.id)}"
        return forecast_picture(history, predicted, true, intervals, title, self.shown[[row]])

    def _prediction(self, row: int) -> str:
        """Returns the plot of the predictions for one series that has more than one of them; otherwise ""."""
        reading, target = self.prepared.reading, self.cases_shown.target
        assert target is not None
        if reading is not None and reading.horizon and not reading.per_step:
            return self._forecast(row, reading.horizon, list(reading.forecast_channels))
        if not target.per_step:
            return ""
        s = self.cases_shown
        first, length = int(s.starts[row]), int(s.lengths[row])
        times = s[row].times if len(s[row].times) == length else np.arange(float(length))
        axis = time_axis(s, float(times[0]), float(times[-1]))
        true = target.values[first : first + length]
        return steps_picture(times, self.predictions.values[row], true, target.classes, target.names[0], axis)

    def cases(self) -> list[str]:
        """Returns the best and the worst series."""
        scale = np.asarray(self.scaler.target_std) if self.scaler is not None and self.scaler.targets else np.ones(1)
        if self.objective.classes is None and (
            self.scaler is None or not self.scaler.targets or self.scaler.target_shapes
        ):
            scale = np.nanstd(self.true.astype(np.float64), axis=0)
            scale = np.where(scale > 0, scale, 1.0)
        shown = self.cases_shown
        return best_and_worst(self.model, self.objective, self.scaled, shown, self.predictions, scale, self._prediction)


def _with_own_target(s: Sequences, scaler: Any) -> Sequences:
    """Returns the series with numeric targets in their own units."""
    if s.target is None or s.target.classes is not None or scaler is None:
        return s
    return replace(s, target=replace(s.target, values=np.asarray(s.target.given), source=None))


def _last_of_groups(s: Sequences, count: int) -> list[int]:
    """Returns the last series (or window) of each of the first groups."""
    _, last = np.unique(s.groups[::-1], return_index=True)
    return np.sort(len(s) - 1 - last)[:count].tolist()


_LARGEST = 20_000_000
"""Bytes of a file that is read once more for its forecast."""
_MOST_SERIES = 4
_MOST_SHOWN = 100


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
    cut = paragraph(f"The first {_MOST_SHOWN} rows.", "small") if len(rows) > _MOST_SHOWN else ""
    return table(columns, rows[:_MOST_SHOWN], numeric=columns[3:]) + cut
