"""Tasks of a Ray cluster: one job each, or one training together."""

from __future__ import annotations

import logging
import pickle
from typing import Any, cast

from ._job import Done, Job, JobType, OnReport, Pool, StopJob, perform

_SECONDS_BETWEEN_REPORTS = 0.5


class RayTasks(Pool[JobType]):
    """Pool of cluster tasks with one core each.

    Args:
        on_report: Called with a job and its report.
        workers: Number of parallel jobs; 0 for one per core, updated as machines join and leave.
        address: Address of the cluster; None starts one on this machine.
        fresh: Whether every job has a new process.
    """

    def __init__(self, on_report: OnReport[JobType], workers: int, address: str | None, *, fresh: bool):
        super().__init__(on_report)
        self.ray, self.started = connected(address)
        ray, self.limit = self.ray, workers
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # The queue handles retries. A mailbox that is killed is restarted; the reports that it had are lost.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.mailbox = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)(
            _mailbox()
        ).remote()
        self.perform = ray.remote(num_cpus=1, max_retries=0, max_calls=1 if fresh else 0)(_perform)
        self.stopping: set[str] = set()

    @property
    def workers(self) -> int:
        """Number of jobs that may run at the same time; machines may join and leave."""
        return self.limit or max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def start(self, job: JobType) -> None:
        """Submits a task."""
        self.busy[self.perform.remote(job, self.mailbox)] = job

    def collect(self) -> list[Done[JobType]]:
        """Waits until a task has finished, at most half a second."""
        ready, _ = self.ray.wait(list(self.busy), num_returns=1, timeout=_SECONDS_BETWEEN_REPORTS)
        jobs = {job.key: job for job in self.busy.values()}
        for key, letter in self.ray.get(self.mailbox.empty.remote()):
            if key in jobs and key not in self.stopping:
                self._report(jobs[key], pickle.loads(letter))
        return [self._end(task, self.busy.pop(task)) for task in ready]

    def close(self) -> None:
        """Stops the tasks, and the cluster if it was started here."""
        for task in self.busy:
            self.ray.cancel(task, force=True)
        self.busy = {}
        self.ray.kill(self.mailbox)
        if self.started:
            self.ray.shutdown()

    def _report(self, job: JobType, content: Any) -> None:
        try:
            self.on_report(job, content)
        except StopJob:
            self.stopping.add(job.key)
            self.ray.get(self.mailbox.stop.remote(job.key))

    def _end(self, task: Any, job: JobType) -> Done[JobType]:
        errors = self.ray.exceptions
        stopped = job.key in self.stopping
        self.stopping.discard(job.key)
        try:
            how, result, fault = self.ray.get(task)
        except errors.RayTaskError as error:  # raised outside of `perform`, for example if a package is missing
            return Done(job, "fault", fault=str(error.cause))
        except errors.RayError as error:
            return Done(job, "stopped" if stopped else "lost", fault=f"its worker was lost: {error}")
        return Done(job, "stopped" if stopped else how, result, fault)


def connected(address: str | None) -> tuple[Any, bool]:
    """Returns the module of Ray, connected to a cluster, and whether the connection or the cluster is new."""
    try:
        import ray as module
    except ImportError as error:
        raise ImportError("the engine ray needs Ray: pip install 'chronode[ray]'") from error
    ray = cast(Any, module)  # its type hints do not support actors
    is_new = not ray.is_initialized()
    if is_new:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    return ray, is_new


def _mailbox() -> type:
    """Returns the class of the actor that receives the reports of tasks.

    It is defined in a function and uses bytes, so that its process does not need to import chronode.
    """

    class Mailbox:
        def __init__(self) -> None:
            self.letters: list[tuple[str, bytes]] = []
            self.stops: set[str] = set()

        def put(self, key: str, letter: bytes) -> bool:
            """Stores a report; returns whether its job should stop."""
            self.letters.append((key, letter))
            return key in self.stops

        def empty(self) -> list[tuple[str, bytes]]:
            """Returns all reports since the last call."""
            letters, self.letters = self.letters, []
            return letters

        def stop(self, key: str) -> None:
            """Makes the next report of the job return a stop."""
            self.stops.add(key)

    return Mailbox


def _perform(job: Job, mailbox: Any) -> tuple[str, Any, str]:
    """Runs a job on a worker with one thread, since it has one core."""
    import ray
    import torch

    def report(content: Any) -> None:
        if ray.get(mailbox.put.remote(job.key, pickle.dumps(content))):
            raise StopJob

    torch.set_num_threads(1)
    return perform(job, None, report)


class RayHelpers:
    """Tasks of a Ray cluster that train along with this process; see `chronode.training.Helpers`.

    The series of a store, or of files that stay on the disk, must have the same path on every machine.

    Args:
        address: Address of the cluster; None starts one on this machine.
        gpu: Whether every task needs a GPU.
    """

    def __init__(self, address: str | None = None, *, gpu: bool = False):
        self.ray, self.started = connected(address)
        self.host = self.ray.util.get_node_ip_address()
        needs = {"num_cpus": 1, "num_gpus": int(gpu), "max_retries": 0, "scheduling_strategy": "SPREAD"}
        self.follow = self.ray.remote(max_calls=1, **needs)(_follow)
        self.tasks: list[Any] = []

    def start(self, content: bytes, port: int, size: int) -> None:
        """Starts the tasks, on different machines if there are several."""
        cores = int(self.ray.cluster_resources().get("CPU", 0))
        if cores < size - 1:
            raise ValueError(f"the cluster has {cores} cores, but {size} processes need {size - 1} besides this one.")
        shared = self.ray.put(content)
        self.tasks = [self.follow.remote(shared, self.host, port, rank, size) for rank in range(1, size)]

    def fault(self) -> str:
        """Returns why a task has ended."""
        ended, _ = self.ray.wait(self.tasks, num_returns=1, timeout=0)
        try:
            self.ray.get(ended)
        except self.ray.exceptions.RayTaskError as error:
            return str(error.cause)
        except self.ray.exceptions.RayError as error:
            return str(error).split("\n")[0]
        return "it has ended" if ended else ""

    def stop(self) -> None:
        """Ends all tasks; the cluster goes on."""
        for task in self.tasks:
            self.ray.cancel(task, force=True)
        self.tasks = []

    def close(self) -> None:
        """Ends the cluster, if it was started here."""
        if self.started:
            self.ray.shutdown()


def _follow(content: bytes, host: str, port: int, rank: int, size: int) -> None:
    import torch

    from ...training import follow

    torch.set_num_threads(1)  # a task has one core
    follow(content, host, port, rank, size)
