"""Batches for training and evaluation, taken directly from the arrays of Sequences, without workers or collation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Full, Queue

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import UNKNOWN, Batch, LengthBatches, Parts, Sequences
from ._settings import Settings


@dataclass
class Place:
    """Position of a run: completed epochs, completed batches of the next epoch, and total optimizer steps."""

    epoch: int = 0
    batch: int = 0
    step: int = 0


def batch_seed(seed: int, place: Place, rank: int = 0) -> int:
    """Returns the seed of all random numbers of one batch; it depends on nothing else, so a run can resume anywhere."""
    mixed = np.random.SeedSequence((seed, place.epoch, place.batch, rank))
    return int(mixed.generate_state(1, np.uint64)[0] >> np.uint64(1))


class TrainingBatches:
    """Batches of the epoch at `place`, starting with its next batch; iterated over once per epoch.

    With several processes, each gets its share of every batch.

    Args:
        parts: The training series, or new ones for every epoch.
        settings: Training settings.
        place: Position of the run; read at the start of every epoch.
        share: (rank, number of processes).
    """

    def __init__(self, parts: Parts, settings: Settings, place: Place, share: tuple[int, int] = (0, 1)):
        self.parts, self.settings, self.place, self.share = parts, settings, place, share
        self.data = parts.train

    def __len__(self) -> int:
        return -(-len(self.data) // self.settings.batch)

    def __iter__(self) -> Iterator[Batch]:
        if self.parts.fresh is not None and self.place.epoch:
            self.data = self.parts.fresh(self.place.epoch)
        data = self.data
        order = LengthBatches(data.lengths, self.settings.batch, seed=self.settings.seed)
        order.set_epoch(self.place.epoch)
        epoch, first = self.place.epoch, self.place.batch
        numbered = ((number, rows) for number, rows in enumerate(order) if number >= first)
        batches = (self._batch(data, Place(epoch, number), rows) for number, rows in numbered)
        for batch in ahead(batches) if data.is_stored else batches:
            if self.settings.steps is not None and self.place.step >= self.settings.steps:
                return
            yield batch

    def _batch(self, data: Sequences, place: Place, rows: Tensor) -> Batch:
        batch = _shared(data, rows, *self.share)
        rng = torch.Generator().manual_seed(batch_seed(self.settings.seed, place, self.share[0]))
        if self.settings.subsample < 1:
            per_step = data.target is not None and data.target.per_step
            batch = subsample(batch, self.settings.subsample, rng, per_step=per_step)
        if self.settings.shift:
            batch = shifted(batch, self.settings.shift, rng)
        return jittered(batch, self.settings.jitter, rng) if self.settings.jitter else batch


def ahead(batches: Iterator[Batch], most: int = 2) -> Iterator[Batch]:
    """Yields batches that another thread reads meanwhile, up to `most` of them in advance."""
    ready: Queue[Batch | BaseException | None] = Queue(most)
    unwanted = threading.Event()

    def put(item: Batch | BaseException | None) -> None:
        while not unwanted.is_set():
            with suppress(Full):
                return ready.put(item, timeout=0.1)

    def read() -> None:
        try:
            for batch in batches:
                put(batch)
                if unwanted.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        unwanted.set()
        thread.join()


def _shared(data: Sequences, rows: Tensor, rank: int, processes: int) -> Batch:
    """Returns the share of a batch for one process; never empty, since all processes must take the step together: one
    series without weight in place of none.
    """
    own = rows[rank::processes]
    return data.batch(own) if len(own) else data.batch(rows[:1])._replace(weights=torch.zeros(1))


def subsample(batch: Batch, keep: float, rng: torch.Generator, *, per_step: bool) -> Batch:
    """Keeps each step with probability `keep` (at least one per series); the remaining steps keep their times.

    The dt of dropped steps is added to the next remaining step.
    """
    size, steps = batch.x.shape[:2]
    valid = torch.arange(steps) < batch.lengths[:, None]
    draws = torch.rand(size, steps, generator=rng).masked_fill(~valid, 2.0)
    kept = (draws < keep) | (draws == draws.min(dim=1, keepdim=True).values)
    lengths = kept.sum(dim=1)
    # A stable sort moves the remaining steps to the front in order.
    at = (~kept).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(lengths.max())]
    padding = torch.arange(at.shape[1]) >= lengths[:, None]
    gaps = torch.ones(size, steps) if batch.dt is None else batch.dt
    times = gaps.double().cumsum(dim=1).gather(1, at)
    dt = times.diff(dim=1, prepend=torch.zeros(size, 1, dtype=times.dtype)).to(gaps.dtype)

    def taken(values: Tensor | None, empty: float) -> Tensor | None:
        if values is None:
            return None
        index = at.reshape(*at.shape, *[1] * (values.dim() - 2)).expand(*at.shape, *values.shape[2:])
        picked = values.gather(1, index)
        picked[padding] = empty
        return picked

    x = taken(batch.x, 0)
    assert x is not None
    target = batch.target
    if target is not None and per_step:
        target = taken(target, float("nan") if target.dtype.is_floating_point else UNKNOWN)
    dt, observed = dt.masked_fill(padding, 0), taken(batch.observed, 0)
    return Batch(x, lengths, dt, observed, target, batch.rows, batch.weights, batch.static, batch.series)


def shifted(batch: Batch, most: int, rng: torch.Generator) -> Batch:
    """Moves the values of each series by up to `most` steps at random; the times of the steps stay.

    Example:
        >>> x = torch.arange(8.0).reshape(1, 8, 1)
        >>> batch = Batch(x, torch.tensor([6]), None, None, None, torch.arange(1))
        >>> shifted(batch, 2, torch.Generator().manual_seed(1)).x.flatten().tolist()
        [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 6.0, 7.0]
    """
    size, steps = batch.x.shape[:2]
    moves = torch.randint(-most, most + 1, (size, 1), generator=rng)
    at, last = torch.arange(steps).expand(size, steps), batch.lengths[:, None] - 1
    source = torch.where(at <= last, (at + moves).clamp(min=0).minimum(last), at)

    def moved(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.gather(1, source[..., None].expand_as(values))

    x = moved(batch.x)
    assert x is not None
    return batch._replace(x=x, observed=moved(batch.observed))


def jittered(batch: Batch, scale: float, rng: torch.Generator) -> Batch:
    """Shifts and stretches every channel of each series at random; padding and missing values stay 0.

    Example:
        >>> batch = Batch(torch.ones(2, 3, 1), torch.tensor([3, 3]), None, None, None, torch.arange(2))
        >>> x = jittered(batch, 0.1, torch.Generator().manual_seed(0)).x
        >>> bool((x[:, 1:] == x[:, :1]).all()), bool(x[0, 0] == x[1, 0])
        (True, False)
    """
    draws = scale * torch.randn(2, len(batch.x), 1, batch.x.shape[2], generator=rng, dtype=batch.x.dtype)
    present = (torch.arange(batch.x.shape[1]) < batch.lengths[:, None])[..., None]
    if batch.observed is not None:
        present = present & batch.observed
    return batch._replace(x=torch.where(present, batch.x * (1 + draws[0]) + draws[1], batch.x))


def pieces(batch: Batch, steps: int, *, per_step: bool) -> Iterator[tuple[Batch, Tensor, Tensor]]:
    """Yields a batch in pieces of `steps` steps: (piece, which series of the previous piece are in it, its target).

    A target of the whole series belongs to the piece in which the series ends; before that it is unknown.
    """
    assert batch.target is not None
    inside = torch.ones_like(batch.lengths, dtype=torch.bool)
    for start in range(0, batch.x.shape[1], steps):
        now = batch.lengths > start
        alive, inside = now[inside], now
        end = start + steps
        lengths = (batch.lengths[now] - start).clamp(max=steps)
        dt, observed = (None if values is None else values[now, start:end] for values in (batch.dt, batch.observed))
        if per_step:
            target = batch.target[now, start:end]
        else:
            empty = float("nan") if batch.target.dtype.is_floating_point else UNKNOWN
            target = batch.target[now].clone()
            target[batch.lengths[now] > end] = empty
        weights = None if batch.weights is None else batch.weights[now]
        piece = Batch(batch.x[now, start:end], lengths, dt, observed, target, batch.rows[now], weights)
        yield piece, alive, target


def evaluation_batches(data: Sequences, most_steps: int) -> Iterator[Batch]:
    """Yields all series by length, in batches of up to `most_steps` steps including padding (longer series alone)."""
    batches = map(data.batch, _by_length(data.lengths, most_steps))
    yield from ahead(batches) if data.is_stored else batches


def _by_length(lengths: NDArray[np.int64], most_steps: int) -> Iterator[NDArray[np.int64]]:
    """Yields the rows of the batches of `evaluation_batches`."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end + 1 - start) * lengths[order[end]] > most_steps:
            yield order[start:end]
            start = end
