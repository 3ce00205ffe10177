"""The facts of Sequences that a user wants to see before training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .names import counted
from .sequences import Sequences
from .times import SECONDS, Clock

MOSTLY_MISSING = 0.6


@dataclass(frozen=True)
class Facts:
    """What `describe` tells; `str` gives it as one line.

    Attributes:
        rows: steps of all series.
        series: their number.
        shortest: steps of the shortest series.
        longest: and of the longest.
        gap: median time between observations, in `unit`; None if there are no times or no gaps.
        unit: of time.
        gap_told: the gap in words: "47 min".
        channels: their number.
        missing: channel -> share of missing values, where any is missing.
        target: the target in words; "" if there is none.
        classes: class -> number of series or steps; empty for numbers.
    """

    rows: int
    series: int
    shortest: int
    longest: int
    gap: float | None
    unit: str
    gap_told: str
    channels: int
    missing: dict[str, float]
    target: str
    classes: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        length = f"{self.shortest:,}" if self.shortest == self.longest else f"{self.shortest:,}-{self.longest:,}"
        parts = [f"{counted(self.rows, 'row')} → {counted(self.series, 'series')}"]
        parts.append(f"{length} observation{'s' if self.longest != 1 else ''}")
        if self.gap_told:
            parts.append(f"median gap {self.gap_told}")
        mostly = sum(share > MOSTLY_MISSING for share in self.missing.values())
        told = f" ({mostly} with > 60 % missing)" if mostly else ""
        parts.append(f"{counted(self.channels, 'channel')}{told}")
        return ", ".join([*parts, *([self.target] if self.target else [])])

    @property
    def time(self) -> str:
        """The time unit in words: "time unit: hours (median gap ≈ 0.78)"."""
        return f"time unit: {self.unit}" + ("" if self.gap is None else f" (median gap ≈ {self.gap:.2g})")


def facts(s: Sequences) -> Facts:
    """The facts of `s`.

    Example:
        >>> from chronode.data import from_list
        >>> print(from_list([[1.0, 2.0], [3.0]], times=[["2024-01-01 10:00", "2024-01-01 10:47"], ["2024-01-02"]],
        ...     target=["ill", "well"]).describe())
        3 rows → 2 series, 1-2 observations, median gap 47 min, 1 channel, target: 2 classes (50 % well)
    """
    whole = s.compact()
    gap = s.median_gap()
    missing = {}
    if s.has_missing:
        shares = np.isnan(whole.base_values).mean(axis=0)
        missing = {name: float(share) for name, share in zip(s.channels, shares.tolist(), strict=True) if share}
    target, classes = _target(whole)
    return Facts(
        rows=int(s.lengths.sum()),
        series=len(s),
        shortest=int(s.lengths.min(initial=2**62)) if len(s) else 0,
        longest=int(s.lengths.max(initial=0)),
        gap=gap,
        unit=s.clock.told(),
        gap_told="" if gap is None else _in_words(gap, s.clock),
        channels=s.num_channels,
        missing=missing,
        target=target,
        classes=classes,
    )


def _target(s: Sequences) -> tuple[str, dict[str, int]]:
    """(in words, class -> count)."""
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
        positive = "positive" if target.classes[1] in ("1", "True", "true", "yes") else target.classes[1]
        balance = f"{share[1]:.0%} {positive}"
    else:
        balance = f"{share.min(initial=1):.0%} to {share.max(initial=0):.0%} each"
    told = f"{name}{each}: {len(target.classes)} classes ({balance.replace('%', ' %')})"
    return told, dict(zip(target.classes, counts.tolist(), strict=True))


def _in_words(gap: float, clock: Clock) -> str:
    """A gap of the calendar as "47 min", else the number, with its unit if it has one."""
    if not clock.dates:
        named = clock.unit[0].isalpha() or " " in clock.unit
        return f"{gap:.3g} {clock.told()}" if named else f"{gap * clock.scale:.3g}"
    seconds = gap * clock.scale
    short = {"year": "years", "week": "weeks", "day": "days", "hour": "h", "minute": "min", "second": "s"}
    short |= {"millisecond": "ms", "microsecond": "µs", "nanosecond": "ns"}
    name = next((name for name in short if seconds >= SECONDS[name]), "nanosecond")
    return f"{seconds / SECONDS[name]:.3g} {short[name]}"
