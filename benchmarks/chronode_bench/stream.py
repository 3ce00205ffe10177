"""Measures how many observations per minute a stream can process."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from chronode.data import Reading, Scaler
from chronode.model import ModelSpec, SequenceModel
from chronode.runs import Trained
from chronode.stream import Lines, Stream
from chronode.training import Objective

IDS = 100_000
BATCH = 4096
CHANNELS = 6
HIDDEN = 32
GOAL = 1_000_000
"""Observations per minute."""


@dataclass(frozen=True)
class StreamTiming:
    """Rate of one way to send observations to a stream.

    Attributes:
        way: "observe_many" (arrays) or "lines" (JSON text in, JSON text out).
        per_minute: Observations per minute, the median of the rounds.
        ids: Number of ids.
        batch: Observations in a micro-batch.
    """

    way: str
    per_minute: float
    ids: int
    batch: int


def time_stream(
    repeats: int, tell: Callable[[str], object] = lambda text: None, *, ids: int = IDS, batch: int = BATCH
) -> list[StreamTiming]:
    """Times a stream of an mmRNN with 32 units and 6 channels; in a round, every id has one observation.

    Args:
        repeats: Number of rounds.
        tell: Called with a progress message.
        ids: Number of ids.
        batch: Observations in a micro-batch.
    """
    trained = bench_model()
    ways = {"observe_many": _arrays(trained, ids, batch), "lines": _lines(trained, ids, batch)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(repeats + 1):
        for way, run in ways.items():
            tell(f"{way}, round {number}/{repeats}")
            start = time.perf_counter()
            run(float(number))
            if number > 0:  # in the first round all ids are new
                seconds[way].append(time.perf_counter() - start)
    return [StreamTiming(way, 60 * ids / statistics.median(found), ids, batch) for way, found in seconds.items()]


def as_markdown(timings: list[StreamTiming]) -> str:
    """Returns the timings as a table."""
    lines = ["| mmRNN, H = 32, 6 channels | ids | micro-batch | observations per minute | goal |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for one in timings:
        reached = "reached" if one.per_minute >= GOAL else "missed"
        lines.append(f"| {one.way} | {one.ids:,} | {one.batch:,} | {one.per_minute:,.0f} | {GOAL:,} ({reached}) |")
    return "\n".join(lines)


def _arrays(trained: Trained, ids: int, batch: int) -> Callable[[float], None]:
    stream = Stream(trained)
    names = [f"sensor-{number}" for number in range(ids)]
    values = np.random.default_rng(0).normal(size=(ids, CHANNELS))

    def run(at: float) -> None:
        for start in range(0, ids, batch):
            own = names[start : start + batch]
            stream.observe_many(own, np.full(len(own), at), values[start : start + batch])

    return run


def _lines(trained: Trained, ids: int, batch: int) -> Callable[[float], None]:
    lines = Lines(Stream(trained), lambda text: None)
    values = np.random.default_rng(0).normal(size=(ids, CHANNELS)).round(3).tolist()
    assert trained.reading is not None
    channels = trained.reading.channels

    def run(at: float) -> None:
        texts = [
            json.dumps({"id": f"sensor-{number}", "time": at, **dict(zip(channels, row, strict=True))})
            for number, row in enumerate(values)
        ]
        for start in range(0, ids, batch):
            lines.process(texts[start : start + batch])

    return run


def bench_model() -> Trained:
    """Returns a model with random weights, as if it had been trained."""
    channels = tuple(f"x{i}" for i in range(CHANNELS))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SequenceModel.build(ModelSpec("mmrnn", CHANNELS, 2, HIDDEN)).eval()
    options = {
        "id": "id",
        "time": "time",
        "columns": list(channels),
        "dtype": "float32",
        "unit": 1.0,
        "time_format": "number",
    }
    scaler = Scaler(channels, (0.0,) * CHANNELS, (1.0,) * CHANNELS)
    reading = Reading(options, ("state",), channels, "1", 1.0, False, 1.0, False, scaler=scaler)
    objective = Objective("class", 2, False, "loss", (), "cross_entropy", classes=("off", "on"))
    return Trained(model, objective, reading)
