"""Numbers that summarise a series: per channel and over its times, each of them updatable step by step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

PER_CHANNEL = ("mean", "std", "min", "max", "first", "last", "slope", "share", "count", "gap", "age")
"""Summaries of each channel; "gap" is the mean time between its readings, "age" the time since its last one."""
OVERALL = ("steps", "duration", "mean_gap", "largest_gap")
"""Summaries of the times of the whole series."""


def summary_names(channels: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the columns of `summaries`.

    Example:
        >>> summary_names(("hr",))[:3], len(summary_names(("hr", "temp")))
        (('hr mean', 'hr std', 'hr min'), 26)
    """
    return (*(f"{channel} {name}" for name in PER_CHANNEL for channel in channels), *OVERALL)


def summaries(
    x: Tensor,
    lengths: Tensor | None = None,
    dt: Tensor | None = None,
    observed: Tensor | None = None,
    *,
    every_step: bool = False,
) -> Tensor:
    """Summaries of padded series in float64, NaN where a channel has too few readings for one.

    All of them follow from sums, extremes and first and last readings, so a live stream can keep them up to date
    with a few numbers per channel. Durations and counts are on a logarithmic scale, log(1 + value).

    Args:
        x: `(B, T, D)` values.
        lengths: `(B,)` steps of each series; None: all of them.
        dt: `(B, T)` or `(B, T, 1)` time since the previous step; None: one unit everywhere.
        observed: `(B, T, D)` bool, which values are there; None: all of them.
        every_step: Whether to give the summaries of all steps so far at every step, `(B, T, F)`, instead of those of
            the whole series, `(B, F)`.

    Example:
        >>> x = torch.tensor([[[1.0], [2.0], [6.0]]])
        >>> found = dict(zip(summary_names(("x",)), summaries(x)[0].tolist()))
        >>> found["x mean"], found["x min"], found["x max"], round(found["x slope"], 6)
        (3.0, 1.0, 6.0, 2.5)
    """
    size, steps, _ = x.shape
    valid = torch.ones(size, steps, dtype=torch.bool, device=x.device)
    if lengths is not None:
        valid = torch.arange(steps, device=x.device) < lengths.to(x.device)[:, None]
    seen = valid[..., None].expand_as(x) if observed is None else observed & valid[..., None]
    gaps = torch.ones(size, steps, dtype=torch.float64, device=x.device)
    if dt is not None:
        gaps = (dt.squeeze(-1) if dt.dim() == 3 else dt).double()
    gaps = torch.where(valid, gaps, torch.zeros_like(gaps))
    # The time before the first step belongs to no reading.
    times = gaps.cumsum(1) - gaps[:, :1]
    values = torch.where(seen, x.double(), torch.zeros((), dtype=torch.float64, device=x.device))
    parts = _per_channel(values, seen, valid, times, _reductions(every_step))
    found = torch.cat([*parts, _overall(gaps, valid, times, _reductions(every_step))], dim=-1)
    return found if every_step else found[:, 0]


class _Reductions:
    """Sums and extremes over time: of the whole series (one step is left), or of all steps so far."""

    def __init__(self, sum: Callable[[Tensor], Tensor], max: Callable[[Tensor], Tensor]):
        self.sum, self.max = sum, max

    def min(self, values: Tensor) -> Tensor:
        """Returns the smallest."""
        return -self.max(-values)


def _reductions(every_step: bool) -> _Reductions:
    if every_step:
        return _Reductions(lambda v: v.cumsum(1), lambda v: v.cummax(1).values)
    return _Reductions(lambda v: v.sum(1, keepdim=True), lambda v: v.amax(1, keepdim=True))


def _per_channel(values: Tensor, seen: Tensor, valid: Tensor, times: Tensor, over: _Reductions) -> list[Tensor]:
    count = over.sum(seen.double())
    some = count.clamp(min=1)
    place = torch.arange(values.shape[1], device=values.device)[None, :, None].expand_as(values)
    first_at = place.masked_fill(~seen, values.shape[1]).amin(1, keepdim=True).clamp(max=values.shape[1] - 1)
    last_at = over.max(place.masked_fill(~seen, 0))
    first, last = values.gather(1, first_at), values.gather(1, last_at)
    clock = times[..., None].expand_as(values)
    begun = clock.gather(1, first_at)
    # Relative to the first reading, sums of squares keep their digits.
    rise, since = (torch.where(seen, v, torch.zeros_like(v)) for v in (values - first, clock - begun))
    mean_rise, mean_since = over.sum(rise) / some, over.sum(since) / some
    spread = (over.sum(rise.square()) / some - mean_rise.square()).clamp(min=0)
    time_spread = (over.sum(since.square()) / some - mean_since.square()).clamp(min=0)
    slope = (over.sum(rise * since) / some - mean_rise * mean_since) / time_spread
    low, high = over.min(values.masked_fill(~seen, torch.inf)), over.max(values.masked_fill(~seen, -torch.inf))
    span, now = clock.gather(1, last_at) - begun, over.max(times[..., None])
    steps = over.sum(valid.double())[..., None]
    once, twice = count < 1, (count < 2) | (time_spread <= 1e-12 * span.square())
    columns = [
        *((value, once) for value in (first + mean_rise, spread.sqrt(), low, high, first, last)),
        (slope, twice),
        (count / steps.clamp(min=1), None),
        (count.log1p(), None),
        ((span / (count - 1).clamp(min=1)).log1p(), twice),
        ((now - clock.gather(1, last_at)).clamp(min=0).log1p(), once),
    ]
    shape = count.shape
    return [v.expand(shape) if gone is None else v.expand(shape).masked_fill(gone, torch.nan) for v, gone in columns]


def _overall(gaps: Tensor, valid: Tensor, times: Tensor, over: _Reductions) -> Tensor:
    later = torch.cat([torch.zeros_like(gaps[:, :1]), gaps[:, 1:]], dim=1)
    count, duration = over.sum(valid.double()), over.max(times)
    mean = duration / (count - 1).clamp(min=1)
    return torch.stack([count.log1p(), duration.log1p(), mean.log1p(), over.max(later).log1p()], dim=-1)
