"""MNIST images as series: pixel by pixel in order or permuted, row by row, or as events."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ...data import Parts, Sequences, Target, from_numpy
from ...settings import flag, one_of
from ..datasets._download import folder
from ._events import encode
from ._image_files import DIGITS, mnist
from ._parts import add, equal_series

SIDE = 28
PIXELS = SIDE * SIDE
THRESHOLD = 128
EVENTS_PER_UNIT = 256
VALID = 1 / 20

Bytes = NDArray[np.uint8]


def pixel_order(name: str) -> NDArray[np.int64]:
    """Returns the order of the 784 pixels in permuted MNIST.

    Args:
        name: "unicornn": torch.randperm with seed 5544, as in the UnICORNN code. "irnn": seed 42; the paper does not
            name the generator and its code is not public: NumPy's `RandomState` is used.

    Example:
        >>> pixel_order("unicornn")[:4].tolist(), pixel_order("irnn")[:4].tolist()
        ([327, 72, 48, 129], [598, 590, 209, 637])
    """
    if one_of("permutation", name, ("unicornn", "irnn")) == "irnn":
        return np.random.RandomState(42).permutation(PIXELS)
    return torch.randperm(PIXELS, generator=torch.Generator().manual_seed(5544)).numpy()


def pixel_series(images: Bytes, labels: Bytes, order: NDArray[np.int64] | None = None) -> Sequences:
    """Creates series with one pixel per step: 784 values in [0, 1], row by row or in `order`."""
    pixels = images.reshape(len(images), PIXELS)
    pixels = pixels if order is None else pixels.take(order, axis=1)
    return equal_series(in_unit(pixels)[..., None], digit(labels), ("pixel",))


def row_series(images: Bytes, labels: Bytes) -> Sequences:
    """Creates series with one row of 28 values in [0, 1] per step."""
    return equal_series(in_unit(images), digit(labels), tuple(f"column {i}" for i in range(images.shape[-1])))


def event_series(images: Bytes, labels: Bytes, *, close: bool = True, gaps: bool = False) -> Sequences:
    """Creates series of bits (pixel > 128), row by row, encoded as events; 256 pixels are one unit of time.

    The authors of mmRNN pad to 256 events and would cut longer series. No MNIST image has more than 106 events, so
    nothing is cut, and series keep their own lengths. Their code does not close the last run.

    Args:
        images: `(N, 28, 28)` images.
        labels: `(N,)` labels.
        close: Whether an additional event marks the end of the last run.
        gaps: Whether the time since the previous event is also a channel, for models that ignore dt.

    Example:
        >>> image = np.zeros((1, 28, 28), dtype=np.uint8)
        >>> image[0, 1, 4:7] = 255
        >>> series = event_series(image, np.array([7], dtype=np.uint8))[0]
        >>> series.values[:, 0].tolist(), (series.dt * 256).tolist()
        ([0.0, 1.0, 0.0, 0.0], [1.0, 32.0, 3.0, 748.0])
    """
    bits = images.reshape(len(images), -1) > THRESHOLD
    return digit_events(bits, labels, EVENTS_PER_UNIT, close=close, gaps=gaps)


def digit_events(
    bits: NDArray[np.bool_], labels: NDArray[np.integer], unit: int, *, close: bool = True, gaps: bool = False
) -> Sequences:
    """Returns series of the changes in `bits (N, pixels)` of digit images, with `unit` pixels per unit of time."""
    events = encode(bits, close=close)
    dt = events.gaps / unit
    return from_numpy(
        np.stack([events.values, dt], axis=-1) if gaps else events.values[..., None],
        order="NTD",
        dt=dt,
        lengths=events.lengths,
        target=labels,
        classes=DIGITS,
        target_names=["digit"],
        channels=["bit", "gap"] if gaps else ["bit"],
    )


def in_unit(pixels: Bytes) -> NDArray[np.float32]:
    """Scales bytes to [0, 1]."""
    return np.divide(pixels, 255, dtype=np.float32)


def digit(labels: NDArray[np.integer]) -> Target:
    """Creates a target from labels 0 to 9."""
    return Target(labels.astype(np.int32), classes=DIGITS, names=("digit",))


def held_out(s: Sequences, share: float, seed: int) -> tuple[Sequences, Sequences]:
    """Returns (the rest, a random `share` of the series); both keep the order of `s`."""
    count = max(1, round(share * len(s)))
    is_held = np.zeros(len(s), dtype=bool)
    is_held[np.random.default_rng(seed).permutation(len(s))[:count]] = True
    return s[~is_held], s[is_held]


def _pixels(protocol: str, seed: int, *, permutation: str | None = None) -> Parts:
    order = None if permutation is None else pixel_order(permutation)
    files = mnist(folder("mnist"))
    train, valid = held_out(pixel_series(files.train, files.train_labels, order), VALID, seed)
    return Parts(train, valid, pixel_series(files.test, files.test_labels, order))


def _rows(protocol: str, seed: int) -> Parts:
    files = mnist(folder("mnist"))
    every = row_series(files.train, files.train_labels)
    last = max(1, len(every) // 10)
    return Parts(every[:-last], every[-last:], row_series(files.test, files.test_labels))


def _events(protocol: str, seed: int, *, gaps: bool) -> Parts:
    files = mnist(folder("mnist"))
    encoding = {"close": protocol == "clean", "gaps": flag("gaps", gaps)}
    train = event_series(files.train, files.train_labels, **encoding)
    test = event_series(files.test, files.test_labels, **encoding)
    return Parts(*held_out(train, VALID, seed), test)


add("smnist", _pixels)
add("psmnist", _pixels)
add("row-mnist", _rows)
add("event-mnist", _events)
