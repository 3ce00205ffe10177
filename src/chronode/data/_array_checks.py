"""Checks of arrays passed by the user; errors name the wrong part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def place(step: int, lengths: NDArray[np.int64]) -> str:
    """Returns the position of a step of the flat arrays, such as "series[2], step 5"."""
    ends = np.cumsum(lengths)
    series = int(np.searchsorted(ends, step, side="right"))
    return f"series[{series}], step {step - int(ends[series] - lengths[series])}"


def numeric(name: str, given: ArrayLike) -> NDArray[Any]:
    """Converts `given` to an array of numbers."""
    try:
        array = np.asarray(given)
        array = array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not an array of numbers: {error}.") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}.")
    return array


def two_axes(index: int, given: ArrayLike) -> NDArray[Any]:
    """Returns one series as `(steps, channels)`."""
    part = numeric(f"series[{index}]", given)
    part = part[:, None] if part.ndim == 1 else part
    if part.ndim != 2 or part.shape[1] == 0:
        raise ValueError(f"series[{index}] must have shape (steps, channels), got {part.shape}.")
    if not len(part):
        raise ValueError(f"series[{index}] has no observations: remove it.")
    return part


def matching(name: str, given: Sequence[Any] | NDArray[Any], lengths: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Returns one array per series, each with a row per step."""
    if len(given) != len(lengths):
        raise ValueError(f"{name} has {len(given)} parts for {len(lengths)} series.")
    pieces = [np.asarray(piece) for piece in given]
    for i, (piece, length) in enumerate(zip(pieces, lengths.tolist(), strict=True)):
        if piece.ndim == 0 or len(piece) != length:
            raise ValueError(f"{name}[{i}] must have a row for each of the {length} steps, got shape {piece.shape}.")
    return pieces


def is_per_step(target: Sequence[Any] | NDArray[Any], lengths: NDArray[np.int64]) -> bool:
    """Returns whether the target has, for each series, as many rows as steps."""
    sizes = [-1 if isinstance(row, str) or np.ndim(row) == 0 else len(row) for row in target]
    return sizes == lengths.tolist()


def inside_of(lengths: ArrayLike | None, count: int, steps: int) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Returns (lengths, mask of the steps that are not padding, or None for all)."""
    if lengths is None:
        return np.full(count, steps, dtype=np.int64), None
    sizes = np.asarray(lengths)
    if sizes.shape != (count,) or sizes.dtype.kind not in "iu":
        raise ValueError(f"lengths must be {count} whole numbers, one per series; got {sizes.dtype} {sizes.shape}.")
    if sizes.min() < 1 or sizes.max() > steps:
        row = int(np.flatnonzero((sizes < 1) | (sizes > steps))[0])
        raise ValueError(f"lengths[{row}] is {sizes[row]}; each must be from 1 to {steps}.")
    return sizes.astype(np.int64), np.arange(steps) < sizes[:, None]
