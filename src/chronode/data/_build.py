"""The last steps that all constructors share: values checked, channels looked at, names and ids made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .._checks import one_of
from ._names import distinct, listed

CONSTANT = "constant, kept"
EMPTY = ("drop", "error", "keep")


def value_type(dtype: DTypeLike, *, symbols: bool = False) -> np.dtype[Any]:
    """float32 or float64; int32 or int64 where values may be symbols."""
    known = ("float32", "float64", "int32", "int64") if symbols else ("float32", "float64")
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    return np.dtype(one_of("dtype", name, known))


def cast(values: NDArray[Any], dtype: np.dtype[Any], where: Callable[[int], str]) -> NDArray[Any]:
    """One channel's values in `dtype`; an infinite one or one that does not fit is an error that says where."""
    with np.errstate(over="ignore"):
        fit = values.astype(dtype, copy=False)
    wrong = np.isinf(fit)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        if np.isinf(values[at]):
            raise ValueError(f"{where(at)} is infinite ({int(wrong.sum())} such): leave it empty or correct it.")
        raise ValueError(f"{where(at)} is {values[at]:g}, too large for {dtype}: use dtype='float64' or rescale it.")
    return fit


def look_at_channels(
    values: NDArray[Any], channels: Sequence[str], empty: str
) -> tuple[NDArray[Any], tuple[str, ...], list[str]]:
    """(values, channels, notes): what is constant is noted; what is missing everywhere goes, stays or is an error."""
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
    told = listed(channels[i] for i in gone)
    if empty == "error":
        raise ValueError(f"no value at all in {told}: leave such columns out, or use empty='drop' or 'keep'.")
    if empty == "keep":
        return values, tuple(channels), [*notes, f"no value at all in {told}: kept, missing everywhere."]
    if len(gone) == len(channels):
        raise ValueError(f"no value at all in {told}: there is nothing to learn from.")
    left = [i for i in range(len(channels)) if i not in set(gone)]
    notes.append(f"no value at all in {told}: dropped.")
    return np.ascontiguousarray(values[:, left]), tuple(channels[i] for i in left), notes


def names_of(channels: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The channels' names, x0, x1, ... if none are given."""
    if channels is None:
        return tuple(f"x{i}" for i in range(count))
    told = distinct("channels", channels)
    if len(told) != count:
        raise ValueError(f"channels has {len(told)} names for {count} channels.")
    return told


def ids_of(argument: str, given: ArrayLike | None, count: int) -> NDArray[Any]:
    """`(N,)` ids or groups as int64 or text; 0, 1, ... if none are given."""
    if given is None:
        return np.arange(count)
    array = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(f"{argument} must be one per series: {count}, got shape {array.shape}.")
    return plain(array)


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """Ids as int64 where they are whole numbers, else as text."""
    if array.dtype.kind in "iu" and (array.dtype != np.uint64 or not array.size or array.max() < 2**63):
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array.copy()
    return np.array([str(v) for v in array.tolist()], dtype=str)
