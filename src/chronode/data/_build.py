"""Final steps shared by all constructors: value checks, channel checks, names and ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..settings import one_of
from ._names import counted, distinct, listed

CONSTANT = "constant, kept"
"""Remark on a channel with a single value."""
EMPTY = ("drop", "error", "keep")


def value_type(dtype: DTypeLike, *, symbols: bool = False) -> np.dtype[Any]:
    """Checks a dtype: float32 or float64; int32 or int64 if values may be symbols."""
    known = ("float32", "float64", "int32", "int64") if symbols else ("float32", "float64")
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    return np.dtype(one_of("dtype", name, known))


def cast(values: NDArray[Any], dtype: np.dtype[Any], where: Callable[[int], str]) -> NDArray[Any]:
    """Converts the values of one channel to `dtype`; infinite or too large values are errors that name the place."""
    with np.errstate(over="ignore"):
        fit = values.astype(dtype, copy=False)
    wrong = np.isinf(fit)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        if np.isinf(values[at]):
            raise ValueError(
                f"{where(at)} is infinite ({counted(int(wrong.sum()), 'such value')}): leave it empty or correct it."
            )
        raise ValueError(f"{where(at)} is {values[at]:g}, too large for {dtype}: use dtype='float64' or rescale it.")
    return fit


def look_at_channels(
    values: NDArray[Any], channels: Sequence[str], empty: str
) -> tuple[NDArray[Any], tuple[str, ...], list[str]]:
    """Returns (values, channels, notes): constant channels are noted; empty ones are dropped, kept or rejected."""
    one_of("empty", empty, EMPTY)
    if values.dtype.kind != "f":
        return values, tuple(channels), []
    gone, constant = [], []
    for i, name in enumerate(channels):
        column = values[:, i]
        low, high = np.fmin.reduce(column), np.fmax.reduce(column)
        if np.isnan(low):
            gone.append(i)
        elif low == high and int((~np.isnan(column)).sum()) > 1:
            constant.append(f"{name} = {low:g}")
    notes = [f"{CONSTANT}: {', '.join(constant[:12])}{', ...' if len(constant) > 12 else ''}."] if constant else []
    if not gone:
        return values, tuple(channels), notes
    names = listed(channels[i] for i in gone)
    if empty == "error":
        raise ValueError(f"no values in {names}: leave these columns out, or use empty='drop' or 'keep'.")
    if empty == "keep":
        return values, tuple(channels), [*notes, f"no values in {names}: kept, missing everywhere."]
    if len(gone) == len(channels):
        raise ValueError(f"no values in {names}: there is nothing to learn from.")
    left = [i for i in range(len(channels)) if i not in set(gone)]
    notes.append(f"no values in {names}: dropped.")
    return np.ascontiguousarray(values[:, left]), tuple(channels[i] for i in left), notes


def names_of(channels: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Returns the names of the channels; x0, x1, ... by default."""
    if channels is None:
        return tuple(f"x{i}" for i in range(count))
    names = distinct("channels", channels)
    if len(names) != count:
        raise ValueError(f"channels has {len(names)} names for {count} channels.")
    return names


def ids_of(argument: str, given: ArrayLike | None, count: int) -> NDArray[Any]:
    """Returns `(N,)` ids or groups as int64 or text; 0, 1, ... by default."""
    if given is None:
        return np.arange(count)
    array = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(f"{argument} must have one entry per series ({count}), got shape {array.shape}.")
    return plain(array)


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """Converts ids to int64 if they are whole numbers, otherwise to text."""
    if array.dtype.kind in "iu" and (array.dtype != np.uint64 or not array.size or array.max() < 2**63):
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array.copy()
    return np.array([str(v) for v in array.tolist()], dtype=str)
