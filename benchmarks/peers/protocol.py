"""The interface of a package's script: it reads two CSV files and writes its predictions to a JSON file.

    python packages/peer_NAME.py train.csv test.csv predictions.json

A package can be used in several ways. Each is fitted on the training series and then predicts test series: all of them
in one call, and some of them alone. The predictions of a series must be the same in both cases. This module needs only
numpy, so it runs in the environment of every package.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ID, TIME, LABEL = "utterance", "time_ms", "speaker"
FORECAST = 0
"""Channel that is forecast."""
STEP_MS = 6.4
"""All times are multiples of this (the distance of the frames of the recordings)."""
ALONE = 20
"""Number of test series that are also passed alone."""
TOLERANCE = 1e-3
"""Largest difference between the predictions of a series alone and in a batch that counts as equal.

Solvers with adaptive steps choose the steps for the whole batch and stay within their own tolerance."""
MESSAGE_CHARACTERS = 240


@dataclass(frozen=True)
class Series:
    """One series of the file.

    Attributes:
        values: Shape `(steps, channels)`; NaN is a missing value.
        times: Milliseconds, shape `(steps,)`.
        label: Class of the series.
        ahead: Milliseconds from the last step to the time of the forecast; 0 if none is asked for.
    """

    id: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    label: str
    ahead: float = 0.0


Answer = Callable[[list[Series]], NDArray[Any]]
"""Predictions for a batch: probabilities `(series, classes)`, with sorted classes, or forecasts `(series,)`."""


@dataclass(frozen=True)
class Way:
    """One way to use a package.

    Attributes:
        title: Short description of the use.
        source: Page of the package's documentation that shows it.
        fit: Called with the training series and a seed.
        task: "classify" or "forecast".
        seeds: Seeds to repeat the training with; one if nothing is random.
    """

    title: str
    source: str
    fit: Callable[[list[Series], int], Answer]
    task: str = "classify"
    seeds: tuple[int, ...] = (0,)


@dataclass
class Outcome:
    """Result. `score` is the accuracy, or the mean absolute error of forecasts; a list has one item per seed."""

    title: str
    source: str
    task: str
    verdict: str = "error"
    message: str = ""
    score: list[float] = field(default_factory=list)
    difference: float | None = None
    changed: int = 0
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)


def read(path: str | Path) -> list[Series]:
    """Reads all series of a file; the rows of a series are next to each other and sorted by time."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        channels = [name for name in rows.fieldnames or () if name not in (ID, TIME, LABEL)]
        return [_series(name, list(own), channels) for name, own in groupby(rows, key=lambda row: row[ID])]


def _series(name: str, rows: list[dict[str, str]], channels: list[str]) -> Series:
    values = np.array([[float(row[channel] or "nan") for channel in channels] for row in rows])
    return Series(name, np.array([float(row[TIME]) for row in rows]), values, rows[0][LABEL])


def split_forecast(series: list[Series]) -> tuple[list[Series], NDArray[np.float64]]:
    """Cuts every series before its last reading of the forecast channel, which is to be forecast.

    Series with fewer than two readings before it are left out.
    """
    contexts, targets = [], []
    for each in series:
        seen = np.flatnonzero(~np.isnan(each.values[:, FORECAST]))
        if len(seen) < 3:
            continue
        cut = seen[-1]
        ahead = float(each.times[cut] - each.times[cut - 1])
        contexts.append(Series(each.id, each.times[:cut], each.values[:cut], each.label, ahead))
        targets.append(each.values[cut, FORECAST])
    return contexts, np.array(targets)


def last_values(series: list[Series]) -> NDArray[np.float64]:
    """Forecast by the last reading of the channel: what any forecast is compared with."""
    columns = (each.values[:, FORECAST] for each in series)
    return np.array([column[~np.isnan(column)][-1] for column in columns])


def classes(series: list[Series]) -> list[str]:
    """Returns the sorted labels."""
    return sorted({each.label for each in series})


def main(package: str, version: str, ways: list[Way]) -> None:
    """Measures all ways and writes the predictions; the paths come from the command line."""
    train_path, test_path, answer_path = sys.argv[1:4]
    train, test = read(train_path), read(test_path)
    outcomes = []
    for way in ways:
        outcomes.append(measure(way, train, test))
        print(f"{package}: {way.title}: {outcomes[-1]}", flush=True)
    answer = {"package": package, "version": version, "ways": [asdict(outcome) for outcome in outcomes]}
    draft = Path(answer_path).with_suffix(".draft")
    draft.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, answer_path)


def measure(way: Way, train: list[Series], test: list[Series]) -> Outcome:
    """Fits and tests one way, once for each seed; stops at the first error or wrong prediction."""
    outcome = Outcome(way.title, way.source, way.task)
    if way.task == "forecast":
        asked, truth = split_forecast(test)
    else:
        asked, truth = test, np.array([classes(train).index(each.label) for each in test])
    try:
        for seed in way.seeds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _measure_seed(way, seed, train, asked, truth, outcome)
            if outcome.verdict != "works":
                break
    except Exception as error:
        outcome.verdict = "error"
        outcome.message = shortened(f"{type(error).__name__}: {error}")
        traceback.print_exc()
    return outcome


def _measure_seed(
    way: Way, seed: int, train: list[Series], asked: list[Series], truth: NDArray[Any], outcome: Outcome
) -> None:
    started = time.process_time()
    answer = way.fit(train, seed)
    fitted = time.process_time()
    together = np.asarray(answer(asked), dtype=np.float64)
    outcome.fit_seconds.append(round(fitted - started, 2))
    outcome.predict_seconds.append(round(time.process_time() - fitted, 2))
    if len(together) != len(asked):
        raise ValueError(f"{len(together)} predictions for {len(asked)} series.")
    unknown = int(np.isnan(together.reshape(len(asked), -1)).any(1).sum())
    if unknown:
        outcome.verdict, outcome.message = "wrong predictions", f"NaN for {unknown} of {len(asked)} series"
        return
    outcome.score.append(round(score(way.task, together, truth), 4))
    places = np.unique(np.linspace(0, len(asked) - 1, ALONE).astype(int))
    alone = np.concatenate([np.asarray(answer([asked[place]]), dtype=np.float64) for place in places])
    largest = float(np.abs(alone - together[places]).max())
    outcome.difference = largest if outcome.difference is None else max(largest, outcome.difference)
    if way.task == "classify":
        outcome.changed += int((alone.argmax(1) != together[places].argmax(1)).sum())
    outcome.verdict = "works" if outcome.difference <= TOLERANCE else "wrong predictions"
    if outcome.verdict != "works":
        outcome.message = f"a series alone and in a batch differ by up to {largest:.2g}"
        if outcome.changed:
            outcome.message += f"; {outcome.changed} of {len(places)} classes change"


def score(task: str, answers: NDArray[np.float64], truth: NDArray[Any]) -> float:
    """Returns the accuracy of classes, or the mean absolute error of forecasts."""
    if task == "classify":
        return float((answers.argmax(1) == truth).mean())
    return float(np.abs(answers - truth).mean())


def shortened(text: str) -> str:
    """Returns a message on one line, cut after `MESSAGE_CHARACTERS`."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 4].rstrip() + " ..."


# ---- for networks without a training loop of their own ------------------------------------------------------


def moments(series: list[Series]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns mean and standard deviation of each channel."""
    values = np.concatenate([each.values for each in series])
    return np.nanmean(values, 0), np.nanstd(values, 0)


def filled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Repeats the last reading of each channel; 0 (the mean of scaled values) before the first."""
    out = values.copy()
    for step in range(len(out)):
        missing = np.isnan(out[step])
        out[step, missing] = out[step - 1, missing] if step else 0.0
    return out


def batches(count: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yields shuffled batches of indices."""
    order = rng.permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]
