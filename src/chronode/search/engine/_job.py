"""Jobs, their results, and pools of workers; the pool of this process."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar


class Job(Protocol):
    """Unit of work for any worker; it is pickled."""

    @property
    def key(self) -> str:
        """The unique key of the job."""
        ...

    def execute(self, state: Path | None, report: Callable[[Any], None]) -> Any:
        """Runs the job and returns the result, which is pickled.

        Args:
            state: Folder on the machine of the driver in which an unfinished job may leave data for its next attempt;
                None if the worker may be on another machine.
            report: Sends something to the driver; raises `StopJob` if the driver no longer needs the result.
        """
        ...


JobType = TypeVar("JobType", bound=Job)
OnReport = Callable[[JobType, Any], None]


class StopJob(Exception):
    """Raised by `on_report` to stop the job that reported, and in that job by its next report."""


@dataclass(frozen=True)
class Done(Generic[JobType]):
    """Result of a job.

    Attributes:
        job: The job.
        how: "result", "fault" (it raised an error), "lost" (its process or machine was lost) or "stopped" (by
            `StopJob`).
        result: Return value of `execute`.
        fault: Reason if there is no result.
    """

    job: JobType
    how: str
    result: Any = None
    fault: str = ""


class Pool(ABC, Generic[JobType]):
    """Pool of workers.

    Attributes:
        busy: The running jobs, or the workers that run them, by what the pool waits for.
    """

    def __init__(self, on_report: OnReport[JobType]):
        self.on_report = on_report
        self.busy: dict[Any, Any] = {}

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of jobs that may run at the same time."""

    @abstractmethod
    def start(self, job: JobType) -> None:
        """Assigns a job to a free worker."""

    @abstractmethod
    def collect(self) -> list[Done[JobType]]:
        """Waits for reports and results of jobs; forwards the reports and returns the results."""

    def close(self) -> None:
        """Stops all workers."""


class InProcess(Pool[JobType]):
    """Pool that runs one job after the other in this process, when results are collected."""

    workers = 1

    def __init__(self, on_report: OnReport[JobType], state: Path | None):
        super().__init__(on_report)
        self.state = state

    def start(self, job: JobType) -> None:
        """Stores the job for `collect`."""
        self.busy[job.key] = job

    def collect(self) -> list[Done[JobType]]:
        """Runs the job; an error of `on_report` ends it and is raised."""
        _, job = self.busy.popitem()
        errors: list[BaseException] = []

        def report(content: Any) -> None:
            try:
                self.on_report(job, content)
            except StopJob:
                raise
            except BaseException as error:
                errors.append(error)
                raise

        done = Done(job, *perform(job, self.state, report))
        if errors:
            raise errors[0]
        return [done]


def perform(job: Job, state: Path | None, report: Callable[[Any], None]) -> tuple[str, Any, str]:
    """Runs the job on a worker; returns `how`, `result` and `fault` of its `Done`."""
    try:
        return "result", job.execute(state, report), ""
    except StopJob:
        return "stopped", None, ""
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        return "fault", None, str(error)
    except Exception:
        return "fault", None, traceback.format_exc(limit=-3)
