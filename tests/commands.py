"""The command line, in this process where possible (starting another takes seconds), and files to give to it."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np


class Done(NamedTuple):
    code: int
    out: str
    err: str


def chronode(*arguments: object, code: int | None = 0, plots: bool = False, columns: int = 160) -> Done:
    """Runs `chronode ...` as `main` does and checks its exit code, unless None; reports are written only if asked for.

    `columns` is the width of the terminal; 0 says nothing about it.
    """
    from chronode.cli import main

    words = ["chronode", *map(str, arguments)]
    out, err, found = io.StringIO(), io.StringIO(), 0
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.argv", words),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)} if columns else {}),
        contextlib.nullcontext() if plots else mock.patch("chronode.report.run_page.draw_run"),
    ):
        try:
            main()
        except SystemExit as end:
            found = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, on_ctrl_c)  # `main` ignores Ctrl-C once its work is done
    done = Done(found, out.getvalue(), err.getvalue())
    assert code is None or done.code == code, done
    return done


def run(*arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `chronode ...` with its plots; with another environment, in a process of its own."""
    if not environment:
        done = chronode(*arguments, code=code, plots=True)
        return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)
    changed = {**os.environ, "COLUMNS": "160", "OMP_NUM_THREADS": "1", **environment}
    ended = subprocess.run([sys.executable, "-c", MAIN, *arguments], capture_output=True, text=True, env=changed)
    assert ended.returncode == code, ended.stderr
    return ended


def write_vitals(path: Path, patients: int = 40, seed: int = 0, **columns: object) -> Path:
    """A small file of patients: irregular times, missing cells, a class per patient that the pulse tells.

    `columns` replaces a column by name: None leaves it out, a function is called with the row.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        ill = patient % 3 == 0
        moment = np.datetime64("2024-01-01T00:00") + np.timedelta64(60 * patient, "m")
        for _ in range(int(rng.integers(4, 9))):
            moment = moment + np.timedelta64(int(rng.integers(10, 90)), "m")
            pulse, warmth = rng.normal(100 if ill else 65, 6), rng.normal(37.8 if ill else 36.7, 0.3)
            row = {"patient": f"p{patient:02d}", "charted_at": str(moment)}
            row["hr"] = f"{pulse:.1f}" if rng.random() > 0.15 else ""
            row["temp"] = f"{warmth:.2f}" if rng.random() > 0.15 else ""
            row["outcome"] = "ill" if ill else "well"
            row |= {name: make(row) for name, make in columns.items() if callable(make)}
            rows.append({name: cell for name, cell in row.items() if columns.get(name, "") is not None})
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


MAIN = "from chronode.cli import main; main()"
VITALS = ("--target", "outcome", "--id", "patient", "--time", "charted_at")
QUICK = ("--model", "mmrnn", "--hidden", "8", "--batch-size", "8", "--threads", "1", "--lr", "0.02")
