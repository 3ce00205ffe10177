"""Early prediction: metrics of a model that has seen only the beginning of each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data import Sequences, is_number, seconds_of
from ..judge import intervals_by_target
from ..settings import SettingError, named, whole
from ..storage import Result
from ..training import Trained


@dataclass(frozen=True)
class EarlyScores(Result):
    """Metrics over the part of each series that was seen.

    Attributes:
        labels: Limit of each row, as it was given, such as "6h"; "all" for whole series.
        at: Limits in the unit of time of the data, or in steps; that of "all" is the longest series.
        scores: Metrics of each row.
        low: Lower ends of the 95% intervals of the metrics that have one.
        high: Upper ends.
        steps: Mean number of steps seen.
        ended: Share of the series that had ended by then.
        unit: Unit of `at`.
    """

    labels: tuple[str, ...]
    at: tuple[float, ...]
    scores: tuple[dict[str, float], ...]
    low: tuple[dict[str, float], ...]
    high: tuple[dict[str, float], ...]
    steps: tuple[float, ...]
    ended: tuple[float, ...]
    unit: str


def early_scores(
    trained: Trained, data: Sequences, *, until: Sequence[str] = (), first: Sequence[int] = ()
) -> EarlyScores:
    """Measures a model on the beginning of every series, and on whole series.

    Args:
        trained: The model, with one target per series.
        data: Series with targets, scaled like the training series.
        until: Times since the first observation, such as "6h", or numbers if times are numbers.
        first: Numbers of observations, instead of `until`.
    """
    if trained.objective.per_step or (trained.reading is not None and trained.reading.horizon):
        raise SettingError(
            f"{named('until')} needs one target per series; this model predicts at every step or forecasts",
            argument="until",
            cure=f"omit {named('until')}",
        )
    if bool(until) == bool(first):
        raise SettingError(f"pass one of {named('until')} and {named('first')}.", argument="until")
    data = data.labeled()
    steps = data.times - np.repeat(data.times[np.cumsum(data.lengths) - data.lengths], data.lengths)
    starts = np.cumsum(data.lengths) - data.lengths
    if first:
        limits = sorted({whole("first", count, at_least=1) for count in first})
        lengths = [np.minimum(data.lengths, limit) for limit in limits]
        labels, at, unit = [str(limit) for limit in limits], [float(limit) for limit in limits], "observations"
        last = float(data.lengths.max())
    else:
        pairs = sorted((_limit(text, data), text) for text in dict.fromkeys(until))
        labels, at, unit = [text for _, text in pairs], [limit for limit, _ in pairs], data.clock.unit_text()
        lengths = [np.maximum(1, np.add.reduceat(steps <= limit * (1 + 1e-9), starts)) for limit in at]
        last = float(steps.max())
    rows = [(replace(data, lengths=seen_lengths.astype(np.int64)), seen_lengths) for seen_lengths in lengths] + [
        (data, data.lengths)
    ]
    scores = [trained.evaluate(part) for part, _ in rows]
    ends = [_intervals(trained, part) for part, _ in rows]
    return EarlyScores(
        (*labels, "all"),
        (*at, max(last, *at)),
        tuple(scores),
        tuple({name: low for name, (low, _) in intervals.items()} for intervals in ends),
        tuple({name: high for name, (_, high) in intervals.items()} for intervals in ends),
        tuple(float(seen_lengths.mean()) for _, seen_lengths in rows),
        tuple(float((seen_lengths == data.lengths).mean()) for _, seen_lengths in rows),
        unit,
    )


def _limit(text: str, data: Sequences) -> float:
    """Returns a time since the first observation in the unit of the data."""
    numbers = not data.clock.dates and (data.base_times is None or is_number(data.clock.unit))
    if numbers:
        try:
            return float(text) / data.clock.scale
        except ValueError:
            cure = "pass a number, as in the column of times"
            raise SettingError(f"{named('until', text)}: times are numbers here", argument="until", cure=cure) from None
    try:
        return seconds_of(text)[1] / data.clock.scale
    except ValueError:
        raise SettingError(
            f"{named('until', text)} is not a duration such as 6h, 30 min or 2d.", argument="until"
        ) from None


def _intervals(trained: Trained, part: Sequences) -> dict[str, tuple[float, float]]:
    return intervals_by_target(trained.objective, part, trained.predict(part))
