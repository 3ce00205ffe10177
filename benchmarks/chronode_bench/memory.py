"""Peak memory of one training batch, measured in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chronode import compiler
from chronode.nn import create

from .cases import BenchCase

MEMORY_CASES = (
    BenchCase("UnICORNN T16384 B32 H128 L3, last, low", "unicornn", 16384, 32, 1, 128, 3,
         settings={"outputs": "last", "memory": "low"}, goals={"MiB": 64}),
    BenchCase("UnICORNN T16384 B32 H128 L3, last, fast", "unicornn", 16384, 32, 1, 128, 3,
         settings={"outputs": "last", "memory": "fast"}),
    BenchCase("LinOSS imex T16384 B32 H128, last, low", "linoss", 16384, 32, 1, 128,
         settings={"discretization": "imex", "outputs": "last", "memory": "low"}, goals={"MiB": 64}),
)  # fmt: skip


def peak_mebibytes(case: BenchCase) -> float:
    """Returns the peak memory in MiB, beyond the process, the input and the weights."""
    command = [sys.executable, "-c", f"from chronode_bench.memory import _child; _child({case.name!r})"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"measuring {case.name} failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout)


def _child(name: str) -> None:
    case = next(case for case in MEMORY_CASES if case.name == name)
    x, dt = case.data()
    layer = create(case.model, case.features, case.hidden, case.layers, **case.settings)
    compiler.use(layer)
    layer(x[:, :8], dt=dt[:, :8])[0].sum().backward()  # loads libraries, starts threads
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status("VmRSS")
    layer(x, dt=dt)[0].sum().backward()
    print((_status("VmHWM") - before) / 1024)


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {key}; peak memory is measured on Linux only.")
