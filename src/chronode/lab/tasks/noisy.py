"""Images row by row, followed by noise: the input must be remembered for almost a thousand steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data import Batch, Parts, Sequences, Target
from ...settings import one_of
from ..datasets._download import folder
from ._image_files import CIFAR_CLASSES, cifar10, mnist
from ._parts import add, equal_series
from .images import VALID, held_out, in_unit, row_series

LENGTH = 1000
KINDS = ("normal", "uniform")
TRAIN_FILE, TEST_FILE, ALL_FILES = range(3)
CIFAR_SIDE = 32
CIFAR_VALID = 3 / 50


@dataclass(frozen=True)
class NoiseRows:
    """Appends steps of noise to each image of a batch, up to 1000; a series always gets the same noise.

    Stored, the noise for MNIST would take 6.5 GB. It is drawn from Philox, a generator whose stream is a function of
    a key, here (seed, file, id), and has 65,536 equally likely values at the quantiles of its distribution: 16 bits
    per number, so that a batch takes milliseconds.

    Attributes:
        seed: Seed of the noise.
        file: Number of the file to which the ids belong.
        kind: "normal": N(0, 1); "uniform": U[0, 1].
        shared: Whether all series of all parts have the same noise.
        length: Steps of image and noise together.

    Example:
        >>> image = Batch(torch.ones(2, 28, 28), torch.tensor([28, 28]), None, None, None, torch.arange(2))
        >>> noisy = NoiseRows(seed=0, file=0)(image, np.array([5, 9]))
        >>> noisy.x.shape, noisy.lengths.tolist(), bool((noisy.x[:, :28] == 1).all())
        (torch.Size([2, 1000, 28]), [1000, 1000], True)
    """

    seed: int
    file: int
    kind: str = "normal"
    shared: bool = False
    length: int = LENGTH

    def __call__(self, batch: Batch, ids: NDArray[Any]) -> Batch:
        """Returns the batch with noise after each of its series."""
        count, steps, width = batch.x.shape
        x = batch.x.new_empty(count, self.length, width)
        x[:, :steps] = batch.x
        if self.shared:
            x[:, steps:] = self._fill(x.new_empty(self.length - steps, width), ALL_FILES << 32)
        else:
            for row, number in zip(x, ids.tolist(), strict=True):
                self._fill(row[steps:], (self.file << 32) + number)
        return batch._replace(x=x, lengths=torch.full_like(batch.lengths, self.length))

    def _fill(self, rows: Tensor, key_part: int) -> Tensor:
        """Fills `rows` with the noise of this position in the file."""
        size = rows.numel()
        key = np.array([self.seed % 2**64, key_part], dtype=np.uint64)
        words = np.random.Philox(key=key).random_raw(-(-size // 4))
        rows.copy_(torch.from_numpy(words.view(np.int16)[:size]).view_as(rows)).add_(0.5)
        if self.kind == "uniform":
            return rows.mul_(2.0**-16).add_(0.5)
        return rows.mul_(2.0**-15).erfinv_().mul_(math.sqrt(2))


def plane_rows(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Sequences:
    """Creates series from CIFAR images `(N, 3, 32, 32)`: a step is a red, a green and a blue row, 96 values in [0,
    1].
    """
    rows = in_unit(images.transpose(0, 2, 1, 3).reshape(len(images), CIFAR_SIDE, -1))
    channels = tuple(f"{color} {i}" for color in ("red", "green", "blue") for i in range(CIFAR_SIDE))
    target = Target(labels.astype(np.int32), classes=CIFAR_CLASSES, names=("object",))
    return equal_series(rows, target, channels)


def _finished(parts: Parts, protocol: str, seed: int, noise: str) -> Parts:
    """Returns the parts with noise after every series."""
    touch = NoiseRows(seed, TRAIN_FILE, one_of("noise", noise, KINDS), shared=protocol == "paper")
    of_test = replace(touch, file=TEST_FILE)
    note = f"{noise} noise is added after every image, up to {LENGTH} steps."

    def touched(part: Sequences, finish: NoiseRows) -> Sequences:
        return replace(part, finish=finish).with_notes(note)

    return Parts(touched(parts.train, touch), touched(parts.valid, touch), touched(parts.test, of_test))


def _mnist(protocol: str, seed: int, *, noise: str) -> Parts:
    files = mnist(folder("mnist"))
    train, test = row_series(files.train, files.train_labels), row_series(files.test, files.test_labels)
    return _finished(Parts(*held_out(train, VALID, seed), test), protocol, seed, noise)


def _cifar(protocol: str, seed: int, *, noise: str) -> Parts:
    files = cifar10(folder("cifar10"))
    every = plane_rows(files.train, files.train_labels).with_notes(*files.notes)
    test = plane_rows(files.test, files.test_labels)
    return _finished(Parts(*held_out(every, CIFAR_VALID, seed), test), protocol, seed, noise)


add("noisy-mnist", _mnist)
add("noisy-cifar", _cifar)
