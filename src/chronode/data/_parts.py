"""Parts: series divided into training, validation and test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._scaling import Scaler
from ._sequences import Sequences


@dataclass(frozen=True)
class Parts:
    """The series of a task.

    Attributes:
        train: Training series.
        valid: Validation series.
        test: Test series.
        scaler: Scaler applied to the values, fitted on `train`; None if they are not scaled.
        fresh: For synthetic tasks: returns the training series of epoch 0, 1, ...; `train` is that of epoch 0.
        vectors: `(symbols, size)` initial word vectors, with NaN rows for words without a vector.
    """

    train: Sequences
    valid: Sequences
    test: Sequences
    scaler: Scaler | None = None
    fresh: Callable[[int], Sequences] | None = None
    vectors: NDArray[np.float32] | None = None
