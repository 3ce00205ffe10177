"""Summaries of series that are updated step by step."""

from __future__ import annotations

import torch
from torch import Tensor

from ._summaries import Moments, columns

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

    def step(self, x: Tensor, seen: Tensor, dt: Tensor, state: State) -> State:
        """Returns the state after the values `x (B, D)` at a gap of `dt (B, 1)`; only values that were `seen` count."""
        parts, sums, steps, clocks = _split(state)
        count, first, last, low, high, span, age = parts
        since, mean, mean_time, squares, time_squares, products = sums
        later = torch.where(steps[0] > 0, dt, torch.zeros_like(dt))  # the gap before the first step does not count
        begun, new = count > 0, seen & (count < 1)
        nothing = torch.zeros_like(x)
        first = torch.where(new, x, first)
        since = _plus(since, torch.where(begun, later, nothing))
        elapsed = _value(since)
        after = count + torch.where(seen, torch.ones_like(x), nothing)
        share = torch.where(seen, 1 / after.clamp(min=1), nothing)
        before = _minus(x, mean), _minus(elapsed, mean_time)
        mean, mean_time = _plus(mean, before[0] * share), _plus(mean_time, before[1] * share)
        now = _minus(x, mean), _minus(elapsed, mean_time)
        squares = _plus(squares, torch.where(seen, before[0] * now[0], nothing))
        time_squares = _plus(time_squares, torch.where(seen, before[1] * now[1], nothing))
        products = _plus(products, torch.where(seen, before[0] * now[1], nothing))
        low = torch.where(new, x, torch.where(seen, torch.minimum(low, x), low))
        high = torch.where(new, x, torch.where(seen, torch.maximum(high, x), high))
        last, span = torch.where(seen, x, last), torch.where(seen, elapsed, span)
        age = torch.where(seen | ~begun, nothing, age + later)
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
