"""Summary of Sequences, shown before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ._names import counted
from ._sequences import Sequences
from ._times import SECONDS, Clock

MOSTLY_MISSING = 0.6
MOST_NAMES = 12


@dataclass(frozen=True)
class Facts:
    """Summary made by `describe`; `str` gives it as one line.

    Attributes:
        rows: Number of rows of the table that was read; otherwise the steps of all series.
        series: Number of series.
        shortest: Steps of the shortest series.
        longest: Steps of the longest series.
        gap: Median time between observations, in `unit`; None if there are no times or no gaps.
        unit: Unit of time.
        gap_text: The gap with its unit, such as "47 min".
        channels: Names of the channels.
        missing: Channel -> share of missing values, if any are missing.
        target: Description of the target; "" if there is none.
        classes: Class -> number of series or steps; empty for numbers.
        static: Names of the static values.
    """

    rows: int
    series: int
    shortest: int
    longest: int
    gap: float | None
    unit: str
    gap_text: str
    channels: tuple[str, ...]
    missing: dict[str, float]
    target: str
    classes: dict[str, int]
    static: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the summary as plain data for JSON."""
        return {**asdict(self), "channels": list(self.channels), "static": list(self.static)}

    def __str__(self) -> str:
        length = f"{self.shortest:,}" if self.shortest == self.longest else f"{self.shortest:,}-{self.longest:,}"
        steps = f"{length} observation{'s' if self.longest != 1 else ''}{' each' if self.series > 1 else ''}"
        gap = [f"median gap: {self.gap_text}"] if self.gap_text else []
        parts = [f"{counted(self.rows, 'row')} → {counted(self.series, 'series')}", steps, *gap, self._channels()]
        if self.static:
            parts.append(f"{counted(len(self.static), 'static value')} ({_some(self.static, MOST_NAMES)})")
        return ", ".join([*parts, *([self.target] if self.target else [])])

    @property
    def time(self) -> str:
        """The time unit in words: "time unit: hours (median gap ≈ 0.78)"."""
        return f"time unit: {self.unit}" + ("" if self.gap is None else f" (median gap ≈ {self.gap:.2g})")

    def _channels(self) -> str:
        """Lists the channels, the share of missing values and the channels with the most."""
        text = f"{counted(len(self.channels), 'channel')} ({_some(self.channels, MOST_NAMES)})"
        if not self.missing:
            return text
        mostly = [(share, name) for name, share in self.missing.items() if share > MOSTLY_MISSING]
        most = [f"{name} {percent(share)}" for share, name in sorted(mostly, reverse=True)]
        share = sum(self.missing.values()) / len(self.channels)
        return f"{text}, {percent(share)} of values missing" + (f" ({_some(most, 3)})" if most else "")


def percent(share: float) -> str:
    """Formats a share as "49%", with more digits where rounding would give 0% or 100%.

    Example:
        >>> percent(0.494), percent(0.0004), percent(0.9964), percent(1.0)
        ('49%', '0.04%', '99.6%', '100%')
    """
    text = f"{100 * share:.0f}"
    return f"{100 * share:.3g}%" if text in ("0", "100") else f"{text}%"


def _some(names: Sequence[str], most: int) -> str:
    shown = [f'"{name}"' if "," in name else name for name in names[:most]]
    return ", ".join([*shown, *(["..."] if len(names) > most else [])])


def facts(s: Sequences) -> Facts:
    """Summarizes `s`.

    Example:
        >>> from chronode.data import from_list
        >>> times = [["2024-01-01 10:00", "2024-01-01 10:47"], ["2024-01-02"]]
        >>> print(from_list([[1.0, 2.0], [3.0]], times=times, target=["n", "y"], channels=["hr"]).describe())
        3 rows → 2 series, 1-2 observations each, median gap: 47 min, 1 channel (hr), target: 2 classes (class "y": 50%)
    """
    whole = s.compact()
    gap = s.median_gap()
    missing = {}
    if s.has_missing:
        shares = np.isnan(whole.base_values).mean(axis=0)
        missing = {name: float(share) for name, share in zip(s.channels, shares.tolist(), strict=True) if share}
    target, classes = _target(whole)
    return Facts(
        rows=int(s.lengths.sum()) if s.rows is None else s.rows,
        series=len(s),
        shortest=int(s.lengths.min(initial=2**62)) if len(s) else 0,
        longest=int(s.lengths.max(initial=0)),
        gap=gap,
        unit=s.clock.unit_text(),
        gap_text="" if gap is None else _in_words(gap, s.clock),
        channels=s.channels,
        missing=missing,
        target=target,
        classes=classes,
        static=s.static_names,
    )


def _target(s: Sequences) -> tuple[str, dict[str, int]]:
    """Returns (description, class -> count)."""
    target = s.target
    if target is None:
        return "", {}
    name = ", ".join(target.names[:3]) + (", ..." if len(target.names) > 3 else "")
    each = " per step" if target.per_step else ""
    if target.classes is None:
        if not target.known.any():
            return f"{name}: unknown", {}
        known = target.values[target.known].astype(np.float64)
        if len(target.names) > 1:
            return f"{len(target.names)} targets{each}: {name}", {}
        return f"{name}{each}: {known.mean():.3g} ± {known.std():.2g} ({known.min():.3g} to {known.max():.3g})", {}
    counts = np.bincount(target.values[target.known], minlength=len(target.classes))
    share = counts / max(counts.sum(), 1)
    if len(target.classes) == 2:
        balance = f'class "{target.classes[1]}": {percent(float(share[1]))}'
    else:
        balance = f"{percent(float(share.min(initial=1)))} to {percent(float(share.max(initial=0)))} each"
    text = f"{name}{each}: {counted(len(target.classes), 'class')} ({balance})"
    return text, dict(zip(target.classes, counts.tolist(), strict=True))


def _in_words(gap: float, clock: Clock) -> str:
    """Formats a calendar gap such as "47 min", otherwise the number with its unit, if any."""
    if not clock.dates and not clock.format:
        named = clock.unit[0].isalpha() or " " in clock.unit
        return (
            f"{gap:.3g} {clock.unit if f'{gap:.3g}' == '1' else clock.unit_text()}"
            if named
            else f"{gap * clock.scale:.3g}"
        )
    seconds = gap * clock.scale
    short = {"year": "years", "week": "weeks", "day": "days", "hour": "h", "minute": "min", "second": "s"}
    short |= {"millisecond": "ms", "microsecond": "µs", "nanosecond": "ns"}
    name = next((name for name in short if seconds >= SECONDS[name]), "nanosecond")
    count = f"{seconds / SECONDS[name]:.3g}"
    return f"{count} {name if count == '1' and short[name].startswith(name) else short[name]}"
