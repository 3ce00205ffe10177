"""Static columns: one value per series, taken out of the channels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._names import known_columns


def split_static(
    values: NDArray[Any],
    channels: Sequence[str],
    lengths: NDArray[np.int64],
    ids: NDArray[Any],
    columns: Sequence[str],
    categories: Collection[str],
) -> tuple[NDArray[Any], tuple[str, ...], NDArray[Any] | None, tuple[str, ...]]:
    """Returns (values and names of the channels, one value per series `(N, S)` and names of the static columns).

    A static value is unknown (NaN) if a series has none. Missing values beside a known one do not matter.

    Args:
        values: `(steps, D)` values of all series, one after the other.
        channels: Names of all D columns.
        lengths: Number of steps of each series.
        ids: Ids of the series, for messages.
        columns: Names of the static columns; a text column has a channel "name=text" for each of its texts.
        categories: Text columns.

    Example:
        >>> values = np.array([[1.0, 60.0], [2.0, np.nan], [3.0, 70.0]])
        >>> split_static(values, ["x", "age"], np.array([2, 1]), np.array(["a", "b"]), ["age"], [])[2].tolist()
        [[60.0], [70.0]]
    """
    if not columns:
        return values, tuple(channels), None, ()
    known_columns(columns, list(dict.fromkeys(_column(name, categories) for name in channels)), "static")
    chosen = [i for i, name in enumerate(channels) if _column(name, categories) in columns]
    left = [i for i in range(len(channels)) if i not in set(chosen)]
    if not left:
        raise ValueError("all value columns are static: a series needs at least one that changes over time.")
    static_values = one_per_series(values[:, chosen], [channels[i] for i in chosen], lengths, ids, categories)
    names = tuple(channels[i] for i in chosen)
    return np.ascontiguousarray(values[:, left]), tuple(channels[i] for i in left), static_values, names


def one_per_series(
    values: NDArray[Any],
    names: Sequence[str],
    lengths: NDArray[np.int64],
    ids: NDArray[Any],
    categories: Collection[str],
) -> NDArray[Any]:
    """Returns the only known value of each series `(N, S)`, NaN if it has none, of columns `(steps, S)`."""
    starts = np.cumsum(lengths) - lengths
    result = np.empty((len(lengths), len(names)), dtype=values.dtype)
    for index, name in enumerate(names):
        low, high = np.fmin.reduceat(values[:, index], starts), np.fmax.reduceat(values[:, index], starts)
        if (low < high).any():
            series, column = int((low < high).argmax()), _column(name, categories)
            both = "more than one text" if column in categories else f"the values {low[series]:g} and {high[series]:g}"
            raise ValueError(
                f"static={column!r}: series {ids[series]!s} has {both}, but a static column has one value per series. "
                "Leave it out of static to use it as a channel."
            )
        result[:, index] = low
    return result


def source_columns(names: Sequence[str], categories: Collection[str]) -> list[str]:
    """Returns the columns that channels or static values come from, each once."""
    return list(dict.fromkeys(_column(name, categories) for name in names))


def _column(name: str, categories: Collection[str]) -> str:
    return next((column for column in categories if name == column or name.startswith(f"{column}=")), name)
