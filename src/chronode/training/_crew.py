"""Processes that train one model together: each takes its share of every batch, and their gradients are added."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from ..system import load_plugin, plugins
from ._objective import Loss

Result = TypeVar("Result")

_PATIENCE = timedelta(hours=2)
"""Time that a process waits for another one that is alive, such as the first while it validates."""
_JOINING = timedelta(minutes=5)
_POLL = 0.05


class WorkerLost(ValueError):
    """A process of a training on several devices has ended; the training continues from its last checkpoint."""


class Crew:
    """One process of those that train together; `Crew()` is a process that trains alone.

    Attributes:
        rank: Number of this process, from 0; only the first saves, validates and reports.
        size: Number of processes.
    """

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size

    def backward(self, loss: Loss, model: nn.Module) -> Loss:
        """Computes the gradients of the mean loss over the shares of all processes; returns that loss, detached."""
        if self.size == 1:
            loss.mean.backward()
            return Loss(loss.sum.detach(), loss.weight)
        loss.sum.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([*map(torch.flatten, gradients), loss.sum.detach().reshape(1), loss.weight.reshape(1)])
        self._together(lambda: dist.all_reduce(flat))
        total = Loss(flat[-2], flat[-1])
        known = torch.where(total.weight > 0, total.weight, torch.ones_like(total.weight))
        for gradient, summed in zip(gradients, flat.split([g.numel() for g in gradients] + [2]), strict=False):
            gradient.copy_((summed / known).view_as(gradient))
        return total

    def of_first(self, function: Callable[[], Result]) -> Result:
        """Returns the result of a function that only the first process calls."""
        if self.size == 1:
            return function()
        content = [function() if self.rank == 0 else None]
        self._together(lambda: dist.broadcast_object_list(content))
        return content[0]  # pyrefly: ignore

    def _together(self, work: Callable[[], object]) -> None:
        try:
            work()
        except RuntimeError as error:
            raise WorkerLost("a process of this training has ended, or cannot be reached") from error


class Helpers(Protocol):
    """Starts the other processes of a training; `LocalHelpers` on this machine."""

    host: str
    """Address of this machine, by which they reach it."""

    def start(self, content: bytes, port: int, size: int) -> None:
        """Starts processes that call `follow(content, host, port, rank, size)` with ranks from 1 to `size` - 1."""

    def fault(self) -> str:
        """Returns why a process has ended; empty while all are running."""

    def stop(self) -> None:
        """Ends all processes."""


@contextmanager
def leading(helpers: Helpers, size: int, work: tuple[Any, ...], device: torch.device) -> Iterator[Crew]:
    """Starts the other processes with the arguments of the training, and ends them at the end of the block."""
    if dist.is_available() and dist.is_initialized():
        raise ValueError("this process belongs to a process group of torch.distributed already: train with devices=1.")
    content = pickle.dumps((plugins(), pickle.dumps((work, device.type))))
    store = dist.TCPStore(helpers.host, 0, is_master=True, wait_for_workers=False, timeout=_JOINING)
    try:
        helpers.start(content, store.port, size)
        limit = time.monotonic() + _JOINING.total_seconds()
        while store.add("joined", 0) < size - 1:
            if (fault := helpers.fault()) or time.monotonic() > limit:
                raise WorkerLost(f"a process of this training has not started: {fault or 'it does not answer'}")
            time.sleep(_POLL)
        with _group(store, 0, size, device) as crew:
            yield crew
    finally:
        helpers.stop()


def follow(content: bytes, host: str, port: int, rank: int, size: int) -> None:
    """Trains along in one of the other processes, until the first ends the training."""
    from ._runner import train_along

    names, inner = pickle.loads(content)  # of the process that has started this one
    for name in names:
        load_plugin(name)
    work, kind = pickle.loads(inner)
    store = dist.TCPStore(host, port, is_master=False, timeout=_JOINING)
    store.add("joined", 1)
    device = device_of(torch.device(kind), rank)
    with _group(store, rank, size, device) as crew:
        train_along(*work, crew=crew, device=device)


@contextmanager
def _group(store: dist.Store, rank: int, size: int, device: torch.device) -> Iterator[Crew]:
    backend = "nccl" if device.type == "cuda" else "gloo"
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    except RuntimeError as error:
        raise WorkerLost(f"the processes of this training cannot connect: {str(error).splitlines()[0]}") from error
    try:
        yield Crew(rank, size)
    finally:
        dist.destroy_process_group()


def device_of(device: torch.device, rank: int) -> torch.device:
    """Returns the device of a process: GPUs are dealt out in turn.

    Example:
        >>> device_of(torch.device("cpu"), 3)
        device(type='cpu')
    """
    return torch.device("cuda", rank % torch.cuda.device_count()) if device.type == "cuda" else device
