"""Jobs in this process, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._job import Done, JobType, OnReport, Pool, StopJob, perform


class InProcess(Pool[JobType]):
    """Pool that runs jobs in this process.

    Args:
        on_report: Called with a job and its report.
        state: Folder for unfinished jobs.
    """

    def __init__(self, on_report: OnReport[JobType], state: Path | None):
        super().__init__(on_report)
        self.state = state
        self.job: JobType | None = None

    def has_room(self) -> bool:
        """Returns whether no job is waiting."""
        return self.job is None

    def is_busy(self) -> bool:
        """Returns whether a job is waiting."""
        return self.job is not None

    def start(self, job: JobType) -> None:
        """Stores the job for `collect`."""
        self.job = job

    def collect(self) -> list[Done[JobType]]:
        """Runs the job; an error of `on_report` ends it and is raised."""
        job, self.job = self.job, None
        assert job is not None
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

    def close(self) -> None:
        """Does nothing."""
