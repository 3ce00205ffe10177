"""Runs the benchmark cases and reports the results: tables, JSON, Markdown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from chronode._version import __version__
from chronode.kernels import status
from chronode.storage import replacing
from chronode.system import cpu_model

from .cases import CASES as CASES
from .cases import BenchCase
from .cases import all_models as all_models
from .memory import MEMORY_CASES, peak_mebibytes
from .timing import Timing, limit, time_case

Tell = Callable[[str], None]


@dataclass(frozen=True)
class CaseTimes:
    """Results of one case: seconds of training and inference, by contender."""

    case: BenchCase
    times: dict[str, Timing]

    def ratio(self, other: str) -> float | None:
        """Returns how many times faster chronode trains than `other`; for the limit, how many times slower."""
        if other not in self.times:
            return None
        ours, theirs = self.times["chronode"].train, self.times[other].train
        return ours / theirs if other == "limit" else theirs / ours

    def reached(self) -> bool:
        """Returns whether every goal of the case is reached."""
        return all(
            (ratio := self.ratio(other)) is not None and (ratio <= goal if other == "limit" else ratio >= goal)
            for other, goal in self.case.goals.items()
        )


def run_cases(
    cases: Sequence[BenchCase], repeats: int, tell: Tell, only: set[str] | None = None, device: str = "cpu"
) -> list[CaseTimes]:
    """Times the cases one after another; goals and limits apply to the CPU only."""
    rows = []
    for case in cases:
        times = time_case(case, repeats, tell, only, device)
        if device != "cpu":
            rows.append(CaseTimes(replace(case, goals={}), times))
            continue
        tell(f"{case.name}: matrix products alone")
        products = limit(case)
        rows.append(CaseTimes(case, times if products is None else {**times, "limit": products}))
    return rows


def scaled(case: BenchCase) -> list[BenchCase]:
    """Returns the case at 1x, 2x and 4x the time steps, then the batch."""
    longer = [replace(case, name=f"{case.name}, T x{k}", time=k * case.time, goals={}) for k in (1, 2, 4)]
    wider = [replace(case, name=f"{case.name}, B x{k}", batch=k * case.batch, goals={}) for k in (2, 4)]
    return longer + wider


def machine() -> dict[str, Any]:
    """Returns the machine and the versions of the measurements."""
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return gpu | {
        "cpu": cpu_model(),
        "threads": torch.get_num_threads(),
        "kernels": status(),
        "chronode": __version__,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def as_dict(rows: Sequence[CaseTimes], memory: dict[str, float]) -> dict[str, Any]:
    """Returns the results as plain data."""
    entries = [
        {
            "case": row.case.name,
            "seconds": {name: vars(timing) for name, timing in row.times.items()},
            "ratios": {name: row.ratio(name) for name in row.times if name != "chronode"},
            "goals": row.case.goals,
            "reached": row.reached(),
        }
        for row in rows
    ]
    return {"machine": machine(), "rows": entries, "peak MiB": memory}


def measure_memory(tell: Tell) -> dict[str, float]:
    """Returns the peak memory of each memory case, in MiB."""
    found = {}
    for case in MEMORY_CASES:
        tell(f"memory: {case.name}")
        found[case.name] = peak_mebibytes(case)
    return found


def as_markdown(rows: Sequence[CaseTimes], memory: dict[str, float]) -> str:
    """Returns the results as a table, followed by the machine."""
    lines = [
        "| shape | chronode ms | inference ms | loop / ours | torch LSTM / ours | ncps / ours | ours / limit |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        ours = row.times["chronode"]
        ratios = [_ratio_text(row, other) for other in ("loop", "lstm", "ncps", "limit")]
        lines.append(
            f"| {row.case.name} | {1e3 * ours.train:.1f} | {1e3 * ours.inference:.1f} | {' | '.join(ratios)} |"
        )
    if memory:
        goals = {case.name: case.goals.get("MiB") for case in MEMORY_CASES}
        lines += ["", "| memory of one training batch beyond input and weights | MiB | goal |", "| --- | ---: | ---: |"]
        lines += [f"| {name} | {mib:.1f} | {goals[name] or ''} |" for name, mib in memory.items()]
    facts = machine()
    lines += [
        "",
        f"{facts.get('gpu', facts['cpu'])}, {facts['threads']} threads, torch {facts['torch']}, {facts['kernels']}, "
        f"{facts['date']}.",
    ]
    return "\n".join(lines)


def _ratio_text(row: CaseTimes, other: str) -> str:
    ratio, goal = row.ratio(other), row.case.goals.get(other)
    if ratio is None:
        return ""
    sign = "≤" if other == "limit" else "≥"
    return tell(ratio) + (f" ({sign} {tell(goal)})" if goal else "")


def tell(ratio: float) -> str:
    """Returns a ratio with as many digits as it needs."""
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2g}"


def write(path: Path, text: str) -> None:
    """Writes a report atomically."""
    with replacing(path) as draft:
        draft.write_text(text)


def write_json(path: Path, rows: Sequence[CaseTimes], memory: dict[str, float]) -> None:
    """Writes the results as JSON."""
    write(path, json.dumps(as_dict(rows, memory), indent=2) + "\n")
