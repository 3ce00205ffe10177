"""The small digits data set of scikit-learn as series: tasks without a download."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, split
from ._parts import add, equal_series
from .images import digit, digit_events

PIXELS = 64
WHITE = 16


def digits_series() -> Sequences:
    """Returns 1,797 images of 8 x 8 pixels as series of pixels in [0, 1].

    Example:
        >>> digits_series()
        Sequences(1,797 series, 115,008 steps, 1 channels, target='digit')
    """
    images, labels = _load()
    return equal_series((images / WHITE).astype(np.float32)[..., None], digit(labels), ("pixel",))


def digits_events() -> Sequences:
    """Returns the same as bits (brighter than half), encoded as events; an image is one unit of time.

    Example:
        >>> digits_events()[0].dt.sum().item()
        1.0
    """
    images, labels = _load()
    return digit_events(images > WHITE / 2, labels, PIXELS)


def _load() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns (images `(N, 64)` with values 0 to 16, labels)."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return np.asarray(images), np.asarray(labels)


def _make(series: Callable[[], Sequences], protocol: str, seed: int) -> Parts:
    train, valid, test = split(series(), seed=seed)
    return Parts(train, valid, test)


add("digits-seq", partial(_make, digits_series))
add("digits-event", partial(_make, digits_events))
