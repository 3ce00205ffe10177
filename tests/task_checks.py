"""Helpers of the tests of tasks: publishers' files where there are any, and what must hold for every task's parts."""

import os
from itertools import combinations
from pathlib import Path

import pytest
import torch

import chronode
from chronode.lab.tasks import Parts, Task


def mirrored(name: str) -> pytest.MarkDecorator:
    """Skips a test where the publisher's files of `name` are not available."""
    top = os.environ.get("CHRONODE_DATA_MIRROR")
    there = top is not None and (Path(top) / name).is_dir()
    return pytest.mark.skipif(not there, reason=f"CHRONODE_DATA_MIRROR has no folder {name}")


def check_parts(task: Task, parts: Parts, *, whole: bool = False) -> None:
    """The parts are of the task's kind and share no group; with `whole` they have the task's sizes."""
    every = (parts.train, parts.valid, parts.test)
    for part in every:
        assert part.num_channels == task.sizes.channels
        assert part.channels == parts.train.channels
        assert part.classes == parts.train.classes
        assert (len(part.classes) if part.classes else None) == task.sizes.classes or not whole
        assert (part.classes is not None) == (task.loss == "cross_entropy")
    for one, other in combinations(every, 2):
        assert not set(one.groups.tolist()) & set(other.groups.tolist())
    if whole:
        assert [len(part) for part in every] == [task.sizes.train, task.sizes.valid, task.sizes.test]
        assert max(int(part.lengths.max()) for part in every) == task.sizes.steps


def check_batch(parts: Parts) -> None:
    """One batch goes through a model, which says something finite of every step."""
    batch = parts.train.batch(range(min(4, len(parts.train))))
    layer = chronode.create("mmrnn", parts.train.num_channels, 8)
    with torch.no_grad():
        y, _ = layer(
            batch.x[:, :200], **{n: v[:, :200] if v.ndim > 1 else v.clip(max=200) for n, v in batch.times.items()}
        )
    assert y.shape[-1] == 8
    assert torch.isfinite(y).all()
