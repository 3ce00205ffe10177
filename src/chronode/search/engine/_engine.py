"""The queue: assigns jobs to free workers and repeats lost ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...settings import one_of, whole
from ._job import Done, InProcess, JobType, OnReport, Pool
from ._processes import Processes

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Engine:
    """Configuration of the workers.

    Attributes:
        name: "local" or "ray".
        workers: Number of parallel jobs. 0 means this process, one job after the other (local), or one job per core of
            the cluster (ray).
        address: Address of a Ray cluster; None starts one on this machine.
        fresh: Whether every job has a new process.
        retries: Number of times that a job is repeated if its process or machine was lost.
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
            raise ValueError('address is the address of a Ray cluster and needs engine="ray".')

    def open(self, state: Path | None, on_report: OnReport[JobType]) -> Pool[JobType]:
        """Returns the pool of workers."""
        if self.name == "ray":
            from ._ray import RayTasks

            return RayTasks(on_report, self.workers, self.address, fresh=self.fresh)
        if self.workers:
            return Processes(on_report, state, self.workers, fresh=self.fresh)
        return InProcess(on_report, state)


def carry_out(
    take: Callable[[], JobType | None],
    engine: Engine,
    *,
    state: Path | None = None,
    on_start: Callable[[JobType], None] | None = None,
    on_report: OnReport[JobType] | None = None,
) -> Iterator[Done[JobType]]:
    """Runs jobs until there are no more; yields the result of each as it finishes.

    All callbacks are called in this process, the driver: it alone decides which job is next and stores results. A job
    whose process or machine is lost is repeated.

    Args:
        take: Returns the next job when a worker is free; None if there is none until another job has finished.
        engine: Configuration of the workers.
        state: Folder in which unfinished jobs leave data for their next attempt; see `Job.execute`.
        on_start: Called with a job when it is assigned to a worker.
        on_report: Called with a job and its report; raises `StopJob` to stop that job.

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
    pool = engine.open(state, on_report or (lambda job, content: None))
    again: list[JobType] = []
    lost: Counter[str] = Counter()
    try:
        while True:
            while len(pool.busy) < pool.workers and (job := again.pop() if again else take()) is not None:
                if on_start is not None:
                    on_start(job)
                pool.start(job)
            if not pool.busy:
                return
            for done in pool.collect():
                lost[done.job.key] += done.how == "lost"
                if done.how == "lost" and lost[done.job.key] <= engine.retries:
                    again.append(done.job)
                else:
                    yield done
    finally:
        pool.close()
