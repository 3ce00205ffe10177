"""Margins of forecasts by confidence level, from residuals of windows that were not used for fitting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import torch
from torch import Tensor, nn

from ._spread import Spread

LEVELS = tuple(percent / 100 for percent in range(1, 100))
"""Confidence levels of the stored margins, from 0.01 to 0.99."""
_JUDGED = (0.5, 0.8, 0.95)
# With fewer windows, or a smaller gain, the same margins for all are safer.
_FEWEST_WINDOWS = 60
_ENOUGH = 0.98
_FEWEST_COUNTED = 1.5  # of windows: fewer would have intervals without end
_NO_LIMIT = 1e30

_Way = Callable[[Spread, Tensor, Tensor], None]


class Margins(nn.Module):
    """Half-widths of the prediction intervals of every output, in units of a window's own scale times its spread.

    They are quantiles of absolute residuals with the correction of split conformal prediction: with `n` residuals, the
    interval of level `p` reaches to the `ceil((n + 1) p)`-th smallest one. Few windows of one series have no such
    residual: their margins are those of Student's t for errors that overlap.

    Args:
        outputs: Number of outputs: steps ahead times channels.
        channels: Number of channels that are forecast.

    Attributes:
        spread: Size of the errors of a window relative to the usual one.
        most: `(outputs,)` the largest margins: how far the series have ever moved in as many steps, in units of a
            window's own scale times its spread.

    Example:
        >>> margins = Margins(1)
        >>> margins.fit(torch.arange(1.0, 100.0)[:, None])
        >>> margins.at([80, 95]).tolist()
        [[80.0], [95.0]]
    """

    def __init__(self, outputs: int, channels: int = 1):
        super().__init__()
        self.spread = Spread(channels)
        self.register_buffer("table", torch.full((len(LEVELS), outputs), torch.nan, dtype=torch.float64))
        self.register_buffer("most", torch.full((outputs,), _NO_LIMIT, dtype=torch.float64))

    @property
    def known(self) -> bool:
        """Whether the margins have been fitted."""
        return not bool(self.get_buffer("table").isnan().all())

    def fit(self, residuals: Tensor, traits: Tensor | None = None, *, one_series: bool = False) -> None:
        """Computes the margins from residuals `(n, outputs)`, NaN where unknown.

        Args:
            residuals: Errors of windows in the order of time, in units of each window's own scale.
            traits: `(n, channels, 3)` of these windows, from which the spread is learned if that makes the intervals of
                other windows better.
            one_series: Whether all windows belong to one series: its usual scale is then a candidate for the unit of
                its errors, and of few windows the unit, because the last window may have any scale by chance.
        """
        sizes = residuals.abs().double()
        way = None if traits is None else self._best_way(traits, sizes, one_series)
        if traits is not None and way is not None:
            way(self.spread, traits, sizes)
            sizes = sizes / self.spread(traits, sizes.shape[1])
        few = one_series and len(sizes) < _FEWEST_WINDOWS
        self.get_buffer("table").copy_(_table_of_few(sizes, self.spread.channels) if few else _table(sizes))

    def _best_way(self, traits: Tensor, sizes: Tensor, one_series: bool) -> _Way | None:
        """Returns how to fit the spread; None for the same margins for all windows."""
        if len(sizes) < _FEWEST_WINDOWS:
            return Spread.shrink if one_series else None
        ways: list[_Way] = [Spread.fit, *([Spread.shrink] if one_series else [])]
        scores = {way: self._score_with(way, traits, sizes) for way in ways}
        best = min(ways, key=lambda way: scores[way])
        return best if scores[best] < _ENOUGH * self._score_with(None, traits, sizes) else None

    def _score_with(self, way: _Way | None, traits: Tensor, sizes: Tensor) -> float:
        """Returns the interval score of each half of the windows with margins and a spread fitted to the other half."""
        half, total = torch.arange(len(sizes)) < len(sizes) // 2, 0.0
        for one, other in ((half, ~half), (~half, half)):
            spread = Spread(self.spread.channels)
            if way is not None:
                way(spread, traits[one], sizes[one])
            there, here = (spread(traits[rows], sizes.shape[1]) for rows in (one, other))
            total += _interval_score(_table(sizes[one] / there), sizes[other], here)
        return total

    def widths(self, levels: Sequence[float], spread: Tensor) -> Tensor:
        """Returns margins `(levels, n, outputs)` of windows with this spread `(n, outputs)`, up to the largest ones."""
        return torch.minimum(self.at(levels), self.get_buffer("most"))[:, None] * spread

    def at(self, levels: Sequence[float]) -> Tensor:
        """Returns margins `(levels, outputs)` of levels from 1 to 99 percent; fractions are interpolated linearly."""
        table, margins = self.get_buffer("table"), []
        for level in levels:
            position = min(max(level - 1, 0), len(LEVELS) - 1)
            low = min(int(position), len(LEVELS) - 2)
            margins.append(torch.lerp(table[low], table[low + 1], position - low))
        return torch.stack(margins)


def _table(sizes: Tensor) -> Tensor:
    """Returns margins `(levels, outputs)` from sizes of errors `(n, outputs)`, NaN where unknown."""
    return torch.stack([_quantiles(column[~column.isnan()]) for column in sizes.T], dim=1)


def _table_of_few(sizes: Tensor, channels: int) -> Tensor:
    """Returns margins `(levels, outputs)` from sizes of errors of a few windows of one series, as for normal errors.

    Windows that follow each other share most of the steps that they forecast: of the errors `h` steps ahead, `n` count
    as `n / sqrt(h)` independent ones (benchmarks/intervals.md). Margins never shrink with the steps ahead.
    """
    from scipy.special import stdtrit

    known = (~sizes.isnan()).sum(0)
    steps = torch.arange(sizes.shape[1]) // channels + 1
    count = (known / steps.sqrt()).clamp(min=_FEWEST_COUNTED).double()
    ends = (1 + torch.tensor(LEVELS, dtype=torch.float64)[:, None]) / 2
    factors = torch.from_numpy(stdtrit(count.numpy(), ends.numpy())) * (1 + 1 / count).sqrt()
    table = (factors * sizes.square().nanmean(0).sqrt()).nan_to_num(nan=0.0)
    grown = table.reshape(len(table), -1, channels).cummax(1).values.reshape(table.shape)
    return grown.where(known > 0, torch.nan)


def _interval_score(table: Tensor, sizes: Tensor, spread: Tensor) -> float:
    """Returns the mean width of intervals plus a penalty for what lies beyond them, over several levels; the score of a
    quantile is lowest where it is right.
    """
    total = 0.0
    for level in _JUDGED:
        half = table[LEVELS.index(level)] * spread
        total += float((half + (sizes - half).clamp(min=0) / (1 - level)).nanmean())
    return total


def _quantiles(residuals: Tensor) -> Tensor:
    """Returns the margins of all levels from `(n,)` residuals; beyond the largest, as for normal errors."""
    count = len(residuals)
    if not count:
        return torch.full((len(LEVELS),), torch.nan, dtype=torch.float64)
    ordered, margins = residuals.sort().values, []
    for level in LEVELS:
        rank = math.ceil((count + 1) * level - 1e-9)
        if rank <= count:
            margins.append(float(ordered[rank - 1]))
        else:
            reached = NormalDist().inv_cdf((1 + count / (count + 1)) / 2)
            margins.append(float(ordered[-1]) * NormalDist().inv_cdf((1 + level) / 2) / reached)
    return torch.tensor(margins, dtype=torch.float64)
