"""Processes of a Ray cluster that train one model together."""

from __future__ import annotations

from typing import Any

from ._ray import connected


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
