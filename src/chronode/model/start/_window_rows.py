"""Windows of forecasts as rows of a linear model, and their division at rolling origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data import Batch, Sequences, folds_of, forecast_windows, step_gap, usable_windows
from .._relative import Relative
from ._features import Values, build_features

_ORIGINS = 5
_FOLDS = 5
_OUTLYING = 8.0


class Windows(NamedTuple):
    """Windows `x (N, K, C)` with `counts (N,)` steps since the start of the series, and what follows, `y (N, H)`."""

    x: Tensor
    y: Tensor
    counts: Tensor

    def at(self, rows: Tensor) -> Windows:
        """Returns some of the windows."""
        return Windows(self.x[rows], self.y[rows], self.counts[rows])

    def without_outliers(self) -> Windows:
        """Returns windows on a smaller scale where what follows is far beyond the usual, so that none decides alone."""
        sizes = self.y.nan_to_num().abs().amax(1)
        usual = sizes.median() if len(sizes) else 0.0
        shrink = _OUTLYING * usual / sizes
        outlying = shrink < 1
        if not usual > 0 or not bool(outlying.any()):
            return self
        shrink = torch.where(outlying, shrink, torch.ones_like(shrink))[:, None]
        return self._replace(x=self.x * shrink[..., None], y=self.y * shrink)


class Fold(NamedTuple):
    """Rows as masks: to fit, with what follows one step ahead known (`near`) or all of it (`fit`); and to judge by."""

    fit: Tensor
    near: Tensor
    judge: Tensor


@dataclass(frozen=True)
class Rows:
    """Windows as inputs and targets of a linear model.

    Attributes:
        x: `(N, steps, channels)` relative values, extended back before the first step of a series; 0 where unknown.
        y: `(N, H, C)` relative values that follow; unknown values are interpolated, and NaN after the last known one.
        ends: `(N,)` time of the last step of each window.
        counts: `(N,)` steps since the start of the series, at most `steps`.
    """

    x: Tensor
    y: Tensor
    ends: Tensor
    counts: Tensor

    def __getitem__(self, rows: Tensor) -> Rows:
        return Rows(self.x[rows], self.y[rows], self.ends[rows], self.counts[rows])

    def windows(self, place: int) -> Windows:
        """Returns the rows with what follows in one of the channels to continue."""
        return Windows(self.x, self.y[..., place], self.counts)


def in_place(parts: Sequence[Sequences], channels: Sequence[int]) -> bool:
    """Returns whether the windows of all parts are places in the same values, followed there by their targets."""
    return len({part.base_values.shape for part in parts}) == 1 and all(_followed(part, channels) for part in parts)


def _followed(s: Sequences, channels: Sequence[int]) -> bool:
    assert s.target is not None
    horizon = s.target.values.shape[1] // len(channels)
    rows = (s.starts + s.lengths)[:, None] + np.arange(horizon)
    if not len(rows) or rows.max() >= len(s.base_values):
        return False
    return np.allclose(s.base_values[rows][..., channels].reshape(len(rows), -1), s.target.values, equal_nan=True)


def all_windows(parts: Sequence[Sequences], channels: Sequence[int], steps: int) -> Sequences:
    """Returns all windows of the stretches of time that the windows of these parts cover, from half of `steps` (or a
    quarter of the stretch) on, with what is known of the values that follow.

    A short series has few whole windows, and none whose target lies in two parts. A target may reach beyond the end,
    up to half of it, or more if the horizon is longer than a quarter of the stretch.

    Args:
        parts: Windows with the following values as target, of the same series.
        channels: Numbers of the channels that the target continues.
        steps: Steps of a whole window.
    """
    first = parts[0]
    assert first.target is not None
    horizon = first.target.values.shape[1] // len(channels)
    start = np.concatenate([part.starts for part in parts])
    after = np.concatenate([part.starts + part.lengths for part in parts]) + horizon
    order = np.lexsort((after, start))
    start, after = start[order], np.maximum.accumulate(after[order])
    new = np.append(True, start[1:] >= after[:-1])
    low, high = start[new], after[np.append(new[1:], True)]
    inside = np.isin(low, first.starts)
    by_start = np.argsort(first.starts, kind="stable")
    owner = by_start[np.searchsorted(first.starts[by_start], low[inside])]
    series = replace(first[owner], starts=low[inside], lengths=(high - low)[inside], target=None)
    names = [first.channels[channel] for channel in channels]
    longest = int(series.lengths.max())
    if first.static is None:
        series = _with_unknown_end(series, horizon)
    every = forecast_windows(series, horizon, names, window=steps, least=max(1, min(steps // 2, longest // 4)))
    assert every.target is not None
    ahead = np.isfinite(every.target.values).reshape(len(every), horizon, -1).all(2).sum(1)
    return usable_windows([every[ahead >= min(horizon, max(1, longest // 4))]], channels)[0]


def _with_unknown_end(s: Sequences, horizon: int) -> Sequences:
    """Returns series that are followed by `horizon` unknown steps."""
    rows = [
        np.append(start + np.arange(length), np.full(horizon, -1))
        for start, length in zip(s.starts, s.lengths, strict=True)
    ]
    values = np.concatenate([s.base_values[row] for row in rows])
    lengths = s.lengths + horizon
    starts = np.cumsum(lengths) - lengths
    unknown = (starts + s.lengths)[:, None] + np.arange(horizon)
    values[unknown] = np.nan
    times = None
    if s.base_times is not None:
        times = np.concatenate([s.base_times[row] for row in rows])
        times[unknown] = times[unknown[:, :1] - 1] + step_gap(s) * np.arange(1, horizon + 1)
    return replace(s, base_values=values, base_times=times, starts=starts, lengths=lengths)


def rows_of(parts: Sequence[Sequences], description: dict[str, Any], relative: Relative) -> Rows:
    """Returns the windows of all parts with the values that follow them."""
    begins = _begins(parts)
    tables = [_rows_of(s, one, description, relative) for s, one in zip(parts, begins, strict=True)]
    return Rows(*(torch.cat([getattr(one, field.name) for one in tables]) for field in fields(Rows)))


def _rows_of(s: Sequences, begins: NDArray[np.int64], description: dict[str, Any], relative: Relative) -> Rows:
    assert s.target is not None
    features = build_features(description)
    assert isinstance(features, Values)
    channels = len(relative.channels)
    xs, ys = [], []
    for first in range(0, len(s), 512):
        batch: Batch = s.batch(slice(first, first + 512))
        view = relative.view(batch.x, batch.lengths, batch.observed, batch.static)
        assert batch.target is not None
        xs.append(features.last_steps(view.x, **batch.times))
        target = relative.there(batch.target.double(), view)
        ys.append(target.reshape(len(target), -1, channels))
    x = torch.cat(xs)
    is_observed = (~x.isnan()).any(2).int()
    counts = x.shape[1] - is_observed.argmax(1)
    last = s.starts + s.lengths - 1
    ends = (last - begins).astype(np.float64) if s.base_times is None else s.base_times[last]
    return Rows(features.extended(x).nan_to_num(nan=0.0), _filled(torch.cat(ys)), torch.tensor(ends), counts)


def _begins(parts: Sequence[Sequences]) -> list[NDArray[np.int64]]:
    """Returns the first step of the group of each window; parts by time count from the same step."""
    groups, member = np.unique(np.concatenate([part.groups for part in parts]), return_inverse=True)
    starts = np.concatenate([part.starts for part in parts])
    first = np.full(len(groups), starts.max(initial=0))
    np.minimum.at(first, member, starts)
    return np.split(first[member], np.cumsum([len(part) for part in parts])[:-1])


def rolling(ends: Tensor, horizon: int, gap: float) -> list[Fold]:
    """Returns rows to fit (known at an origin) and rows to judge by (from there to the next origin)."""
    folds = [fold_at(ends, *pair, horizon, gap) for pair in origins(ends)]
    return [fold for fold in folds if fold.judge.any()]


def origins(ends: Tensor) -> list[tuple[float, float]]:
    """Returns the times of origins in the later half of all windows, each with the next one."""
    low, high = float(ends.min()), float(ends.max())
    return list(
        pairwise([*torch.linspace((low + high) / 2, high, _ORIGINS + 1, dtype=torch.float64).tolist()[:-1], torch.inf])
    )


def fold_at(ends: Tensor, first: float, after: float, horizon: int, gap: float) -> Fold:
    """Returns the rows known at an origin, and those from there to the next."""
    judge = (ends >= first) & (ends < after)
    return Fold(ends + horizon * gap <= first + 1e-9, ends + gap <= first + 1e-9, judge)


def stretches(ends: Tensor, count: int) -> list[tuple[float, float]]:
    """Returns so many stretches of equal length that cover the times of all windows."""
    edges = torch.linspace(float(ends.min()), float(ends.max()), count + 1, dtype=torch.float64).tolist()
    return list(pairwise([-torch.inf, *edges[1:-1], torch.inf]))


def outside(ends: Tensor, first: float, after: float, horizon: int, gap: float) -> Tensor:
    """Returns the windows of which nothing that follows is also what follows a window in this stretch of time."""
    return (ends + horizon * gap <= first + 1e-9) | (ends >= after + horizon * gap - 1e-9)


def by_group(parts: Sequence[Sequences], seed: int) -> list[Fold]:
    """Returns folds of whole series; every part has its own folds."""
    number = torch.cat([torch.tensor(folds_of(part, _FOLDS, seed=seed)) for part in parts])
    return [Fold(number != fold, number != fold, number == fold) for fold in number.unique().tolist()]


def some(mask: Tensor, most: int) -> Tensor:
    """Returns a limited number of the chosen rows, evenly spaced."""
    at = mask.nonzero()[:, 0]
    if len(at) <= most:
        return mask
    few = torch.zeros_like(mask)
    few[at[torch.linspace(0, len(at) - 1, most).round().long()]] = True
    return few


def _filled(y: Tensor) -> Tensor:
    """Fills gaps in `(N, H, C)`: linear between known values, starting from 0; not after the last one."""
    if not y.isnan().any():
        return y
    filled = y.clone()
    ahead = np.arange(y.shape[1] + 1)
    for row, _, channel in (y.isnan().any(1, keepdim=True)).nonzero().tolist():
        path = np.concatenate([[0.0], y[row, :, channel].numpy()])
        mask = ~np.isnan(path)
        filled[row, :, channel] = torch.tensor(np.interp(ahead, ahead[mask], path[mask], right=np.nan)[1:])
    return filled
