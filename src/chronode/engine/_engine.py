"""The queue: gives jobs to workers as they become free, and does lost ones again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._checks import one_of, whole
from ._here import Here
from ._job import Done, JobType, Pool, Tell
from ._processes import Processes

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Engine:
    """Where jobs are done.

    Attributes:
        name: "local" or "ray".
        workers: Jobs at a time. 0 is this process, one job after the other (local), or one job per core of the
            cluster (ray).
        address: Address of a Ray cluster; None starts one on this machine.
        fresh: Whether every job has a new process.
        retries: How often a job is done again whose process or machine was lost.
    """

    name: str = "local"
    workers: int = 0
    address: str | None = None
    fresh: bool = False
    retries: int = 3

    def __post_init__(self) -> None:
        one_of("engine", self.name, ENGINES)
        whole("workers", self.workers, at_least=0)
        whole("retries", self.retries, at_least=0)
        if self.address is not None and self.name != "ray":
            raise ValueError('address is that of a Ray cluster: it goes with engine="ray".')

    def open(self, state: Path | None, tell: Tell[JobType]) -> Pool[JobType]:
        """The workers."""
        if self.name == "ray":
            from ._ray import RayTasks

            return RayTasks(tell, self.workers, self.address, fresh=self.fresh)
        if self.workers:
            return Processes(tell, state, self.workers, fresh=self.fresh)
        return Here(tell, state)


def carry_out(
    take: Callable[[], JobType | None],
    engine: Engine,
    *,
    state: Path | None = None,
    on_start: Callable[[JobType], None] | None = None,
    on_report: Tell[JobType] | None = None,
) -> Iterator[Done[JobType]]:
    """Does jobs as long as there are some; gives the end of each as it comes.

    Everything that is called here is called in this process, the driver: it alone decides what is done next, and it
    alone keeps results. A job whose process or machine is lost is done again.

    Args:
        take: Gives the next job when a worker is free; None if there is none until another job has ended.
        engine: Where.
        state: Folder for what unfinished jobs leave to their next attempt; see `Job.execute`.
        on_start: Called with a job when it is given to a worker.
        on_report: Called with a job and what it reports; raises `StopJob` to end that job.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Square:
        ...     number: int
        ...     key = property(str)
        ...     def execute(self, state, report):
        ...         return self.number**2
        >>> numbers = iter([1, 2, 3])
        >>> take = lambda: next(map(Square, numbers), None)
        >>> [done.result for done in carry_out(take, Engine())]
        [1, 4, 9]
    """
    pool = engine.open(state, on_report or _ignore)
    again: list[JobType] = []
    lost: Counter[str] = Counter()
    try:
        while True:
            while pool.has_room() and (job := again.pop() if again else take()) is not None:
                if on_start is not None:
                    on_start(job)
                pool.start(job)
            if not pool.is_busy():
                return
            for done in pool.collect():
                lost[done.job.key] += done.how == "lost"
                if done.how == "lost" and lost[done.job.key] <= engine.retries:
                    again.append(done.job)
                else:
                    yield done
    finally:
        pool.close()


def _ignore(job: Any, content: Any) -> None:
    pass
