"""One run of a table: load, train, test, and create the line for the ledger."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from ...data import Parts, Sequences
from ...runs import Config, Run, assemble_run, environment, fit_in, prepare
from ...search import applied
from ...storage import parse_json, replacing
from ...training import Assembly, Diverged, EpochDone, Event, evaluate, gather
from ..datasets._download import notes
from ..tasks import find_task
from .ledger import Entry, run_hash
from .recipe import TableCell, find_recipe, training_of
from .summary import CANDIDATES, run_summary

BEST_TEST = "best test epoch"
"""Part of the metrics of a run with those of the epoch that is best on the test part."""


def make_run(
    cell: TableCell, seed: int, folder: Path | None = None, on_event: Callable[[Event], None] | None = None
) -> Entry:
    """Trains and tests a cell; with `folder`, an interrupted attempt is resumed."""
    if (measure := find_recipe(cell.recipe).measure) is not None:
        begin = time.process_time()
        metrics = {"test": measure(cell)}
        took = {"epochs": 0, "steps": 0, "seconds": time.process_time() - begin, "parameters": 0}
        return _entry(cell, seed, None, metrics, took, [])
    given: dict[str, Any] = {"protocol": cell.protocol, "options": cell.config["options"]}
    if cell.model in CANDIDATES:
        parts, objective = gather(cell.task, seed, **given)
        scores = run_summary(cell.model, parts, objective(), seed)
        took = {"epochs": 1, "steps": 0, "seconds": scores.seconds, "parameters": scores.parameters}
        return _entry(cell, seed, parts, scores.metrics, took, [])
    asked = {"data": {"source": cell.task, **given}, "model": {"model": cell.model, "start": "none"}}
    config = applied(replace(Config.from_dict(asked), training=training_of(cell.config, seed)), cell.config["model"])
    prepared = prepare(config)
    assembly = assemble_run(config, prepared)
    key = run_hash(cell.model, cell.task, cell.protocol, seed, cell.config)
    run = None
    if folder is not None:
        earlier = (folder / key / "run.json").is_file()  # an attempt to resume
        run = Run.open(folder / key) if earlier else Run.create(folder / key, config.as_dict())
    watch = _BestTest(assembly, None if run is None else run.path) if cell.best_test else None
    ended: list[str] = []

    def listen(event: Event) -> None:
        if watch is not None and isinstance(event, EpochDone):
            watch.look(event.epoch.number)
        if on_event is not None:
            on_event(event)

    try:
        if run is None:
            fitted = assembly.fit(on_event=listen)
        else:
            with run.lock():
                fitted = fit_in(run, prepared, assembly, on_event=listen)
    except Diverged as error:  # also a result: the best epoch so far counts
        assert error.fitted is not None
        fitted = error.fitted
        ended = [f"{cell.model} with learning_rate={config.training.learning_rate:g}, seed {seed}: {error}"]
    if fitted.stopped == "interrupted":
        raise KeyboardInterrupt
    metrics = {"test": fitted.evaluate(assembly.parts.test)}
    if fitted.best is not None:
        metrics["valid"] = {"loss": fitted.best.valid_loss, **fitted.best.metrics}
    if watch is not None and watch.best:
        metrics[BEST_TEST] = watch.best
    took = {"epochs": len(fitted.history), "steps": fitted.record.steps, "seconds": fitted.record.cpu_seconds}
    took["parameters"] = sum(p.numel() for p in fitted.model.parameters())
    return _entry(cell, seed, assembly.parts, metrics, took, ended)


class _BestTest:
    """The best epoch of the test part, as some authors report it; it decides nothing here.

    Args:
        assembly: The run, whose network is trained in place.
        folder: Folder of the state of the run, in which the best epoch so far is kept as well.
    """

    def __init__(self, assembly: Assembly, folder: Path | None):
        self._assembly, self._path = assembly, None if folder is None else folder / "best_test.json"
        self.best: dict[str, float] = {}
        if self._path is not None and self._path.exists():
            self.best = parse_json(self._path.read_bytes(), dict[str, float], str(self._path))

    def look(self, epoch: int) -> None:
        """Measures the test part at the end of an epoch."""
        objective = self._assembly.objective
        scores = evaluate(self._assembly.network, objective, self._assembly.parts.test)
        if self.best and not objective.better(scores[objective.metric], self.best[objective.metric]):
            return
        self.best = {**scores, "epoch": float(epoch)}
        if self._path is not None:
            with replacing(self._path) as draft:
                draft.write_text(json.dumps(self.best), encoding="utf-8")


def _entry(
    cell: TableCell,
    seed: int,
    parts: Parts | None,
    metrics: dict[str, dict[str, float]],
    took: dict[str, Any],
    ended: list[str],
) -> Entry:
    facts = environment()
    data = None if parts is None else find_task(cell.task).data
    commit = facts.get("commit") or "unknown"
    return Entry(
        recipe=cell.recipe,
        model=cell.model,
        task=cell.task,
        protocol=cell.protocol,
        seed=seed,
        budget=cell.budget,
        config=cell.config,
        config_hash=run_hash(cell.model, cell.task, cell.protocol, seed, cell.config),
        data_hash="none" if parts is None else data_hash(parts),
        commit=commit + ("+" if facts.get("changed") else ""),
        versions={name: str(facts[name]) for name in ("chronode", "python", "torch", "numpy")},
        machine={name: facts[name] for name in ("os", "cpu", "cores", "threads", "kernels")},
        metrics=metrics,
        **{**took, "seconds": round(took["seconds"], 2)},
        peak_memory=peak_memory(),
        notes=[*([] if data is None else notes(data)), *ended],
        finished=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def peak_memory() -> float:
    """Returns the peak memory of this process in MiB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(used / (2**20 if sys.platform == "darwin" else 2**10), 1)


def data_hash(parts: Parts) -> str:
    """Returns the hash of all inputs and targets of the three parts.

    Example:
        >>> from chronode.lab.tasks import tasks
        >>> load = tasks()["bitstream"].load
        >>> few = {"train": 5, "valid": 5, "test": 5}
        >>> data_hash(load(**few)) == data_hash(load(**few)) != data_hash(load(seed=1, **few))
        True
    """
    digest = hashlib.sha256()
    for part in (parts.train, parts.valid, parts.test):
        for array in _arrays(part.compact()):
            digest.update(str((array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()[:16]


def _arrays(s: Sequences) -> list[Any]:
    arrays = [s.base_values, s.starts, s.lengths, s.base_times, s.lead]
    return [a for a in [*arrays, None if s.target is None else s.target.values] if a is not None]
