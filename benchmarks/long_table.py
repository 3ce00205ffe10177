"""Time and memory for turning 10 million rows of a long table into Sequences.

    python benchmarks/long_table.py [ROWS]

Ids are text, times are dates, the rows are in random order, a tenth of the cells is empty. Every case runs in its own
process; memory is that process's peak, the table itself, Python and torch included. Goal: 20 s and 4 GiB.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS = 10_000_000
SERIES = 20_000
CHANNELS = 5
GOAL_SECONDS, GOAL_GIB = 20.0, 4.0
OPTIONS = {"id": "patient", "time": "charted_at", "target": "outcome"}


def main(rows: int) -> None:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        run("make", folder, rows)
        for case in ("Parquet", "pandas frame", "polars frame", "CSV"):
            seconds, cpu, gib = (float(word) for word in run(case, folder, rows).split())
            verdict = "reached" if seconds < GOAL_SECONDS and gib < GOAL_GIB else "missed"
            results.append((case, seconds, cpu, gib, verdict))
            print(
                f"{rows:,} rows, {case}: {seconds:.1f} s ({cpu:.1f} s CPU), peak {gib:.2f} GiB ({verdict})", flush=True
            )
    write(rows, results)


def run(case: str, folder: str, rows: int) -> str:
    command = [sys.executable, __file__, case, folder, str(rows)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write(rows: int, results: list[tuple[str, float, float, float, str]]) -> None:
    lines = [
        "# A long table becomes Sequences",
        "",
        f"{rows:,} rows in random order: a text id ({SERIES:,} series), a date, {CHANNELS} numbers (a tenth of them",
        "missing), a label.",
        "Peak memory is that of the whole process, with the table. For frames the time is that of `from_long` alone;",
        "for files it includes reading. Made by `python benchmarks/long_table.py` on 2 cores.",
        "",
        "| from | seconds | CPU seconds | peak GiB | goal: < 20 s, < 4 GiB |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    lines += [f"| {case} | {s:.1f} | {cpu:.1f} | {gib:.2f} | {verdict} |" for case, s, cpu, gib, verdict in results]
    load = os.getloadavg()[0]
    lines += ["", f"Load of the machine's {os.cpu_count()} cores at the end, this run included: {load:.1f}."]
    (Path(__file__).parent / "long_table.md").write_text("\n".join(lines) + "\n")


def make(folder: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    who = rng.integers(SERIES, size=rows)
    when = np.datetime64("2024-01-01", "ms") + rng.integers(0, 300 * 86_400_000, size=rows).astype("m8[ms]")
    names = pa.array([f"patient-{i:05d}" for i in range(SERIES)])
    columns = {"patient": names.take(pa.array(who)), "charted_at": pa.array(when)}
    for i in range(CHANNELS):
        missing = rng.random(rows) < 0.1
        columns[f"channel{i}"] = pa.array(rng.normal(size=rows).round(4), mask=missing)
    columns["outcome"] = pa.array(["well", "ill"]).take(pa.array(who % 2))
    table = pa.table(columns)
    pyarrow.parquet.write_table(table, folder / "long.parquet")
    pyarrow.csv.write_csv(table, folder / "long.csv")


def measure(case: str, folder: Path, rows: int) -> None:
    from chronode.data import from_long, read

    if case.endswith("frame"):
        import pandas
        import polars

        library = pandas if case.startswith("pandas") else polars
        frame = library.read_parquet(folder / "long.parquet")
        start = time.perf_counter(), time.process_time()
        made = from_long(frame, **OPTIONS)
    else:
        start = time.perf_counter(), time.process_time()
        made = read(folder / f"long.{case.lower()}", **OPTIONS)
    seconds, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    assert len(made) == min(SERIES, len(made)) and made.lengths.sum() > 0.99 * rows
    print(seconds, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
    elif sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        measure(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
