"""Sequences: ragged series with times, values, targets and ids; the common type of all data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..system import drawn
from ._gaps import Gaps
from ._names import listed
from ._stored_rows import StoredRows
from ._target import ClassNames, Target
from ._times import STEPS, Clock, median_gap

if TYPE_CHECKING:  # files are read, and mistakes answered, before torch is imported
    from torch import Tensor

    from ._batches import Batch
    from ._describe import Facts

    Rows = slice | Sequence[int] | Sequence[bool] | NDArray[Any] | Tensor


_SAMPLED_NUMBERS = 8_000_000


class Series(NamedTuple):
    """A single series: values `(T, D)` with NaN where missing, times `(T,)`, dt `(T,)`, its target(s), id, group and
    static values.
    """

    values: NDArray[Any]
    times: NDArray[np.float64]
    dt: NDArray[np.float64]
    target: NDArray[Any] | None
    id: str | int
    group: str | int
    static: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Sequences:
    """Immutable series of unequal length, made by `from_numpy`, `from_list`, `from_long`, `read`, ...

    All series are stored in flat arrays; a series is a start and a length in them, so that parts, splits and
    overlapping windows copy nothing. Missing values are NaN. Supports `len(s)`, `s[3]` (a `Series`), `s[2:5]`, `s[[4,
    1]]`, `s[mask]` (Sequences) and `for series in s`.

    Attributes:
        base_values: `(rows, D)` float32 or float64, or int32/int64 for symbols; contains the values of all series. The
            values and times of a store stay in its files, as `StoredRows`.
        base_times: `(rows,)` in the unit of the clock; None if there are no times: dt is then 1 everywhere.
        starts: `(N,)` first row of each series.
        lengths: `(N,)` number of steps of each series.
        ids: `(N,)` int64 or text.
        groups: `(N,)` groups that must not be divided between training and test; the ids by default.
        lead: `(N,)` dt of the first step of each series; None for 0 (no earlier observation).
        target: Target; None if there is none.
        channels: The D channel names.
        clock: Meaning of the times.
        categories: For text columns that became numbers: column -> its texts.
        notes: Changes made to the data while reading, one line each.
        rows: Number of rows of the table from which all these series were read; None for arrays and for parts.
        static: `(N, S)` values that do not change over time, NaN where unknown; None if there are none.
        static_names: Names of the S static values.
        weights: `(N,)` weights of the series in losses and metrics; None for equal weights.
        gaps: Rule that shortens long gaps in `dt`; None to leave them. Times stay as they are.
        finish: `finish(batch, ids)` completes every batch (with noise that would need too much memory if it were
            stored); the same ids must always give the same result.
        keys: `(N,)` number of the series that a window to forecast from belongs to, by which maps of its own are found
            (`series_keys`); None for other series.
        unnamed: Whether the ids are only positions in arrays.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[[1.0], [2.0]], [[3.0], [4.0], [5.0]]], times=[[0, 2], [0, 1, 4]], target=["a", "b"])
        >>> batch = s.batch()
        >>> batch.x.shape, batch.dt.tolist(), batch.target.tolist()
        (torch.Size([2, 3, 1]), [[0.0, 2.0, 0.0], [0.0, 1.0, 3.0]], [0, 1])
    """

    base_values: NDArray[Any]
    base_times: NDArray[np.float64] | None
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ids: NDArray[Any]
    groups: NDArray[Any]
    lead: NDArray[np.float64] | None = None
    target: Target | None = None
    channels: tuple[str, ...] = ()
    clock: Clock = STEPS
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rows: int | None = None
    static: NDArray[Any] | None = None
    static_names: tuple[str, ...] = ()
    weights: NDArray[np.float32] | None = None
    gaps: Gaps | None = None
    finish: Callable[[Batch, NDArray[Any]], Batch] | None = None
    keys: NDArray[np.int64] | None = None
    unnamed: bool = False

    def __post_init__(self) -> None:
        rows, count = len(self.base_values), len(self.starts)
        target = None if self.target is None else len(self.target.values)
        expected = rows if self.target is not None and self.target.per_step else count
        fits = (
            self.base_values.ndim == 2
            and self.base_values.shape[1] == len(self.channels)
            and (self.base_times is None or self.base_times.shape == (rows,))
            and all(a.shape == (count,) for a in (self.lengths, self.ids, self.groups))
            and all(array is None or array.shape == (count,) for array in (self.lead, self.weights, self.keys))
            and target in (None, expected)
            and (() if self.static is None else self.static.shape)
            == ((count, size) if (size := self.num_static) else ())
        )
        if not fits or (count and (self.starts.min() < 0 or (self.starts + self.lengths).max() > rows)):
            raise ValueError("the arrays of these sequences do not match.")
        if count and self.lengths.min() < 1:
            raise ValueError(f"series {self.ids[int(self.lengths.argmin())]!s} has no observations.")
        for array in (self.base_values, self.base_times, self.starts, self.lengths, self.ids, self.groups, self.lead):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        if self.target is not None:
            self.target.values.flags.writeable = False

    # ---- parts ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, rows: int) -> Series: ...
    @overload
    def __getitem__(self, rows: Rows) -> Sequences: ...
    def __getitem__(self, rows: int | Rows) -> Series | Sequences:
        if isinstance(rows, (int, np.integer)):
            return self._series(int(rows))
        picked = self._picked(rows)
        target = self.target if self.target is None or self.target.per_step else self.target.take(picked)
        names = ("starts", "lengths", "ids", "groups", "lead", "static", "weights", "keys")
        arrays = {name: None if (array := getattr(self, name)) is None else array[picked] for name in names}
        return replace(self, target=target, rows=None, **arrays)

    def __iter__(self) -> Iterator[Series]:
        return (self._series(row) for row in range(len(self)))

    def labeled(self) -> Sequences:
        """Returns the series with a target; for targets per step, with a target at some step."""
        if self.target is None:
            return self[:0]
        has_target = self.target.known
        if self.target.per_step:
            sums = np.concatenate([[0], np.cumsum(has_target)])
            has_target = sums[self.starts + self.lengths] > sums[self.starts]
        return self[has_target]

    def target_weights(self) -> NDArray[np.float64] | None:
        """Returns the weight of the target of each series, or of each step, relative to the mean weight of the series;
        None for equal weights.
        """
        if self.weights is None or self.target is None:
            return None
        weights = self.weights.astype(np.float64)
        weights = weights / max(float(weights.mean()), 1e-300)
        return np.repeat(weights, self.lengths) if self.target.per_step else weights

    def with_classes(self, classes: ClassNames) -> Sequences:
        """Returns the series with labels numbered as in `classes` (from training); an unseen class is an error."""
        if self.target is None or classes is None:
            return self
        return replace(self, target=self.target.with_classes(classes))

    # ---- series of a store ------------------------------------------------------------------------------

    @property
    def is_stored(self) -> bool:
        """Whether values and times are in the files of a store."""
        return isinstance(self.base_values, StoredRows)

    def loaded(self, rows: Rows | None = None) -> Sequences:
        """Returns these series (all if None) with their values and times in memory, one after the other."""
        s = self if rows is None else self[rows]
        if not isinstance(s.base_values, StoredRows):
            return s
        times = s.base_times
        if isinstance(times, StoredRows):
            times = times.ranges(s.starts, s.lengths)
        target = s.target if s.target is None or not s.target.per_step else s.target.take(s.steps)
        starts = np.cumsum(s.lengths) - s.lengths
        values = s.base_values.ranges(s.starts, s.lengths)
        return replace(s, base_values=values, base_times=times, starts=starts, target=target)

    def chunks(self, steps: int = 1 << 18) -> Iterator[Sequences]:
        """Yields the series in memory, about so many steps at a time."""
        ends = np.cumsum(self.lengths)
        start = 0
        while start < len(self):
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + steps, side="right")))
            yield self.loaded(slice(start, end))
            start = end

    def once(self) -> Sequences:
        """Returns stretches of steps that contain every step of these series once: overlapping windows are joined."""
        order = np.argsort(self.starts, kind="stable")
        starts, ends = self.starts[order], np.maximum.accumulate((self.starts + self.lengths)[order])
        first = np.append(True, starts[1:] > ends[:-1])
        last = np.append(first[1:], True)
        return replace(self[order[first]], starts=starts[first], lengths=ends[last] - starts[first])

    @cached_property
    def sample(self) -> Sequences:
        """The series themselves if they are in memory; otherwise as many as have about 8 million numbers, drawn at
        random and in memory. What describes the series, or decides about them, looks at these.
        """
        most = _SAMPLED_NUMBERS // (self.num_channels + 2)
        if not self.is_stored or int(self.lengths.sum()) <= most:
            return self.loaded()
        # Not a seed by which parts are drawn: the sample would be one of them.
        order = np.random.default_rng(2**31).permutation(len(self))
        count = max(1, int(np.searchsorted(np.cumsum(self.lengths[order]), most, side="right")))
        return self.loaded(np.sort(order[:count]))

    # ---- batches ----------------------------------------------------------------------------------------

    def batch(self, rows: Rows | None = None) -> Batch:
        """Returns these series (all if None) as padded tensors."""
        picked = self._picked(slice(None) if rows is None else rows)
        if not len(picked):
            raise ValueError("a batch needs at least one series.")
        from ._batches import pad

        batch = pad(self, picked)
        return batch if self.finish is None else self.finish(batch, self.ids[picked])

    # ---- all series one after the other -----------------------------------------------------------------

    @property
    def values(self) -> NDArray[Any]:
        """`(steps, D)` values of all series one after the other, NaN where missing (repeated for overlapping
        windows).
        """
        return self.base_values[self.steps]

    @property
    def times(self) -> NDArray[np.float64]:
        """`(steps,)` times of all series one after the other."""
        if self.base_times is not None:
            return self.base_times[self.steps]
        ends = np.cumsum(self.lengths)
        return (np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - self.lengths, self.lengths)).astype(float)

    @property
    def dt(self) -> NDArray[np.float64]:
        """`(steps,)` time since the previous observation of the series, as a model takes it."""
        times = self.times
        if self.base_times is None:
            return np.ones_like(times)
        dt = np.diff(times, prepend=0.0)
        dt[np.cumsum(self.lengths) - self.lengths] = 0 if self.lead is None else self.lead
        return dt if self.gaps is None else self.gaps(dt)

    @property
    def steps(self) -> NDArray[np.int64] | slice:
        """Indices of the steps of all series in the base arrays."""
        ends = np.cumsum(self.lengths)
        if not len(self):
            return slice(0, 0)
        if (self.starts[1:] == self.starts[0] + ends[:-1]).all():
            return slice(int(self.starts[0]), int(self.starts[0] + ends[-1]))
        return np.arange(ends[-1]) + np.repeat(self.starts - (ends - self.lengths), self.lengths)

    @cached_property
    def has_missing(self) -> bool:
        """Whether any value of these series is missing."""
        if self.base_values.dtype.kind != "f" or not len(self):
            return False
        if isinstance(self.base_values, StoredRows):
            return not self.base_values.complete and any(np.isnan(s.base_values).any() for s in self.chunks())
        gone = np.isnan(self.base_values).any(axis=1)
        if not gone.any():
            return False
        sums = np.concatenate([[0], np.cumsum(gone)])
        return bool((sums[self.starts + self.lengths] > sums[self.starts]).any())

    def compact(self) -> Sequences:
        """Returns the series with base arrays in memory that contain nothing else (windows still overlap)."""
        if self.is_stored:
            return self.loaded()
        ends = np.zeros(len(self.base_values) + 1, dtype=np.int64)
        np.add.at(ends, self.starts, 1)
        np.add.at(ends, self.starts + self.lengths, -1)
        used = np.cumsum(ends[:-1]) > 0
        if used.all():
            return self
        positions = np.cumsum(used) - 1
        target = self.target
        if target is not None and target.per_step:
            target = target.take(used)
        times = None if self.base_times is None else self.base_times[used]
        starts = positions[self.starts] if len(self) else self.starts
        return replace(self, base_values=self.base_values[used], base_times=times, starts=starts, target=target)

    # ---- facts and files --------------------------------------------------------------------------------

    @property
    def num_channels(self) -> int:
        """D."""
        return len(self.channels)

    @property
    def num_static(self) -> int:
        """S."""
        return len(self.static_names)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes; None if the target is a number or there is no target."""
        return None if self.target is None else self.target.classes

    @property
    def class_names(self) -> ClassNames:
        """The names of the classes; of several targets with classes among them, those of each."""
        return None if self.target is None else self.target.class_names

    @property
    def by_target(self) -> tuple[Sequences, ...]:
        """The series with each target that has a loss of its own; themselves for a single one."""
        if self.target is None or not self.target.levels:
            return (self,)
        return tuple(replace(self, target=part) for part in self.target.parts)

    def median_gap(self) -> float | None:
        """Returns the median time between observations in the unit of the clock; None if there are no times or no
        gaps.
        """
        if self.base_times is None:
            return None
        if self.is_stored:
            return self.sample.median_gap()
        # Overlapping windows repeat their steps: the first ones, up to the number of rows, are enough.
        some = self[: max(1, int(np.searchsorted(np.cumsum(self.lengths), len(self.base_times), side="right")))]
        return median_gap(some.times, some.lengths)

    def describe(self) -> Facts:
        """Returns a summary: `print(s.describe())`, `s.describe().as_dict()`."""
        from ._describe import facts

        return facts(self)

    def save(self, path: str | Path) -> Path:
        """Writes an .npz file without pickles; `chronode.data.load` reads it."""
        from ._npz import save

        return save(self, path)

    def with_notes(self, *notes: str) -> Sequences:
        """Returns the same series with additional notes."""
        return replace(self, notes=(*self.notes, *notes)) if notes else self

    def __repr__(self) -> str:
        what = "no target" if self.target is None else f"target={self.target.names[0]!r}"
        return (
            f"Sequences({len(self):,} series, {int(self.lengths.sum()):,} steps, {self.num_channels} channels, {what})"
        )

    def _repr_html_(self) -> str:
        return drawn("as_html", self)

    # ---- inside -----------------------------------------------------------------------------------------

    def _picked(self, rows: Rows) -> NDArray[np.int64]:
        """Returns the row numbers for a slice, a mask or indices (negative ones count from the end)."""
        if isinstance(rows, slice):
            return np.arange(len(self))[rows]
        array = rows.numpy(force=True) if hasattr(rows, "detach") else np.asarray(rows)  # pyrefly: ignore
        if array.ndim != 1 or (array.size and array.dtype.kind not in "biu"):
            raise TypeError(f"select series by a slice, a list of indices or a mask, got {type(rows).__name__}.")
        if array.dtype.kind == "b":
            if len(array) != len(self):
                raise IndexError(f"the mask has {len(array)} entries for {len(self)} series.")
            return np.flatnonzero(array)
        array = array.astype(np.int64)
        if array.size and (array.min() < -len(self) or array.max() >= len(self)):
            wrong = array[(array < -len(self)) | (array >= len(self))]
            raise IndexError(f"series {listed(wrong[:1])} does not exist: there are {len(self)}, counted from 0.")
        return np.where(array < 0, array + len(self), array)

    def _series(self, row: int) -> Series:
        (row,) = self._picked([row]).tolist()
        part = slice(int(self.starts[row]), int(self.starts[row] + self.lengths[row]))
        values = self.base_values[part]
        if self.base_times is None:
            times, dt = np.arange(len(values), dtype=np.float64), np.ones(len(values))
        else:
            times = self.base_times[part]
            dt = np.diff(times, prepend=times[:1])
            dt[0] = 0.0 if self.lead is None else self.lead[row]
            dt = dt if self.gaps is None else self.gaps(dt)
        target = self.target
        series_target = None if target is None else target.values[part] if target.per_step else target.values[row]
        static = None if self.static is None else self.static[row]
        return Series(values, times, dt, series_target, self.ids[row].item(), self.groups[row].item(), static)
