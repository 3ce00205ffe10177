"""Estimated duration of runs."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import torch

from ... import compiler
from ...model import ModelSpec, SequenceModel
from ..tasks import find_task
from .jobs import TableJob
from .ledger import Entry
from .recipe import find_recipe, training_of
from .summary import CANDIDATES

STEPS, SERIES = 64, 32
"""Size of the batch that is timed; the cost is proportional to steps and series."""

LONG = 1_000_000
"""Time steps of a training that is long enough to compile the step of its model."""

SUMMARY_SECONDS = 15.0
"""Approximate seconds to fit a classifier to summaries of PhysioNet 2012, if none was fitted before."""

MEASURE_SECONDS = 60.0
"""Approximate seconds to measure one cell of networks that are not trained."""


def seconds(job: TableJob, entries: list[Entry]) -> float:
    """Estimates the duration of a run from earlier steps of the same model, or by timing one small batch."""
    cell = job.cell
    if find_recipe(cell.recipe).measure is not None:
        return MEASURE_SECONDS
    if cell.model in CANDIDATES:
        took = [entry.seconds for entry in entries if (entry.model, entry.task) == (cell.model, cell.task)]
        return took[-1] if took else SUMMARY_SECONDS
    sizes, training = find_task(cell.task).sizes, training_of(cell.config)
    steps = cell.planned_steps()
    for entry in reversed(entries):
        if (entry.model, entry.task) == (cell.model, cell.task) and _alike(entry.config, cell.config):
            return steps * entry.seconds / entry.steps
    sized = {key: value for key, value in cell.config["model"].items() if key in ("hidden_size", "num_layers", "K")}
    per_step = _batch_seconds(cell.model, sizes.channels, tuple(sorted(sized.items()))) / (STEPS * SERIES)
    series = cell.config["options"].get("train", sizes.train)
    length = cell.config["options"].get("length", sizes.steps)
    return steps * min(series, training.batch) * min(length, training.tbptt or length) * per_step


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Returns whether an optimizer step of both has the same cost."""
    same = all(one["training"].get(name) == other["training"].get(name) for name in ("batch_size", "tbptt"))
    return same and (one["model"], one["options"]) == (other["model"], other["options"])


@cache
def _batch_seconds(model: str, channels: int, sized: tuple[tuple[str, int], ...]) -> float:
    """Times the forward and backward pass of one batch, compiled as in a long training; the best of three."""
    with torch.random.fork_rng(devices=[]):
        network = SequenceModel.build(ModelSpec(model, channels, 2, **_split(dict(sized))))
        compiler.use(network, compiler.plan(network, steps=LONG).compiled)
        x, dt = torch.randn(SERIES, STEPS, channels), torch.rand(SERIES, STEPS)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        network(x, dt=dt, lengths=torch.full((SERIES,), STEPS)).sum().backward()
        best = min(best, time.perf_counter() - start)
    return best


def _split(sized: dict[str, int]) -> dict[str, Any]:
    settings = {key: sized.pop(key) for key in list(sized) if key == "K"}
    return {**sized, "settings": settings}
