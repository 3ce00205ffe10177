"""Summary statistics of a series, per channel and of its times: of a whole series, and updated step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

PER_CHANNEL = ("mean", "std", "min", "max", "first", "last", "slope", "share", "count", "gap", "age")
"""Summaries of each channel; "gap" is the mean time between its readings, "age" the time since its last one."""
OVERALL = ("steps", "duration", "mean_gap", "largest_gap")
"""Summaries of the times of the whole series."""


def summary_names(channels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the columns of `summaries`.

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
    """Returns summaries of padded series in float64; NaN if a channel has too few readings.

    All summaries follow from the moments of the readings, which `RunningSummaries` keeps up to date with a few numbers
    per channel. Durations and counts are on a logarithmic scale, log(1 + value).

    Args:
        x: `(B, T, D)` values.
        lengths: `(B,)` steps of each series; all steps by default.
        dt: `(B, T)` or `(B, T, 1)` time since the previous step; one unit by default.
        observed: `(B, T, D)` bool, which values are present; all by default.
        every_step: Whether to return the summaries of all steps so far at every step, `(B, T, F)`, instead of those of
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
    is_observed = valid[..., None].expand_as(x) if observed is None else observed & valid[..., None]
    gaps = torch.ones(size, steps, dtype=torch.float64, device=x.device)
    if dt is not None:
        gaps = (dt.squeeze(-1) if dt.dim() == 3 else dt).double()
    gaps = torch.where(valid, gaps, torch.zeros_like(gaps))
    values = torch.where(is_observed, x.double(), torch.zeros((), dtype=torch.float64, device=x.device))
    results, is_known = columns(_moments(values, is_observed, valid, gaps, _reductions(every_step)))
    results = results.masked_fill(~is_known, torch.nan)
    return results if every_step else results[:, 0]


class Moments(NamedTuple):
    """Running sums from which the summaries are computed.

    Those of the channels are `(..., D)`, and 0 if there is no reading; those of all steps are `(..., 1)`.

    Attributes:
        count: Number of readings.
        first: Value of the first reading.
        last: Value of the last reading.
        low: Smallest value.
        high: Largest value.
        mean: Mean value.
        variance: Variance of the values.
        time_variance: Variance of the times of the readings.
        covariance: Covariance of values and times.
        span: Time from the first to the last reading.
        age: Time since the last reading.
        steps: Number of steps.
        duration: Time from the first to the last step.
        largest_gap: Longest time between two steps.
    """

    count: Tensor
    first: Tensor
    last: Tensor
    low: Tensor
    high: Tensor
    mean: Tensor
    variance: Tensor
    time_variance: Tensor
    covariance: Tensor
    span: Tensor
    age: Tensor
    steps: Tensor
    duration: Tensor
    largest_gap: Tensor


def columns(m: Moments) -> tuple[Tensor, Tensor]:
    """Returns the summaries `(..., F)` in the order of `summary_names`, and whether there are readings for each."""
    some, many = m.count > 0, (m.count > 1) & (m.time_variance > 1e-12 * m.span.square())
    slope = m.covariance / torch.where(many, m.time_variance, torch.ones_like(m.span))
    # The root has no gradient at 0, and a factor of 0 behind it would not help.
    varies = m.variance > 0
    std = torch.where(varies, torch.where(varies, m.variance, torch.ones_like(m.span)).sqrt(), torch.zeros_like(m.span))
    always = torch.ones_like(some)
    pairs = [
        *((value, some) for value in (m.mean, std, m.low, m.high, m.first, m.last)),
        (slope, many),
        (m.count / m.steps.clamp(min=1), always),
        (m.count.log1p(), always),
        ((m.span / (m.count - 1).clamp(min=1)).log1p(), many),
        (m.age.log1p(), some),
    ]
    mean_gap = m.duration / (m.steps - 1).clamp(min=1)
    pairs += [(value.log1p(), always[..., :1]) for value in (m.steps, m.duration, mean_gap, m.largest_gap)]
    values, is_known = zip(*pairs, strict=True)
    return torch.cat(values, dim=-1), torch.cat(is_known, dim=-1)


class _Reductions:
    """Sums and extremes over time: of the whole series (one step remains), or of all steps so far."""

    def __init__(self, sum: Callable[[Tensor], Tensor], max: Callable[[Tensor], Tensor]):
        self.sum, self.max = sum, max

    def min(self, values: Tensor) -> Tensor:
        """Returns the smallest."""
        return -self.max(-values)


def _reductions(every_step: bool) -> _Reductions:
    if every_step:
        return _Reductions(lambda v: v.cumsum(1), lambda v: v.cummax(1).values)
    return _Reductions(lambda v: v.sum(1, keepdim=True), lambda v: v.amax(1, keepdim=True))


def _moments(values: Tensor, observed: Tensor, valid: Tensor, gaps: Tensor, over: _Reductions) -> Moments:
    """Returns the moments of series `(B, T, D)` at one step or at each."""
    # The gap before the first step is not between two readings.
    times = gaps.cumsum(1) - gaps[:, :1]
    later = torch.cat([torch.zeros_like(gaps[:, :1]), gaps[:, 1:]], dim=1)
    count = over.sum(observed.double())
    some, none = count.clamp(min=1), count < 1
    step = torch.arange(values.shape[1], device=values.device)[None, :, None].expand_as(values)
    first_at = step.masked_fill(~observed, values.shape[1]).amin(1, keepdim=True).clamp(max=values.shape[1] - 1)
    last_at = over.max(step.masked_fill(~observed, 0))
    first, last = values.gather(1, first_at), values.gather(1, last_at)
    clock = times[..., None].expand_as(values)
    begun, read = clock.gather(1, first_at), clock.gather(1, last_at)
    # Relative to the first reading, sums of squares do not lose digits.
    rise, since = (torch.where(observed, v, torch.zeros_like(v)) for v in (values - first, clock - begun))
    mean_rise, mean_since = over.sum(rise) / some, over.sum(since) / some
    low, high = over.min(values.masked_fill(~observed, torch.inf)), over.max(values.masked_fill(~observed, -torch.inf))
    of_channels = (
        first + mean_rise,
        (over.sum(rise.square()) / some - mean_rise.square()).clamp(min=0),
        (over.sum(since.square()) / some - mean_since.square()).clamp(min=0),
        over.sum(rise * since) / some - mean_rise * mean_since,
        read - begun,
        (over.max(times[..., None]) - read).clamp(min=0),
    )
    readings = [v.expand_as(count).masked_fill(none, 0) for v in (first, last, low, high, *of_channels)]
    overall = [v[..., None] for v in (over.sum(valid.double()), over.max(times), over.max(later))]
    return Moments(count, *readings, *overall)


State = tuple[Tensor, ...]
Pair = tuple[Tensor, Tensor]

_CHANNEL_PARTS = ("count", "first", "last", "low", "high", "span", "age")
_CHANNEL_SUMS = ("since", "mean", "mean_time", "squares", "time_squares", "products")
_STEP_PARTS = ("steps", "largest_gap")
_STEP_SUMS = ("duration",)


class RunningSummaries:
    """Computes `summaries` step by step, from a state with a few numbers per channel.

    Means and sums of squares are updated as in Welford (1962). Each has two parts, the second of which collects the
    rounding errors of the first, so float32 is enough for long series. The state is a tuple of `(B, D)` tensors for
    the channels and `(B, 1)` for the steps; it starts at 0.

    Args:
        channels: Number of channels.

    Example:
        >>> running = RunningSummaries(1)
        >>> state = running.initial_state(1, torch.zeros(1))
        >>> for value in (1.0, 2.0, 6.0):
        ...     state = running.step(torch.tensor([[value]]), torch.tensor([[True]]), torch.ones(1, 1), state)
        >>> found, known = running.columns(state)
        >>> [round(value, 3) for value in found[0, :4].tolist()]  # mean, standard deviation, smallest and largest value
        [3.0, 2.16, 1.0, 6.0]
    """

    def __init__(self, channels: int):
        self.channels = channels

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns the state before the first step."""
        per_channel, per_step = len(_CHANNEL_PARTS) + 2 * len(_CHANNEL_SUMS), len(_STEP_PARTS) + 2 * len(_STEP_SUMS)
        sizes = [self.channels] * per_channel + [1] * per_step
        return tuple(like.new_zeros(batch, size) for size in sizes)

    def step(self, x: Tensor, is_observed: Tensor, dt: Tensor, state: State) -> State:
        """Returns the state after the values `x (B, D)` at a gap of `dt (B, 1)`; only observed values count."""
        parts, sums, steps, clocks = _split(state)
        count, first, last, low, high, span, age = parts
        since, mean, mean_time, squares, time_squares, products = sums
        later = torch.where(steps[0] > 0, dt, torch.zeros_like(dt))  # the gap before the first step does not count
        begun, new = count > 0, is_observed & (count < 1)
        nothing = torch.zeros_like(x)
        first = torch.where(new, x, first)
        since = _plus(since, torch.where(begun, later, nothing))
        elapsed = _value(since)
        after = count + torch.where(is_observed, torch.ones_like(x), nothing)
        share = torch.where(is_observed, 1 / after.clamp(min=1), nothing)
        before = _minus(x, mean), _minus(elapsed, mean_time)
        mean, mean_time = _plus(mean, before[0] * share), _plus(mean_time, before[1] * share)
        now = _minus(x, mean), _minus(elapsed, mean_time)
        squares = _plus(squares, torch.where(is_observed, before[0] * now[0], nothing))
        time_squares = _plus(time_squares, torch.where(is_observed, before[1] * now[1], nothing))
        products = _plus(products, torch.where(is_observed, before[0] * now[1], nothing))
        low = torch.where(new, x, torch.where(is_observed, torch.minimum(low, x), low))
        high = torch.where(new, x, torch.where(is_observed, torch.maximum(high, x), high))
        last, span = torch.where(is_observed, x, last), torch.where(is_observed, elapsed, span)
        age = torch.where(is_observed | ~begun, nothing, age + later)
        channels = (after, first, last, low, high, span, age)
        pairs = (since, mean, mean_time, squares, time_squares, products)
        ends = (steps[0] + 1, torch.maximum(steps[1], later))
        return (*channels, *(part for pair in pairs for part in pair), *ends, *_plus(clocks[0], later))

    def columns(self, state: State) -> tuple[Tensor, Tensor]:
        """Returns the summaries `(B, F)` of all steps so far, and whether there are readings for each."""
        (count, first, last, low, high, span, age), sums, (steps, largest), (duration,) = _split(state)
        _, mean, _, squares, time_squares, products = map(_value, sums)
        some = count.clamp(min=1)
        variance, time_variance = (total.clamp(min=0) / some for total in (squares, time_squares))
        return columns(
            Moments(
                *(count, first, last, low, high),
                *(mean, variance, time_variance, products / some),
                *(span, age, steps, _value(duration), largest),
            )
        )


def _split(state: State) -> tuple[State, list[Pair], State, list[Pair]]:
    """Returns the parts and the sums of channels, then those of steps."""
    sizes = (len(_CHANNEL_PARTS), 2 * len(_CHANNEL_SUMS), len(_STEP_PARTS), 2 * len(_STEP_SUMS))
    pieces, start = [], 0
    for size in sizes:
        pieces.append(state[start : start + size])
        start += size
    return pieces[0], _pairs(pieces[1]), pieces[2], _pairs(pieces[3])


def _pairs(parts: State) -> list[Pair]:
    return list(zip(parts[::2], parts[1::2], strict=True))


def _plus(total: Pair, term: Tensor) -> Pair:
    """Adds to a sum; the rounding error of the first part goes to the second (Knuth's exact sum)."""
    large, small = total
    new = large + term
    moved = new - large
    return new, small + ((large - (new - moved)) + (term - moved))


def _minus(value: Tensor, total: Pair) -> Tensor:
    return (value - total[0]) - total[1]


def _value(total: Pair) -> Tensor:
    return total[0] + total[1]
