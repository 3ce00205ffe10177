"""Rows of an array in a file, which are read when they are used."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Change = Callable[[NDArray[Any]], NDArray[Any]]


class StoredRows:
    """Array in a file in place of one in memory: indexing returns the rows in memory, and nothing else stays there.

    Args:
        path: File with the numbers, row by row.
        dtype: Their type.
        shape: Shape of the array.
        offset: Bytes before the first row.
        complete: Whether no number is NaN.
        change: Function of the rows `(N, ...)` that are read, such as scaling; it returns as many rows.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows"
        >>> np.arange(8.0).tofile(path)
        >>> rows = StoredRows(path, "float64", (4, 2)).changed(lambda values: values * 10)
        >>> rows[1:3].tolist(), rows[[3, 0]][:, 1].tolist(), rows.ranges(np.array([2]), np.array([1])).tolist()
        ([[20.0, 30.0], [40.0, 50.0]], [70.0, 10.0], [[40.0, 50.0]])
    """

    def __init__(
        self,
        path: Path,
        dtype: DTypeLike,
        shape: tuple[int, ...],
        offset: int = 0,
        *,
        complete: bool = False,
        change: Change | None = None,
    ):
        self.path, self.dtype, self.shape, self.offset = path, np.dtype(dtype), shape, offset
        self.complete, self.change = complete, change
        self._file = path.open("rb", buffering=0)

    def __reduce__(self) -> Any:
        return _again, (self.path, self.dtype.str, self.shape, self.offset, self.complete, self.change)

    def __len__(self) -> int:
        return self.shape[0]

    def __mul__(self, factor: float) -> StoredRows:
        return self.changed(_Times(factor))

    def __truediv__(self, divisor: float) -> StoredRows:
        return self.changed(_Over(divisor))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def changed(self, change: Change) -> StoredRows:
        """Returns the same rows, with another change after those that they have."""
        before = self.change
        both = change if before is None else _Both(before, change)
        return StoredRows(self.path, self.dtype, self.shape, self.offset, complete=self.complete, change=both)

    def ranges(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[Any]:
        """Reads ranges of rows, one after the other; threads do not wait for one another meanwhile."""
        rows = np.empty((int(lengths.sum()), *self.shape[1:]), self.dtype)
        row_size, buffer = self.dtype.itemsize * int(np.prod(self.shape[1:])), rows.data.cast("B")
        filled = 0
        for first, size in zip(*_joined(starts, lengths), strict=True):
            end, position = filled + size * row_size, self.offset + first * row_size
            while filled < end:
                count = os.preadv(self._file.fileno(), [buffer[filled:end]], position)
                if not count:
                    raise ValueError(f"{self.path} has been truncated: it ends before row {first + size:,}.")
                filled, position = filled + count, position + count
        return rows if self.change is None else self.change(rows)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows, others = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, end, _ = rows.indices(len(self))
            values = self.ranges(np.array([first]), np.array([max(end - first, 0)]))
        else:
            chosen = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
            # A mapping of its own: what was read does not stay in memory.
            mapped = np.memmap(self._file, self.dtype, "r", self.offset, self.shape)
            values = np.asarray(mapped[chosen]).reshape(-1, *self.shape[1:])
            values = (values if self.change is None else self.change(values)).reshape(*chosen.shape, *self.shape[1:])
        return values[(slice(None), *others)] if others else values

    def take(self, indices: NDArray[Any], axis: int = 0) -> NDArray[Any]:
        """Reads rows by number, as `numpy.take` does."""
        assert axis == 0
        return self[np.asarray(indices)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:] if dtype is None else self[:].astype(dtype)


@dataclass(frozen=True)
class _Both:
    """Two changes, one after the other; it can be pickled."""

    first: Change
    then: Change

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        return self.then(self.first(rows))


@dataclass(frozen=True)
class _Times:
    factor: float

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows * self.factor


@dataclass(frozen=True)
class _Over:
    divisor: float

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows / self.divisor


def _again(path: Path, dtype: str, shape: tuple[int, ...], offset: int, complete: bool, change: Any) -> StoredRows:
    return StoredRows(path, dtype, shape, offset, complete=complete, change=change)


def _joined(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Returns the ranges with those that follow one another joined.

    Example:
        >>> _joined(np.array([0, 3, 9]), np.array([3, 2, 1]))
        ([0, 9], [5, 1])
    """
    breaks = np.flatnonzero(starts[1:] != starts[:-1] + lengths[:-1]) + 1
    firsts = np.concatenate([[0], breaks]).astype(np.int64) if len(starts) else np.zeros(0, np.int64)
    sizes = np.add.reduceat(lengths, firsts) if len(starts) else lengths
    return starts[firsts].tolist(), sizes.tolist()
