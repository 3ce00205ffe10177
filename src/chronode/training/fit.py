"""The training loop: classification of series."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..data import Sequences, batches_by_length


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training data gave."""

    number: int
    loss: float
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Settings:
    """How to train."""

    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 5e-3
    clip: float = 1.0
    seed: int = 0


def fit(
    model: nn.Module,
    train: Sequences,
    valid: Sequences,
    settings: Settings,
    on_batch: Callable[[int, int, float], None] | None = None,
) -> Iterator[Epoch]:
    """Trains by Adam on the cross entropy; yields after every epoch.

    Args:
        model: gives logits for `(x, dt=, lengths=)`.
        train: what to learn from.
        valid: what to measure on.
        settings: how to train.
        on_batch: called with (batches done, batches in all, loss) for progress displays.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    dice = torch.Generator().manual_seed(settings.seed)
    for number in range(1, settings.epochs + 1):
        start, losses = time.perf_counter(), []
        model.train()
        batches = batches_by_length(train.lengths, settings.batch_size, dice)
        for done, rows in enumerate(batches, start=1):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(*_logits(model, train, rows))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            losses.append(loss.item())
            if on_batch:
                on_batch(done, len(batches), losses[-1])
        seconds = time.perf_counter() - start
        yield Epoch(number, sum(losses) / len(losses), accuracy(model, valid), seconds)


@torch.no_grad()
def accuracy(model: nn.Module, data: Sequences, batch_size: int = 2048) -> float:
    """The share of series whose class is found."""
    model.eval()
    right = 0
    for rows in torch.tensor(data.lengths).argsort().split(batch_size):
        logits, target = _logits(model, data, rows)
        right += int((logits.argmax(-1) == target).sum())
    return right / len(data)


def _logits(model: nn.Module, data: Sequences, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The model's answer and the right one."""
    batch = data.batch(rows)
    assert batch.target is not None
    return model(batch.x, **batch.times), batch.target
