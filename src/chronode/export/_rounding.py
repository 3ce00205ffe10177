"""Errors of the predictions that come from rounding the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST_OF_SPREAD = 0.3
"""Rounding that accounts for a tenth of the variance of the predictions has changed what the model predicts."""


@dataclass(frozen=True)
class Rounding:
    """The effect of rounding on predictions.

    Attributes:
        original: `(steps, K)` predictions of the model.
        rounded: `(steps, K)` predictions with the rounded weights.
        tolerances: `(K,)` differences that floating-point arithmetic alone may cause.
        classes: Whether the predictions are class probabilities.
    """

    original: NDArray[np.float32]
    rounded: NDArray[np.float32]
    tolerances: NDArray[np.float64]
    classes: bool

    @property
    def difference(self) -> float:
        """The largest difference."""
        return float(np.abs(self.rounded - self.original).max())

    @property
    def limits(self) -> NDArray[np.float64]:
        """The allowed mean squared difference of each output."""
        spread = np.asarray(self.original, np.float64).std(axis=0)
        return (self.tolerances + _MOST_OF_SPREAD * spread) ** 2

    @property
    def shares(self) -> NDArray[np.float64]:
        """The root mean square of the differences of each output, as a share of the spread of its predictions."""
        squares = (np.asarray(self.rounded, np.float64) - self.original) ** 2
        return _MOST_OF_SPREAD * np.sqrt(squares.mean(axis=0) / self.limits)

    @property
    def is_small(self) -> bool:
        """Whether the predictions are still those of the model."""
        return bool((self.shares <= _MOST_OF_SPREAD).all())

    def text(self) -> str:
        """The effect in one line."""
        parts = [f"largest difference from float32 {self.difference:.3g}"]
        parts.append(f"root mean square {100 * self.shares.max():.2g}% of the spread of the predictions")
        if self.classes:
            same = (self.original.argmax(-1) == self.rounded.argmax(-1)).mean()
            parts.append(f"same class in {100 * same:.4g}% of {len(self.original):,}")
        return ", ".join(parts) + ("" if self.is_small else ": too much, use float32 (`make check` fails)")
