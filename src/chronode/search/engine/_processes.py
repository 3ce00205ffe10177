"""Jobs in other processes on this machine, which serve one job after the other.

On Linux they are forked from a server that has imported torch and chronode (`_preload`) and has run nothing yet, so
that a further process, or the replacement of a killed one, costs milliseconds instead of the seconds of these imports.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic

from ._job import Done, Job, JobType, OnReport, Pool, StopJob, perform

_STOP = "stop"


class Processes(Pool[JobType]):
    """Pool of worker processes; a killed one is replaced for the next job."""

    workers = 1

    def __init__(self, on_report: OnReport[JobType], state: Path | None, workers: int, *, fresh: bool):
        super().__init__(on_report)
        self.state, self.workers, self.fresh = state, workers, fresh
        self.idle: list[_Worker[JobType]] = []

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
        ready = [self.busy[pipe] for pipe in wait(list(self.busy))]
        return [done for worker in ready if (done := self._message(worker)) is not None]

    def close(self) -> None:
        """Asks all processes to end and waits for them, so that runs can save their state."""
        for worker in self.busy.values():
            worker.process.terminate()
        for worker in (*self.busy.values(), *self.idle):
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
            if not worker.stopping:
                try:
                    self.on_report(job, *value)
                except StopJob:
                    worker.stopping = True
                    worker.pipe.send(_STOP)
            return None
        del self.busy[worker.pipe]
        if self.fresh:
            worker.end()
        else:
            self.idle.append(worker)
        return Done(job, "stopped" if worker.stopping else how, *value)


class _Worker(Generic[JobType]):
    """Process with its own pipe: a shared queue would block if a process is killed while writing."""

    def __init__(self, state: Path | None, threads: int | None):
        context = _context()
        self.pipe, other = context.Pipe()
        arguments = (other, state, threads, dict(os.environ))
        self.process = context.Process(target=_live, args=arguments, daemon=True)  # pyrefly: ignore
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


def _context() -> Any:
    """Returns the way to start processes; starts the server, which must not see a Ctrl-C while it imports."""
    if sys.platform != "linux":  # libraries of macOS do not survive a fork
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{__package__}._preload"])
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread
        forkserver.ensure_running()
    else:
        forkserver.ensure_running()
        signal.signal(signal.SIGINT, before)
    return context


def _live(pipe: Connection, state: Path | None, threads: int | None, environment: Mapping[str, str]) -> None:
    """Runs one job after the other until the pipe is closed."""
    os.setpgrp()  # Ctrl-C in a terminal only reaches the driver, which then stops the workers
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()  # that of the server is older
    os.environ.update(environment)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)

    def report(content: Any) -> None:
        if pipe.poll():
            pipe.recv()
            raise StopJob
        pipe.send(("report", content))

    with suppress(EOFError, OSError, KeyboardInterrupt):  # the driver has closed the pipe, or asked to end
        while True:
            job: Job | str = pipe.recv()
            if not isinstance(job, str):  # the stop message of a job that had already finished
                pipe.send(perform(job, state, report))
