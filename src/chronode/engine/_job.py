"""A job, how it ends, and what the places that run jobs have in common."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar


class Job(Protocol):
    """Something to do, on whichever worker is free; it is sent there by pickle."""

    @property
    def key(self) -> str:
        """What identifies the job among the others."""
        ...

    def execute(self, state: Path | None, report: Callable[[Any], None]) -> Any:
        """Does it and returns the result, which is sent to the driver by pickle.

        Args:
            state: Folder of the driver's machine in which an unfinished job may leave what its next attempt continues
                from; None if the worker may be on another machine.
            report: Sends something to the driver; raises `StopJob` if the driver no longer wants the result.
        """
        ...


JobType = TypeVar("JobType", bound=Job)


class StopJob(Exception):
    """Raised by `on_report` to end the job that reported, and inside that job by its next report."""


@dataclass(frozen=True)
class Done(Generic[JobType]):
    """How a job ended.

    Attributes:
        job: The job.
        how: "result", "fault" (it raised an error), "lost" (its process or machine was) or "stopped" (by `StopJob`).
        result: What `execute` returned.
        fault: Why there is no result, in words.
    """

    job: JobType
    how: str
    result: Any = None
    fault: str = ""


Tell = Callable[[JobType, Any], None]


class Pool(ABC, Generic[JobType]):
    """A place with workers.

    Args:
        tell: Called with a job and what it reports.
    """

    def __init__(self, tell: Tell[JobType]):
        self.tell = tell

    @abstractmethod
    def has_room(self) -> bool:
        """Whether a worker is free."""

    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a job is being done."""

    @abstractmethod
    def start(self, job: JobType) -> None:
        """Gives a job to a free worker."""

    @abstractmethod
    def collect(self) -> list[Done[JobType]]:
        """Waits for reports and ends of jobs; passes the reports on and returns the ends."""

    @abstractmethod
    def close(self) -> None:
        """Ends all workers, whatever they do."""


def perform(job: Job, state: Path | None, report: Callable[[Any], None]) -> tuple[str, Any, str]:
    """Does the job on a worker; returns `how`, `result` and `fault` of its `Done`."""
    try:
        return "result", job.execute(state, report), ""
    except StopJob:
        return "stopped", None, ""
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        return "fault", None, str(error)
    except Exception:
        return "fault", None, traceback.format_exc(limit=-3)
