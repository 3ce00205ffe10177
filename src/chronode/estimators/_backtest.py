"""Backtest: forecasts from several origins in the past, beside those of simple baselines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from ..data import Sequences, counted, followed, step_gap
from ..judge import autoregression
from ..model.start import drift, histories, last_value, outputs_of, season_of, seasonal_naive
from ..search.engine import Engine, carry_out
from ..settings import SettingError, named, whole
from ..storage import parse_json, write_json
from ..system import load_plugin, plugins
from ..training import Event, paced

if TYPE_CHECKING:
    from ._forecaster import SequenceForecaster

MODEL, LINEAR = "model", "linear start"
_MOST_SHOWN = 400


@dataclass(frozen=True)
class Backtest:
    """Forecasts from several origins, and the actual values.

    Attributes:
        channels: Channels that are forecast.
        ids: Ids of the series.
        season: Season of the seasonal naive forecast; 1 if there is none.
        true: `(origins, series, horizon, channels)` actual values, NaN where unknown.
        forecasts: Arrays of the same shape by name: "model", "linear start", "last value", "drift",
            "autoregression" and, if there is a season, "seasonal naive".
        histories: Values `(time, channels)` of each series before the last origin, for plots.

    Example:
        >>> from chronode.estimators import SequenceForecaster
        >>> waves = np.sin(0.5 * np.arange(60) + np.arange(4)[:, None])
        >>> found = SequenceForecaster("gru", horizon=3, epochs=1, random_state=0).backtest(waves, origins=2)
        >>> found.true.shape, found.errors()["model"] < found.errors()["last value"]
        ((2, 4, 3, 1), True)
    """

    channels: tuple[str, ...]
    ids: tuple[str, ...]
    season: int
    true: NDArray[np.float64]
    forecasts: dict[str, NDArray[np.float64]]
    histories: tuple[NDArray[np.float64], ...] = ()

    def errors(self, metric: str = "mae") -> dict[str, float]:
        """Returns the mean absolute error ("mae") or the root mean squared error ("rmse") by name, best first."""
        by_name = {name: _error(values - self.true, metric) for name, values in self.forecasts.items()}
        return dict(sorted(by_name.items(), key=lambda pair: pair[1]))

    def by_origin(self, metric: str = "mae") -> dict[str, list[float]]:
        """Returns the error of each origin, the earliest first, by name."""
        return {
            name: [_error(forecast - true, metric) for forecast, true in zip(values, self.true, strict=True)]
            for name, values in self.forecasts.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """Returns errors and settings as plain data for JSON."""
        sizes = {"origins": len(self.true), "series": len(self.ids), "horizon": self.true.shape[2]}
        errors = {metric: self.errors(metric) for metric in ("mae", "rmse")}
        return {
            **sizes,
            "season": self.season,
            "channels": list(self.channels),
            **errors,
            "by_origin": self.by_origin(),
        }

    def columns(self) -> dict[str, list[Any]]:
        """Returns a table with one row per origin, series, step ahead and channel."""
        places = np.indices(self.true.shape).reshape(4, -1)
        table: dict[str, list[Any]] = {
            "origin": (places[0] + 1).tolist(),
            "series": [self.ids[row] for row in places[1]],
            "ahead": (places[2] + 1).tolist(),
            "channel": [self.channels[row] for row in places[3]],
        }
        for name, values in {"true": self.true, **self.forecasts}.items():
            table[name] = [None if value != value else value for value in values.ravel().tolist()]
        return table


class Progress(Protocol):
    """Callbacks that run in the process of the caller while runs are trained; `label` names the run."""

    def begin(self, label: str) -> None: ...

    def event(self, label: str, event: Event) -> None: ...

    def end(self, label: str, line: str) -> None: ...


@dataclass(frozen=True)
class OriginJob:
    """Trains on the steps before an origin, and forecasts from this origin or from several.

    Attributes:
        forecaster: The estimator, not fitted.
        series: The series with all steps.
        ends: Number of steps after each origin, earliest first; the model is trained before the earliest.
        label: Name of the run for the user.
        plugins: Plugins that register the model.
    """

    forecaster: SequenceForecaster
    series: Sequences
    ends: tuple[int, ...]
    label: str
    plugins: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """A hash of the settings, the series and the origin."""
        settings = json.dumps(self.forecaster.get_params(), sort_keys=True, default=str)
        text = hashlib.sha256(f"{settings} {self.ends} {self.series.channels}".encode())
        text.update(np.ascontiguousarray(self.series.values).tobytes())
        text.update(np.ascontiguousarray(self.series.times).tobytes())
        return text.hexdigest()[:16]

    def execute(self, state: Path | None, report: Any) -> dict[str, list[Any]]:
        """Returns the forecasts of the model and of its linear start, `(origins, series, horizon, channels)`."""
        for name in self.plugins:
            load_plugin(name)
        callbacks = [*(self.forecaster.callbacks or ()), paced(report)]
        fitted = clone(self.forecaster).set_params(callbacks=callbacks).fit(_shortened(self.series, self.ends[0]))
        forecasts: dict[str, list[Any]] = {}
        for end in self.ends:
            past = followed(fitted.reading_.extended(_shortened(self.series, end)), fitted.horizon)
            forecasts.setdefault(MODEL, []).append(fitted.predict(past).tolist())
            if fitted.model_.start is not None:
                inputs = fitted.reading_.inputs(past.compact())
                with torch.no_grad():
                    output = outputs_of(fitted.model_.start, inputs, fitted.model_.relative)
                values = fitted.scaler_.inverse_target(output).numpy().reshape(len(past), fitted.horizon, -1)
                forecasts.setdefault(LINEAR, []).append(values.tolist())
        return forecasts


def backtest(
    forecaster: SequenceForecaster,
    s: Sequences,
    channels: Sequence[str],
    *,
    origins: int,
    stride: int | None,
    refit: bool,
    season: int | None,
    engine: Engine | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Forecasts from several origins; see `SequenceForecaster.backtest`.

    Args:
        forecaster: The estimator, not fitted.
        s: The series, unscaled.
        channels: Channels to forecast.
        origins: Number of origins.
        stride: Steps from one origin to the next; the horizon by default.
        refit: Whether to train again at every origin.
        season: Season of the seasonal naive forecast; detected by default.
        engine: Engine that trains the runs.
        folder: Folder for the forecasts of finished runs, which are not repeated; None stores nothing.
        progress: Called as runs begin, train and end.
    """
    horizon = whole("horizon", forecaster.horizon, at_least=1)
    count = whole("origins", origins, at_least=1)
    apart = horizon if stride is None else whole("stride", stride, at_least=1)
    ends = tuple(horizon + apart * number for number in range(count))[::-1]
    least = ends[0] + 3 * horizon + 2
    if s.lengths.min() < least:
        at = int(s.lengths.argmin())
        raise SettingError(
            f"series {s.ids[at]!s} has {counted(int(s.lengths[at]), 'step')}, but {named('origins', count)}, "
            f"{named('stride', apart)} and "
            f"{named('horizon', horizon)} need {least}: use fewer origins or a shorter stride or horizon.",
            argument="origins",
        )
    longest = int(_shortened(s, ends[0]).lengths.max())
    if season is not None and whole("season", season, at_least=1) > longest:
        raise SettingError(
            f"{named('season', season)} is longer than the series before the first origin ({longest} steps).",
            argument="season",
        )
    runs = {f"origin {at + 1} of {count}": (end,) for at, end in enumerate(ends)} if refit else {"all origins": ends}
    jobs = [OriginJob(forecaster, s, origin, label, tuple(plugins())) for label, origin in runs.items()]
    results = list(_results(jobs, engine or Engine(), folder, progress))
    forecasts = {
        name: np.concatenate([np.asarray(one[name], dtype=np.float64) for one in results]) for name in results[0]
    }
    at = [s.channels.index(name) for name in channels]
    season = season_of(_shortened(s, ends[0]), at) if season is None else season
    naive = [_naive(_shortened(s, end), at, horizon, season) for end in ends]
    forecasts |= {name: np.stack([one[name] for one in naive]) for name in naive[0]}
    true = np.stack([_following(s, at, end, horizon) for end in ends])
    past = _shortened(s, ends[-1])
    shown = tuple(series.values[-_MOST_SHOWN:, at].astype(np.float64) for series in past)
    return Backtest(tuple(channels), tuple(map(str, s.ids)), season, true, forecasts, shown)


def _results(
    jobs: Sequence[OriginJob], engine: Engine, folder: Path | None, progress: Progress | None
) -> Iterator[dict[str, list[Any]]]:
    """Yields the forecasts of all jobs in order; those in the folder are not computed again."""
    stored: dict[str, dict[str, list[Any]]] = {}
    for job in jobs:
        if folder is not None and (file := _place(folder, job)).is_file():
            stored[job.key] = parse_json(file.read_bytes(), dict[str, list[Any]], str(file))
            if progress is not None:
                progress.end(job.label, f"{job.label}: already in {folder}")
    waiting = iter([job for job in jobs if job.key not in stored])
    hooks: dict[str, Any] = {}
    if progress is not None:
        hooks["on_start"] = lambda job: progress.begin(job.label)
        hooks["on_report"] = lambda job, event: progress.event(job.label, event)
    for done in carry_out(lambda: next(waiting, None), engine, **hooks):
        if done.how != "result":
            raise ValueError(f"a run of the backtest failed: {done.fault or 'its process was lost'}")
        stored[done.job.key] = done.result
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(_place(folder, done.job), done.result)
        if progress is not None:
            progress.end(done.job.label, f"{done.job.label}: trained")
    yield from (stored[job.key] for job in jobs)


def _place(folder: Path, job: OriginJob) -> Path:
    return folder / f"origin-{job.key}.json"


def _shortened(s: Sequences, steps: int) -> Sequences:
    """Returns the series without their last steps."""
    return replace(s, lengths=s.lengths - steps)


def _following(s: Sequences, at: Sequence[int], end: int, horizon: int) -> NDArray[np.float64]:
    """Returns the `horizon` steps after an origin, `(series, horizon, channels)`."""
    rows = (s.starts + s.lengths - end)[:, None] + np.arange(horizon)
    return s.base_values[rows][..., at].astype(np.float64)


def _naive(past: Sequences, at: list[int], horizon: int, season: int) -> dict[str, NDArray[np.float64]]:
    """Returns the forecasts that need no training."""
    history, lengths = histories(past, at, step_gap(past))
    forecasts = {"last value": last_value(history, lengths, horizon), "drift": drift(history, lengths, horizon)}
    forecasts["autoregression"] = autoregression(history, lengths, horizon)
    if season > 1:
        forecasts["seasonal naive"] = seasonal_naive(history, lengths, horizon, season)
    return {name: values.numpy() for name, values in forecasts.items()}


def _error(gaps: NDArray[np.float64], metric: str) -> float:
    squared = metric == "rmse"
    mean = float(np.nanmean(gaps**2 if squared else np.abs(gaps)))
    return mean**0.5 if squared else mean
