"""Conversion of unordered rows to series: grouped by id, sorted by time, duplicates merged, without loops over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named, one_of
from ._names import counted

DUPLICATES = ("merge", "error", "keep")


@dataclass(frozen=True)
class StepRows:
    """Mapping of rows to steps.

    Attributes:
        order: Row numbers in the order of the steps; None if the rows are in order.
        lengths: `(N,)` steps of each series.
        firsts: First of the ordered rows of each step; None if every row is a step.
        notes: Changes made to the rows, one sentence each.
    """

    order: NDArray[np.int64] | None
    lengths: NDArray[np.int64]
    firsts: NDArray[np.int64] | None
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> NDArray[np.int64]:
        """`(N,)` first step of each series."""
        return np.cumsum(self.lengths) - self.lengths

    def ordered(self, column: NDArray[Any]) -> NDArray[Any]:
        """Returns a column in the order of the steps, without merging."""
        return column if self.order is None else column.take(self.order, axis=0)

    def first(self, column: NDArray[Any]) -> NDArray[Any]:
        """Returns the value of the first row of each step."""
        column = self.ordered(column)
        return column if self.firsts is None else column[self.firsts]

    def mean(self, column: NDArray[Any]) -> NDArray[Any]:
        """Returns the mean of the numbers of each step, ignoring NaN; NaN if there are none."""
        column = self.ordered(column)
        if self.firsts is None:
            return column
        steps, rows, firsts = _repeated(self.firsts, len(column))
        result, column = column[self.firsts], column[rows]
        is_observed = ~np.isnan(column)
        count = np.add.reduceat(is_observed, firsts, dtype=np.int64)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            # Divided before summing, so that the mean of large numbers does not overflow.
            share = np.repeat(count, np.diff(firsts, append=len(column)))
            means = np.add.reduceat(np.where(is_observed, column / share, 0.0), firsts)
            result[steps] = np.where(count > 0, means, np.nan)
        return result

    def last(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Returns the last non-negative code of each step; -1 if there is none."""
        codes = self.ordered(codes)
        if self.firsts is None:
            return codes
        steps, rows, firsts = _repeated(self.firsts, len(codes))
        result, codes = codes[self.firsts], codes[rows]
        row = np.maximum.reduceat(np.where(codes >= 0, np.arange(len(codes)), -1), firsts)
        result[steps] = np.where(row >= 0, codes[row], -1)
        return result

    def unmerged(self, rows: int) -> StepRows:
        """Returns the same series with each of the `rows` of the table as a step."""
        if self.firsts is None:
            return self
        return StepRows(self.order, np.add.reduceat(np.diff(self.firsts, append=rows), self.starts), None)


def _repeated(firsts: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the steps with several of `count` rows, these rows one after the other, and the first of each step.

    Example:
        >>> [numbers.tolist() for numbers in _repeated(np.array([0, 1, 3, 4]), 6)]
        [[1, 3], [1, 2, 4, 5], [0, 2]]
    """
    sizes = np.diff(firsts, append=count)
    steps = np.flatnonzero(sizes > 1)
    sizes = sizes[steps]
    starts = np.cumsum(sizes) - sizes
    return steps, np.arange(int(sizes.sum())) + np.repeat(firsts[steps] - starts, sizes), starts


def make_plan(
    codes: NDArray[Any] | None,
    names: NDArray[Any],
    ticks: NDArray[Any] | None,
    duplicates: str = "merge",
    what: str = "id",
) -> StepRows:
    """Groups rows by series, sorts them by time, and finds rows of the same series and time.

    Args:
        codes: `(rows,)` index of the series of each row, using every number below len(names); None for one series.
        names: Names of the series, for messages.
        ticks: `(rows,)` times; None: the rows of a series are in order.
        duplicates: "merge", "error" or "keep" rows with the same series and time.
        what: Word for the name of a series in messages.
    """
    one_of("duplicates", duplicates, DUPLICATES)
    order, notes, same = None, [], True
    if codes is None:
        lengths = np.array([0 if ticks is None else len(ticks)])
    else:
        if (codes[1:] < codes[:-1]).any():
            order = _by_code(codes, len(names))
            codes = codes[order]
        same = codes[1:] == codes[:-1]
        lengths = np.bincount(codes, minlength=len(names))
    lengths = lengths.astype(np.int64)
    if ticks is None:
        return StepRows(order, lengths, None)
    ticks = ticks if order is None else ticks[order]
    back = (ticks[1:] < ticks[:-1]) & same
    if back.any():
        at = np.flatnonzero(back) + 1
        row = int(at[0] if order is None else order[at].min())
        notes.append(
            f"{counted(len(at), 'time')} went back within one {what} (first at row {row + 1:,}): "
            "the rows were sorted by time."
        )
        inner = _by_time(codes, ticks, len(names))
        order = inner if order is None else order[inner]
        ticks = ticks[inner]
    plan = StepRows(order, lengths, None, tuple(notes))
    return _merged(plan, names, (ticks[1:] == ticks[:-1]) & same, duplicates, what)


def _by_code(codes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Returns the stable order of whole numbers below `count`; 16-bit numbers are sorted much faster, by counting."""
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    if count > 1 << 16:
        high = (codes >> 16)[order]
        return order[_by_code(high, (count >> 16) + 1)]
    return order


def _by_time(codes: NDArray[Any] | None, ticks: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Returns the stable order by code and time of rows that are grouped by code."""
    if codes is None:
        return np.argsort(ticks, kind="stable")
    if ticks.dtype == np.int64:
        low = int(ticks.min())
        span = int(ticks.max()) - low + 1
        if span * count < 2**63:  # code and time fit into one number
            return np.argsort(codes * np.int64(span) + (ticks - low), kind="stable")
    by_time = np.argsort(ticks, kind="stable")
    return by_time[_by_code(codes[by_time], count)]


def _merged(plan: StepRows, names: NDArray[Any], again: NDArray[np.bool_], duplicates: str, what: str) -> StepRows:
    """Returns the plan with rows that repeat the series and time of the row before (`again`) handled as requested."""
    count = int(again.sum())
    if not count:
        return plan
    at = int(np.flatnonzero(again)[0])
    rows = sorted(int(i if plan.order is None else plan.order[i]) + 1 for i in (at, at + 1))
    first = f"rows {rows[0]:,} and {rows[1]:,}"
    if len(names) > 1:
        first += f", {what} {names[int(np.searchsorted(np.cumsum(plan.lengths), at, side='right'))]!s}"
    problem = f"{counted(count, 'row')} with a time that the same {what} already has (first: {first})"
    if duplicates == "error":
        raise SettingError(
            f"{problem}: remove them, or use {named('duplicates', 'merge')} (mean) or 'keep' (dt = 0).",
            argument="duplicates",
        )
    if duplicates == "keep":
        return replace(plan, notes=(*plan.notes, f"{problem}: kept, with dt = 0."))
    note = f"{problem}: merged, using the mean of numbers and the last label."
    firsts = np.flatnonzero(np.concatenate([[True], ~again]))
    lengths = np.diff(np.searchsorted(firsts, np.concatenate([[0], np.cumsum(plan.lengths)])))
    return StepRows(plan.order, lengths.astype(np.int64), firsts, (*plan.notes, note))
