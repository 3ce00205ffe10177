"""Irregular or incomplete series on a regular grid of times: whole series, and the last steps of a live one.

The functions of the last steps (`Recent`) use operations for which the compiler has rules. Their features are those of
`Values` and `Readings` for the padded windows of training; a test compares them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MOST_TIMES_THE_STEPS = 4
_NEAR = 0.125  # steps; the starts of months are at most 0.11 away from a grid of mean months


def nearest(times: Tensor) -> Tensor:
    """Returns the grid points that are nearest to times, in steps of the grid.

    Halves are common (three steps of 30 minutes on a grid of 60), so that no rounding of float32 may decide over them.
    """
    return (times + 0.499).floor()


def snapped(ages: Tensor) -> Tensor:
    """Returns the ages `(B, T)` of the steps of series, in steps of a grid, as whole numbers if all steps of a series
    are near grid points: months have different lengths, but no values between them.
    """
    point = nearest(ages)
    beyond = torch.where((ages - point).abs() > _NEAR, torch.ones_like(ages), torch.zeros_like(ages))
    return torch.where(beyond.amax(1, keepdim=True) > 0, ages, point)


def on_grid(
    x: Tensor,
    lengths: Tensor | None = None,
    dt: Tensor | None = None,
    observed: Tensor | None = None,
    *,
    gap: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Returns values every `gap` units of time, ending at each series' last step: `(B, G, D)` and lengths `(B,)`.

    Steps that are all near a grid point, such as months, are taken to be there. Otherwise, values are interpolated
    linearly between two readings of a channel and constant before the first and after the last reading; a channel
    without any reading is NaN. A series whose grid has more than four times its number of steps is cut at the
    beginning.

    Example:
        >>> x, dt = torch.tensor([[[0.0], [1.0], [4.0]]]), torch.tensor([[0.0, 1.0, 3.0]])
        >>> values, lengths = on_grid(x, dt=dt)
        >>> values[0, :, 0].tolist(), lengths.tolist()
        ([0.0, 1.0, 2.0, 3.0, 4.0], [5])
    """
    lengths, valid, times = clock(x, lengths, dt, gap)
    if dt is None and observed is None:
        return x, lengths
    ends = times[:, -1]
    times = ends[:, None] - snapped(ends[:, None] - times)
    counts = torch.minimum(nearest(ends).long() + 1, MOST_TIMES_THE_STEPS * lengths)
    position = torch.arange(int(counts.max()), device=x.device)
    grid = (ends - (counts - 1))[:, None] + position
    at = torch.searchsorted(times, grid.clamp(max=ends[:, None]) + 1e-6, right=True).sub(1).clamp(min=0)
    at = torch.minimum(at, lengths[:, None] - 1)
    is_observed = valid[..., None].expand_as(x) if observed is None else observed & valid[..., None]
    values = _interpolated(x, is_observed, times, grid, at)
    return values.masked_fill((position >= counts[:, None])[..., None], 0.0), counts


def clock(x: Tensor, lengths: Tensor | None, dt: Tensor | None, gap: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the lengths `(B,)` of padded series, which steps are valid `(B, T)`, and the times of the steps `(B, T)`
    since the first one, in units of `gap`; padding repeats the last time.
    """
    size, steps, _ = x.shape
    lengths = torch.full((size,), steps, device=x.device) if lengths is None else lengths.to(x.device)
    valid = torch.arange(steps, device=x.device) < lengths[:, None]
    gaps = torch.ones_like(valid, dtype=torch.float64)
    if dt is not None:
        gaps = (dt.squeeze(-1) if dt.dim() == 3 else dt).double()
    gaps = torch.where(valid, gaps, torch.zeros_like(gaps))
    return lengths, valid, (gaps.cumsum(1) - gaps[:, :1]) / gap


def _interpolated(x: Tensor, is_observed: Tensor, times: Tensor, grid: Tensor, at: Tensor) -> Tensor:
    """Returns values `(B, G, D)` at the times `grid (B, G)`, which are at or after step `at (B, G)`."""
    steps = x.shape[1]
    step = torch.arange(steps, device=x.device)[None, :, None].expand_as(x)
    before = step.masked_fill(~is_observed, -1).cummax(1).values
    after = step.masked_fill(~is_observed, steps).flip(1).cummin(1).values.flip(1)
    index = at[..., None].expand(*at.shape, x.shape[2])
    low = before.gather(1, index)
    exact = times.gather(1, at) >= grid - 1e-6  # includes a reading at exactly this time
    high = torch.where(exact[..., None], after.gather(1, index), _next(after, index, steps))
    low, high = torch.where(low < 0, high, low), torch.where(high >= steps, low, high)
    gone = (low < 0) | (low >= steps) | (high < 0) | (high >= steps)
    low, high = low.clamp(0, steps - 1), high.clamp(0, steps - 1)
    clock = times[..., None].expand_as(x)
    start, end = clock.gather(1, low), clock.gather(1, high)
    share = ((grid[..., None] - start) / (end - start).clamp(min=1e-12)).clamp(0, 1).to(x.dtype)
    first, last = x.gather(1, low), x.gather(1, high)
    return torch.where(gone, torch.full_like(first, torch.nan), first + share * (last - first))


def _next(after: Tensor, index: Tensor, steps: int) -> Tensor:
    """Returns the first reading after step `index`; `steps` if there is none."""
    later = after.gather(1, (index + 1).clamp(max=steps - 1))
    return torch.where(index + 1 < steps, later, torch.full_like(later, steps))


_CLOSE = 1e-6


class Recent(NamedTuple):
    """The last W steps of B series, newest last.

    Attributes:
        x: `(B, W, D)` values.
        seen: `(B, W, D)` bool.
        gaps: `(B, W)` time since the previous step; 0 at the first step.
        ages: `(B, W)` time until the newest step.
        inside: `(B, W)` bool: whether the step exists.
        count: `(B, 1)` number of steps.
    """

    x: Tensor
    seen: Tensor
    gaps: Tensor
    ages: Tensor
    inside: Tensor
    count: Tensor


def recent_values(recent: Recent, steps: int, gap: float, *, regular: bool) -> tuple[Tensor, Tensor]:
    """Returns the features of `Values` and whether each is known, both `(B, steps * D)`.

    Args:
        recent: The last steps.
        steps: Number of grid points.
        gap: Time between grid points.
        regular: Whether the steps are the grid points, because there are no times and no missing values.
    """
    x, inside = recent.x, recent.inside
    if regular:
        is_known = inside[..., None] & (x == x)
        return x[:, -steps:].flatten(1), is_known[:, -steps:].flatten(1)
    ages = recent.ages / gap
    ages = torch.where(inside, snapped(torch.where(inside, ages, torch.zeros_like(ages))), ages)
    begin = torch.where(inside, ages, torch.zeros_like(ages)).amax(1, keepdim=True)
    oldest = torch.minimum(nearest(begin), MOST_TIMES_THE_STEPS * recent.count - 1)
    grid = torch.arange(steps - 1, -1, -1, dtype=x.dtype, device=x.device)  # ages of the grid points
    values, is_known = _interpolated_by_age(x, recent.seen, ages, grid)
    is_known = is_known & (grid <= oldest)[..., None]
    return values.flatten(1), is_known.flatten(1)


def _interpolated_by_age(x: Tensor, is_observed: Tensor, ages: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
    """Returns values `(B, G, D)` at the ages of the grid, interpolated linearly, and whether there are any."""
    size = x.shape[1]
    number = torch.arange(1, size + 1, dtype=x.dtype, device=x.device)[:, None]  # from 1: 0 is none
    point = grid[:, None, None]
    x, is_observed, ages = x[:, None], is_observed[:, None], ages[:, None, :, None]
    nothing = torch.zeros_like(ages) + torch.zeros_like(x)  # (B, 1, W, D)
    before = torch.where(is_observed & (ages >= point - _CLOSE), number, nothing).amax(2)
    after = torch.where(is_observed & (ages <= point + _CLOSE), size + 1 - number, nothing).amax(2)
    any_before, any_after = before > 0, after > 0
    after = size + 1 - after
    low = torch.where(any_before, before, after)[:, :, None]
    high = torch.where(any_after, after, before)[:, :, None]
    picked = [torch.where(number == at, v + nothing, nothing).sum(2) for at in (low, high) for v in (x, ages)]
    share = ((picked[1] - grid[:, None]) / (picked[1] - picked[3]).clamp(min=1e-12)).clamp(0, 1)
    return picked[0] + share * (picked[2] - picked[0]), any_before | any_after


def extended_back(values: Tensor, known: Tensor, season: int) -> tuple[Tensor, Tensor]:
    """Repeats the first season of windows `(B, T, D)` before their start, and returns what is known then.

    Example:
        >>> window, known = torch.tensor([[0.0, 0.0, 0.0, 5.0, 6.0]]), torch.tensor([[False, False, False, True, True]])
        >>> extended_back(window[..., None], known[..., None], 2)[0].flatten().tolist()
        [6.0, 5.0, 6.0, 5.0, 6.0]
    """
    shift = season
    while shift < values.shape[1]:  # every pass doubles the number of seasons before the start
        flags = known.to(values)  # ONNX has no concatenation of truth values in steps
        there = torch.cat([flags[:, shift:], torch.zeros_like(flags[:, :shift])], dim=1) > 0
        later = torch.cat([values[:, shift:], values[:, :shift]], dim=1)
        values, known = torch.where(known | ~there, values, later), known | there
        shift *= 2
    return values, known


def recent_readings(recent: Recent, steps: int, gap: float) -> tuple[Tensor, Tensor]:
    """Returns the features of `Readings` and whether each is known, both `(B, steps * (D + 1))`."""
    rows = torch.cat([recent.x, (recent.gaps / gap).log1p()[..., None]], dim=-1)
    is_known = torch.cat([recent.seen, recent.inside[..., None]], dim=-1)
    return rows[:, -steps:].flatten(1), is_known[:, -steps:].flatten(1)
