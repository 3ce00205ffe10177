"""Runs missing from the ledger, as jobs; each has its own process, so that an error ends only that run."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...search.engine import Done, Engine, carry_out
from ...system import load_plugin, plugins
from ...training import LOWER_IS_BETTER, BatchDone, Event, paced
from ..tasks import find_task
from .ledger import Entry, Ledger, run_hash
from .recipe import TableCell, training_of
from .run import make_run


@dataclass(frozen=True)
class TableJob:
    """Run to make: a cell of a table with one of its seeds, and the plugins that its process needs."""

    cell: TableCell
    seed: int
    plugins: tuple[str, ...] = field(default_factory=plugins)

    @property
    def hash(self) -> str:
        """The hash that identifies the run."""
        return run_hash(self.cell.model, self.cell.task, self.cell.protocol, self.seed, self.cell.config)

    @property
    def key(self) -> str:
        """The key of the job: the hash of its run."""
        return self.hash

    def execute(self, state: Path | None = None, report: Callable[[Progress], None] | None = None) -> Entry:
        """Trains in this process and reports progress about once a second."""
        for name in self.plugins:
            load_plugin(name)
        training = training_of(self.cell.config)

        def listen(event: Event) -> None:
            if isinstance(event, BatchDone) and report is not None:
                epochs = event.epochs_done / training.epochs
                done = epochs if training.steps is None else max(epochs, event.step / training.steps)
                report(Progress(done, event.loss))

        return make_run(self.cell, self.seed, state, paced(listen, seconds=1))

    def __str__(self) -> str:
        column = f" {self.cell.number.column}" if self.cell.number.column else ""
        return f"{self.cell.recipe}{column} {self.cell.number.label}, seed {self.seed}"


@dataclass(frozen=True)
class Progress:
    """Progress of a run: `done` from 0 to 1, and the loss of a batch."""

    done: float
    loss: float


@dataclass(frozen=True)
class Finished:
    """Finished run, with its entry in the ledger or its error."""

    job: TableJob
    entry: Entry | None
    fault: str = ""


def missing(cells: Iterable[TableCell], ledger: Ledger, seeds: int | None = None) -> list[TableJob]:
    """Returns the runs missing from the ledger, each once, ordered by seed.

    For a cell with candidate settings, the first seed of every candidate comes first; the runs to show are missing as
    soon as all of these are in the ledger.

    Args:
        cells: Numbers of tables.
        ledger: Record of the runs.
        seeds: Most seeds of a number; by default as many as its recipe has.
    """
    have = {entry.config_hash: entry for entry in ledger.entries()}
    jobs: dict[str, TableJob] = {}
    for cell in cells:
        first = [TableJob(trial, 0) for trial in cell.trials() if cell.search.choices]
        best = chosen(cell, have)
        most = cell.seeds if seeds is None else min(seeds, cell.seeds)
        shown = [] if best is None else [TableJob(best, seed) for seed in range(most)]
        for job in (*first, *shown):
            if job.hash not in have:
                jobs.setdefault(job.hash, job)
    return sorted(jobs.values(), key=lambda job: job.seed)


def chosen(cell: TableCell, have: Mapping[str, Entry]) -> TableCell | None:
    """Returns the cell to show: of the candidates, that with the best validation metric of the first seed.

    None until the trials of all candidates were run.
    """
    candidates = cell.candidates()
    if len(candidates) == 1:
        return candidates[0].final()
    entries = [have.get(TableJob(trial, 0).hash) for trial in cell.trials()]
    metric = find_task(cell.task).metric
    sign = -1 if metric in LOWER_IS_BETTER else 1
    lowest = {metric: -sign * math.inf}  # for a run that diverged in its first epoch
    values = [sign * entry.metrics.get("valid", lowest)[metric] for entry in entries if entry is not None]
    return candidates[values.index(max(values))].final() if len(values) == len(candidates) else None


def make_runs(
    jobs: Iterable[TableJob],
    ledger: Ledger,
    engine: Engine,
    *,
    state: Path | None = None,
    on_progress: Callable[[TableJob, Progress], None] | None = None,
) -> Iterator[Finished]:
    """Makes the runs and adds each finished one to the ledger; only this process writes there.

    A worker that is killed or fails only loses its own run. Runs that another process has added to the ledger in the
    meantime are not repeated.
    """
    waiting = list(jobs)
    finished: list[Finished] = []

    def take() -> TableJob | None:
        while waiting:
            job = waiting.pop(0)
            if (entry := ledger.find(job.hash)) is None:
                return job
            finished.append(Finished(job, entry))
        return None

    for done in carry_out(take, engine, state=state, on_report=on_progress):
        yield from finished
        finished.clear()
        yield _finished(done, ledger, state)
    yield from finished


def _finished(done: Done[TableJob], ledger: Ledger, state: Path | None) -> Finished:
    if done.how != "result":
        return Finished(done.job, None, done.fault or "stopped")
    ledger.append(done.result)
    if state is not None:
        shutil.rmtree(state / done.job.hash, ignore_errors=True)
    return Finished(done.job, done.result)
