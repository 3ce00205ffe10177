"""Running what the ledger lacks: each run in a process of its own, so that a fault ends only that run."""

from __future__ import annotations

import math
import multiprocessing
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from ..tasks import find as find_task
from ..training import BatchDone, Settings
from ..training._metrics import LOWER_IS_BETTER
from .ledger import Entry, Ledger, run_hash
from .recipe import Cell


@dataclass(frozen=True)
class Job:
    """A run to make: a cell with one of its seeds."""

    cell: Cell
    seed: int

    @property
    def hash(self) -> str:
        """What identifies the run."""
        return run_hash(self.cell.model, self.cell.task, self.cell.protocol, self.seed, self.cell.config)

    def __str__(self) -> str:
        column = f" {self.cell.number.column}" if self.cell.number.column else ""
        return f"{self.cell.recipe}{column} {self.cell.number.label}, seed {self.seed}"


@dataclass(frozen=True)
class Progress:
    """How far a run is: `done` from 0 to 1."""

    job: Job
    done: float
    loss: float


@dataclass(frozen=True)
class Finished:
    """A run ended: with an entry that is now in the ledger, or with what went wrong."""

    job: Job
    entry: Entry | None
    fault: str = ""


def missing(cells: Iterable[Cell], ledger: Ledger) -> list[Job]:
    """The runs that the ledger lacks, each once, first seeds first: breadth before depth.

    Of a cell with settings to choose from, the first seed of every candidate comes first; the other seeds of the
    chosen one are missing as soon as all of these are in the ledger.
    """
    have = {entry.config_hash: entry for entry in ledger.entries()}
    jobs: dict[str, Job] = {}
    for cell in cells:
        first = [Job(candidate, 0) for candidate in cell.candidates()]
        best = chosen(cell, have)
        later = [] if best is None else [Job(best, seed) for seed in range(1, best.seeds)]
        for job in (*first, *later):
            if job.hash not in have:
                jobs.setdefault(job.hash, job)
    return sorted(jobs.values(), key=lambda job: job.seed)


def chosen(cell: Cell, have: Mapping[str, Entry]) -> Cell | None:
    """The candidate with the best validation metric of the first seed; None until all of them were run."""
    candidates = cell.candidates()
    if len(candidates) == 1:
        return candidates[0]
    entries = [have.get(Job(candidate, 0).hash) for candidate in candidates]
    metric = find_task(cell.task).metric
    sign = -1 if metric in LOWER_IS_BETTER else 1
    lowest = {metric: -sign * math.inf}  # of a run that diverged before its first epoch ended
    values = [sign * entry.metrics.get("valid", lowest)[metric] for entry in entries if entry is not None]
    return candidates[values.index(max(values))] if len(values) == len(candidates) else None


def run_local(
    jobs: Iterable[Job], ledger: Ledger, *, workers: int = 1, folder: Path | None = None
) -> Iterator[Progress | Finished]:
    """Makes the runs, `workers` at a time with one thread each (a single worker has all threads).

    A worker that is killed or fails loses its run only; with `folder` the next attempt goes on where it stopped. What
    another process has added to the ledger meanwhile is not made again.
    """
    waiting = list(jobs)
    running: dict[Any, tuple[Job, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop(0)
                if (made := ledger.find(job.hash)) is not None:  # by another process meanwhile
                    yield Finished(job, made)
                    continue
                ears, worker = _start(job, folder, None if workers == 1 else 1)
                running[ears] = (job, worker)
            for ears in wait(list(running)) if running else ():  # to wait for nobody has no end
                job, worker = running[ears]
                news = _news(ears, job, worker, ledger)
                if isinstance(news, Finished):
                    del running[ears]
                    if news.entry is not None and folder is not None:
                        shutil.rmtree(folder / news.job.hash, ignore_errors=True)
                yield news
    finally:
        for _, worker in running.values():
            worker.terminate()


def _start(job: Job, folder: Path | None, threads: int | None) -> tuple[Any, Any]:
    """A worker, and a pipe of its own: a queue that all share would block when one is killed while it writes."""
    context = multiprocessing.get_context("spawn")
    ears, mouth = context.Pipe(duplex=False)
    worker = context.Process(target=_work, args=(job, folder, threads, mouth), daemon=True)
    worker.start()
    mouth.close()
    return ears, worker


def _news(ears: Any, job: Job, worker: Any, ledger: Ledger) -> Progress | Finished:
    """What a worker said, or that it ended without a word."""
    try:
        kind, value = ears.recv()
    except (EOFError, OSError):
        worker.join()
        return Finished(job, None, f"its process ended with code {worker.exitcode}")
    if kind == "progress":
        return Progress(job, *value)
    worker.join()
    if kind == "fault":
        return Finished(job, None, value)
    entry = Entry(**value)
    ledger.append(entry)
    return Finished(job, entry)


def _work(job: Job, folder: Path | None, threads: int | None, mouth: Any) -> None:
    """A worker's life: one run, told as it goes."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    try:
        entry = execute(job, folder, lambda done, loss: mouth.send(("progress", (done, loss))))
        mouth.send(("entry", asdict(entry)))
    except (KeyboardInterrupt, BrokenPipeError):  # told to stop, or nobody listens any more
        pass
    except (ValueError, TypeError, OSError) as error:
        mouth.send(("fault", str(error)))
    except Exception:
        mouth.send(("fault", traceback.format_exc(limit=-3)))


def execute(job: Job, folder: Path | None = None, on_progress: Callable[[float, float], None] | None = None) -> Entry:
    """Makes one run here; `on_progress(done, loss)` is called about once a second."""
    from .run import run

    training = Settings.from_dict(job.cell.config["training"])
    last = [time.monotonic()]

    def listen(event: object) -> None:
        if on_progress and isinstance(event, BatchDone) and time.monotonic() - last[0] > 1:
            last[0] = time.monotonic()
            epochs = (event.epoch - 1 + event.batch / event.batches) / training.epochs
            on_progress(epochs if training.steps is None else max(epochs, event.step / training.steps), event.loss)

    return run(job.cell, job.seed, folder, listen)
