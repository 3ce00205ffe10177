"""Example files for trying the command line: hospital charts with empty cells, and switches of machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...settings import whole
from ...storage import replacing

_MOST_MINUTES = 15
_DAY = 1440


def write_events(path: str | Path, machines: int = 26_000, seed: int = 0) -> Path:
    """Writes a CSV of events: machines report when they switch on or off; the target is whether the number of minutes
    that they ran is even or odd.

    It follows from the times between the rows, and every minute matters. The last row of a machine tells its state in
    the last minute.

    Example:
        >>> import tempfile
        >>> path = write_events(Path(tempfile.mkdtemp()) / "events.csv", machines=2)
        >>> print(path.read_text().splitlines()[0])
        machine,at,running,minutes
    """
    from ..tasks.bitstream import BLOCK, bitstream

    start, rows = np.datetime64("2026-01-05T08:00"), ["machine,at,running,minutes"]
    for machine, series in enumerate(bitstream(whole("series", machines, at_least=1), seed, longest=_MOST_MINUTES)):
        minutes = np.cumsum((series.dt * BLOCK).round().astype(int))
        times = start + np.timedelta64(machine % _DAY, "m") + minutes.astype("m8[m]")
        parity = "odd" if series.target else "even"
        for time, running in zip(times.astype(str), series.values[:, 0], strict=True):
            rows.append(f"m{machine:05d},{time},{running:.0f},{parity}")
    return _written(path, rows)


def write_example(path: str | Path, patients: int = 600, seed: int = 0) -> Path:
    """Writes a CSV of `patients` charts: pulse and temperature at irregular times, and the outcome.

    A patient deteriorates if the pulse rises by more than 6 beats per hour at some time: the change per hour matters,
    so a model has to use the times. One in five cells is empty.

    Example:
        >>> import tempfile
        >>> path = write_example(Path(tempfile.mkdtemp()) / "charts.csv", patients=2)
        >>> print(path.read_text().splitlines()[0])
        patient,charted_at,pulse,temperature,outcome
    """
    rng = np.random.default_rng(seed)
    rows = ["patient,charted_at,pulse,temperature,outcome"]
    for patient in range(whole("patients", patients, at_least=1)):
        rows += _chart(patient, rng)
    return _written(path, rows)


def _written(path: str | Path, rows: list[str]) -> Path:
    path = Path(path)
    with replacing(path) as draft:
        draft.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _chart(patient: int, rng: np.random.Generator) -> list[str]:
    count = int(rng.integers(8, 40))
    hours = np.cumsum(rng.exponential(1.2, count) + 0.05)
    start = np.datetime64("2026-01-05T08:00:00") + np.timedelta64(int(rng.integers(0, 90 * 86400)), "s")
    times = start + (hours * 3600).astype("timedelta64[s]")
    worse = bool(rng.random() < 0.5)
    rate = np.zeros(count)
    at = int(rng.integers(3, count - 3))
    rate[at : at + 4] = rng.uniform(8, 14) if worse else rng.uniform(0, 4)
    climbed = np.cumsum(rate * np.diff(hours, prepend=hours[0]))
    pulse = 72 + 6 * rng.normal() + climbed + 1.5 * rng.normal(size=count)
    temperature = 36.8 + 0.02 * climbed + 0.2 * rng.normal(size=count)
    measured = rng.random((count, 2)) > 0.2
    outcome = "worse" if worse else "stable"
    return [
        f"p{patient:04d},{time},{_cell(pulse[i], 1, there[0])},{_cell(temperature[i], 2, there[1])},{outcome}"
        for i, (time, there) in enumerate(zip(times.astype(str), measured, strict=True))
    ]


def _cell(value: float, digits: int, measured: bool) -> str:
    return f"{value:.{digits}f}" if measured else ""
