"""Parts of synthetic tasks: new training series for every epoch, fixed validation and test series."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...data import Parts, Sequences
from ...settings import whole

TRAIN, VALID, TEST = range(3)

Draw = Callable[[int, np.random.Generator], Sequences]


def drawn(draw: Draw, seed: int, *, train: int, valid: int, test: int, renewed: bool = True) -> Parts:
    """Creates parts with `draw(count, rng)`; every part and every epoch has its own random generator.

    Args:
        draw: Function that creates `count` series with a random generator.
        seed: Seed of all generators.
        train: Number of training series per epoch.
        valid: Number of validation series.
        test: Number of test series.
        renewed: Whether the training series are new every epoch (`Parts.fresh`).

    Example:
        >>> from chronode.lab.tasks.adding import adding
        >>> parts = drawn(partial(adding, length=10), seed=0, train=4, valid=2, test=2)
        >>> len(parts.train), bool((parts.fresh(1).values == parts.train.values).all())
        (4, False)
    """
    for name, count in (("train", train), ("valid", valid), ("test", test)):
        whole(name, count, at_least=1)
    epoch = partial(_part, draw, train, seed, TRAIN)
    others = _part(draw, valid, seed, VALID), _part(draw, test, seed, TEST)
    return Parts(epoch(0), *others, fresh=epoch if renewed else None)


def _part(draw: Draw, count: int, seed: int, part: int, epoch: int = 0) -> Sequences:
    return draw(count, np.random.default_rng((seed, part, epoch)))
