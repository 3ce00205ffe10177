"""An example file: made-up hospital charts at odd times, with empty cells, to try the command line on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .._checks import whole
from .._files import replacing


def write_example(path: str | Path, patients: int = 600, seed: int = 0) -> Path:
    """Writes a CSV of `patients` charts: pulse and temperature whenever someone measured, and the outcome.

    A patient gets worse if the pulse climbs by more than 6 beats an hour at some time: what counts is the change per
    hour, so a model has to use the times. One in five cells is empty.

    Example:
        >>> import tempfile
        >>> path = write_example(Path(tempfile.mkdtemp()) / "charts.csv", patients=2)
        >>> print(path.read_text().splitlines()[0])
        patient,charted_at,pulse,temperature,outcome
    """
    dice = np.random.default_rng(seed)
    rows = ["patient,charted_at,pulse,temperature,outcome"]
    for patient in range(whole("patients", patients, at_least=1)):
        rows += _chart(patient, dice)
    path = Path(path)
    with replacing(path) as draft:
        draft.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _chart(patient: int, dice: np.random.Generator) -> list[str]:
    count = int(dice.integers(8, 40))
    hours = np.cumsum(dice.exponential(1.2, count) + 0.05)
    start = np.datetime64("2026-01-05T08:00:00") + np.timedelta64(int(dice.integers(0, 90 * 86400)), "s")
    times = start + (hours * 3600).astype("timedelta64[s]")
    worse = bool(dice.random() < 0.5)
    rate = np.zeros(count)
    at = int(dice.integers(3, count - 3))
    rate[at : at + 4] = dice.uniform(8, 14) if worse else dice.uniform(0, 4)
    climbed = np.cumsum(rate * np.diff(hours, prepend=hours[0]))
    pulse = 72 + 6 * dice.normal() + climbed + 1.5 * dice.normal(size=count)
    temperature = 36.8 + 0.02 * climbed + 0.2 * dice.normal(size=count)
    seen = dice.random((count, 2)) > 0.2
    outcome = "worse" if worse else "stable"
    return [
        f"p{patient:04d},{time},{_cell(pulse[i], 1, seen[i, 0])},{_cell(temperature[i], 2, seen[i, 1])},{outcome}"
        for i, time in enumerate(times.astype(str))
    ]


def _cell(value: float, digits: int, seen: bool) -> str:
    return f"{value:.{digits}f}" if seen else ""
