"""Reports long gaps between observations and optionally shortens them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..settings import named, number, one_of
from ._names import counted
from ._settings import GAPS

if TYPE_CHECKING:
    from ._sequences import Sequences

_EVEN, _UNEVEN = 0.01, 0.15
"""Largest difference of gaps, as a share of their mean: by rounding, and for regular times at most (months: 0.1)."""


@dataclass(frozen=True)
class Gaps:
    """Rule that shortens long gaps, so that a model does not forget the observations before them.

    Attributes:
        rule: "keep", "cap" (at most 50 times the median gap) or "log" (logarithmic; a median gap stays as it is).
        usual: Median gap of the training part.

    Example:
        >>> Gaps("cap", 2.0)(np.array([2.0, 1000.0])).tolist(), Gaps("log", 2.0)(np.array([2.0, 1022.0])).tolist()
        ([2.0, 100.0], [2.0, 18.0])
    """

    MOST: ClassVar[float] = 50.0

    rule: str
    usual: float

    def __post_init__(self) -> None:
        one_of("rule", self.rule, GAPS)
        number("usual", self.usual, above=0)

    def __call__(self, dt: Any) -> Any:
        """Returns an array of gaps as a model takes them."""
        if self.rule == "cap":
            return np.minimum(dt, self.MOST * self.usual)
        return np.log2(1 + dt / self.usual) * self.usual if self.rule == "log" else dt


def is_irregular(s: Sequences) -> bool:
    """Returns whether the times between observations differ by more than the lengths of months do.

    Example:
        >>> from chronode.data import from_list
        >>> [is_irregular(from_list([[1.0] * 3], times=[times])) for times in ([0, 31, 59], [0, 1, 3])]
        [False, True]
    """
    gaps = _positive(s)
    return len(gaps) > 0 and bool(np.ptp(gaps) > _UNEVEN * gaps.mean())


def step_gap(s: Sequences) -> float:
    """Returns the time from one step to the next: the median gap, or the mean if the gaps are steps of similar length.

    On a grid of mean months, every month has its own point, even if some months are missing; on one of 31 days, a year
    would have 11.8. Without times the gap is 1.

    Example:
        >>> from chronode.data import from_list
        >>> [step_gap(from_list([[1.0] * 4], times=[times], unit=1)) for times in ([0, 31, 59, 120], [0, 1, 2, 3.5])]
        [30.0, 1.0]
    """
    gaps, usual = _positive(s), s.median_gap() or 1.0
    if not len(gaps) or np.ptp(gaps) <= _EVEN * gaps.mean():
        return usual
    steps = np.maximum(np.round(gaps / usual), 1)
    mean = float(gaps.sum() / steps.sum())
    return mean if np.abs(gaps - steps * mean).max() <= _UNEVEN * mean else usual


def _positive(s: Sequences) -> NDArray[np.float64]:
    """Returns the times between observations, without those of the first steps."""
    gaps = np.zeros(0) if s.base_times is None else s.sample.dt
    return gaps[gaps > 0]


def note_on_gaps(s: Sequences, gaps: str = "keep") -> tuple[str, ...]:
    """Reports gaps of more than 50 times the median gap, and what they do.

    Example:
        >>> from chronode.data import from_list
        >>> times = [0, 1, 2, 3, 500]
        >>> note_on_gaps(from_list([[1.0] * 5], times=[times], unit=1), "cap")
        ('1 gap is more than 50 times the median of 1 (largest: 497, series 0): shortened to 50.',)
    """
    usual, s = s.median_gap(), s.sample
    if usual is None:
        return ()
    dt = s.dt
    dt[np.cumsum(s.lengths) - s.lengths] = 0  # before the first step
    long = np.flatnonzero(dt > Gaps.MOST * usual)
    if not len(long):
        return ()
    largest = int(long[dt[long].argmax()])
    series = s.ids[int(np.searchsorted(np.cumsum(s.lengths), largest, side="right"))]
    unit = "" if s.clock.unit_text() == "the given numbers" else f" {s.clock.unit_text()}"
    what = {
        "keep": "after them, most models have forgotten the steps before; "
        f"{named('gaps', 'cap')} or 'log' shortens them",
        "cap": f"shortened to {Gaps.MOST * usual:.4g}{unit}",
        "log": f"on a logarithmic scale (the longest counts as {Gaps('log', usual)(dt[largest]):.4g}{unit})",
    }[gaps]
    are = "is" if len(long) == 1 else "are"
    return (
        f"{counted(len(long), 'gap')} {are} more than {Gaps.MOST:g} times the median of {usual:.4g}{unit} "
        f"(largest: {dt[largest]:.4g}, series {series!s}): {what}.",
    )
