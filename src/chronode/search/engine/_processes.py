"""Jobs in other processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic

from ._job import Done, Job, JobType, OnReport, Pool, StopJob, perform

_STOP = "stop"


class Processes(Pool[JobType]):
    """Pool of worker processes; a killed one is replaced for the next job.

    Args:
        on_report: Called with a job and its report.
        state: Folder for unfinished jobs.
        workers: Number of parallel jobs; with several, each has one thread.
        fresh: Whether every job has a new process.
    """

    def __init__(self, on_report: OnReport[JobType], state: Path | None, workers: int, *, fresh: bool):
        super().__init__(on_report)
        self.state, self.workers, self.fresh = state, workers, fresh
        self.idle: list[_Worker[JobType]] = []
        self.busy: dict[Connection, _Worker[JobType]] = {}

    def has_room(self) -> bool:
        """Returns whether fewer than `workers` jobs are running."""
        return len(self.busy) < self.workers

    def is_busy(self) -> bool:
        """Returns whether a job is running."""
        return bool(self.busy)

    def start(self, job: JobType) -> None:
        """Sends the job to an idle process, or to a new one."""
        while self.idle:
            worker = self.idle.pop()
            try:
                worker.send(job)
                break
            except OSError:  # killed while idle
                worker.end()
        else:
            worker = _Worker[JobType](self.state, None if self.workers == 1 else 1)
            worker.send(job)
        self.busy[worker.pipe] = worker

    def collect(self) -> list[Done[JobType]]:
        """Waits for the next messages."""
        ready = [self.busy[pipe] for pipe in wait(list(self.busy)) if isinstance(pipe, Connection)]
        return [done for worker in ready if (done := self._message(worker)) is not None]

    def close(self) -> None:
        """Asks all processes to end and waits for them, so that runs can save their state."""
        workers = [*self.busy.values(), *self.idle]
        for worker in self.busy.values():
            worker.process.terminate()
        for worker in workers:
            worker.end()
        self.busy, self.idle = {}, []

    def _message(self, worker: _Worker[JobType]) -> Done[JobType] | None:
        job = worker.job
        assert job is not None
        try:
            how, *value = worker.pipe.recv()
        except (EOFError, OSError):
            del self.busy[worker.pipe]
            worker.end()
            fault = f"its process ended with code {worker.process.exitcode}"
            return Done(job, "stopped" if worker.stopping else "lost", fault=fault)
        if how == "report":
            self._report(worker, job, *value)
            return None
        del self.busy[worker.pipe]
        if self.fresh:
            worker.end()
        else:
            self.idle.append(worker)
        return Done(job, "stopped" if worker.stopping else how, *value)

    def _report(self, worker: _Worker[JobType], job: JobType, content: Any) -> None:
        if worker.stopping:
            return
        try:
            self.on_report(job, content)
        except StopJob:
            worker.stopping = True
            worker.pipe.send(_STOP)


class _Worker(Generic[JobType]):
    """Process with its own pipe: a shared queue would block if a process is killed while writing."""

    def __init__(self, state: Path | None, threads: int | None):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_live, args=(other, state, threads), daemon=True)
        self.process.start()
        other.close()
        self.job: JobType | None = None
        self.stopping = False

    def send(self, job: JobType) -> None:
        """Starts a job."""
        self.pipe.send(job)
        self.job, self.stopping = job, False

    def end(self) -> None:
        """Waits for the process, which ends when its pipe is closed."""
        self.pipe.close()
        self.process.join()


def _live(pipe: Connection, state: Path | None, threads: int | None) -> None:
    """Runs one job after the other until the pipe is closed."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C in a terminal only reaches the driver, which then stops the workers
    if threads is not None:
        import torch

        torch.set_num_threads(threads)

    try:
        while True:
            job: Job | str = pipe.recv()
            if not isinstance(job, str):  # the stop message of a job that had already finished
                pipe.send(perform(job, state, _reporter(pipe)))
    except (EOFError, OSError, KeyboardInterrupt):  # the driver has closed the pipe, or asked to end
        pass


def _reporter(pipe: Connection) -> Callable[[Any], None]:
    def report(content: Any) -> None:
        if pipe.poll():
            pipe.recv()
            raise StopJob
        pipe.send(("report", content))

    return report
