"""Measures what single observations, invalid values and the file of states of a stream cost."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronode.runs import Trained
from chronode.stream import Lines, Stream

IDS = 1_000_000
EVENTS = 6000
_AT_A_TIME = 50_000


@dataclass(frozen=True)
class StreamCost:
    """A cost of a stream.

    Attributes:
        what: Quantity that was measured, with its unit.
        value: The cost.
        goal: The most that it should be.
    """

    what: str
    value: float
    goal: float


def measure_costs(
    trained: Trained, tell: Callable[[str], object] = lambda text: None, *, ids: int = IDS, events: int = EVENTS
) -> list[StreamCost]:
    """Measures the costs.

    Args:
        trained: A model with times that are numbers, and without missing values.
        tell: Called with a progress message.
        ids: Number of ids in the file of states.
        events: Number of lines with and without invalid values.
    """
    tell("single observations, invalid values")
    _lines_seconds(trained, events, False)  # the first time costs more
    clean, invalid = (_lines_seconds(trained, events, wrong) for wrong in (False, True))
    costs = [
        StreamCost("one observe(): CPU ms", 1e3 * _observe_seconds(trained), 0.3),
        StreamCost(
            f"{events:,} lines, every second one invalid: CPU time relative to valid ones", invalid / clean, 1.5
        ),
    ]
    tell(f"states of {ids:,} ids")
    with tempfile.TemporaryDirectory() as folder:
        return [*costs, *_file_costs(trained, ids, Path(folder) / "bench.state")]


def as_markdown(costs: list[StreamCost]) -> str:
    """Returns the costs as a table."""
    lines = ["| cost | measured | goal |", "| --- | ---: | ---: |"]
    lines += [f"| {one.what} | {one.value:.3g} | {one.goal:g} |" for one in costs]
    return "\n".join(lines)


def _observe_seconds(trained: Trained) -> float:
    stream = Stream(trained)
    values = dict.fromkeys(stream.columns, 0.5)
    found = []
    for start in range(0, 1100, 50):
        begun = time.process_time()
        for number in range(start, start + 50):
            stream.observe("sensor-1", float(number), values)
        found.append((time.process_time() - begun) / 50)
    return statistics.median(found[2:])


def _lines_seconds(trained: Trained, count: int, wrong: bool) -> float:
    stream = Stream(trained)
    rng = np.random.default_rng(0)
    lines = []
    for number, row in enumerate(rng.normal(size=(count, len(stream.columns))).round(3).tolist()):
        event = {"id": f"sensor-{number}", "time": 1.0, **dict(zip(stream.columns, row, strict=True))}
        if wrong and number % 2:
            event[stream.columns[0]] = f"invalid {number}"
        lines.append(json.dumps(event))
    followed = Lines(stream, lambda text: None)
    begun = time.process_time()
    for start in range(0, count, 1000):
        followed.process(lines[start : start + 1000])
    return time.process_time() - begun


def _file_costs(trained: Trained, count: int, path: Path) -> list[StreamCost]:
    stream = Stream(trained)
    for start in range(0, count, _AT_A_TIME):
        names = [f"sensor-{number}" for number in range(start, min(start + _AT_A_TIME, count))]
        stream.observe_many(names, np.zeros(len(names)), np.zeros((len(names), len(stream.columns))))
    begun = time.perf_counter()
    stream.save(path)
    saved = time.perf_counter() - begun
    del stream
    loaded = Stream(trained)
    begun = time.perf_counter()
    loaded.load(path)
    seconds = time.perf_counter() - begun
    fresh = Stream(trained)
    tracemalloc.start()
    fresh.load(path)
    state, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    what = f"{count:,} ids"
    return [
        StreamCost(f"{what}: seconds to save", saved, 10.0),
        StreamCost(f"{what}: seconds to load", seconds, 10.0),
        StreamCost(f"{what}: memory while loading relative to the states", peak / state, 1.3),
    ]
