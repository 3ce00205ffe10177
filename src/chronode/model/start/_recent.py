"""The features of windows step by step, with operations for which the compiler has rules.

An exported forecast keeps the last W steps, newest last. Its features are the same as those of `Values` and `Readings`
for the padded windows of training; a test compares them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._grid import MOST_TIMES_THE_STEPS, nearest

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
        known = inside[..., None] & (x == x)
        return x[:, -steps:].flatten(1), known[:, -steps:].flatten(1)
    ages = recent.ages / gap
    begin = torch.where(inside, ages, torch.zeros_like(ages)).amax(1, keepdim=True)
    oldest = torch.minimum(nearest(begin), MOST_TIMES_THE_STEPS * recent.count - 1)
    grid = torch.arange(steps - 1, -1, -1, dtype=x.dtype, device=x.device)  # ages of the grid points
    values, known = _interpolated(x, recent.seen, ages, grid)
    known = known & (grid <= oldest)[..., None]
    return values.flatten(1), known.flatten(1)


def _interpolated(x: Tensor, seen: Tensor, ages: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
    """Returns values `(B, G, D)` at the ages of the grid, interpolated linearly, and whether there are any."""
    size = x.shape[1]
    place = torch.arange(1, size + 1, dtype=x.dtype, device=x.device)[:, None]  # from 1: 0 is none
    point = grid[:, None, None]
    x, seen, ages = x[:, None], seen[:, None], ages[:, None, :, None]
    nothing = torch.zeros_like(ages) + torch.zeros_like(x)  # (B, 1, W, D)
    before = torch.where(seen & (ages >= point - _CLOSE), place, nothing).amax(2)
    after = torch.where(seen & (ages <= point + _CLOSE), size + 1 - place, nothing).amax(2)
    any_before, any_after = before > 0, after > 0
    after = size + 1 - after
    low = torch.where(any_before, before, after)[:, :, None]
    high = torch.where(any_after, after, before)[:, :, None]
    picked = [torch.where(place == at, v + nothing, nothing).sum(2) for at in (low, high) for v in (x, ages)]
    share = ((picked[1] - grid[:, None]) / (picked[1] - picked[3]).clamp(min=1e-12)).clamp(0, 1)
    return picked[0] + share * (picked[2] - picked[0]), any_before | any_after


def recent_readings(recent: Recent, steps: int, gap: float) -> tuple[Tensor, Tensor]:
    """Returns the features of `Readings` and whether each is known, both `(B, steps * (D + 1))`."""
    rows = torch.cat([recent.x, (recent.gaps / gap).log1p()[..., None]], dim=-1)
    known = torch.cat([recent.seen, recent.inside[..., None]], dim=-1)
    return rows[:, -steps:].flatten(1), known[:, -steps:].flatten(1)
