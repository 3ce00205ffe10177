"""Runs the tests of the GPU kernels, times the models on the GPU if there is one, and writes a report to send back.

`make test-gpu` runs `python -m chronode_bench.gpu_test -o build/gpu-test.md -- ARGUMENTS OF PYTEST`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import torch

import chronode
from chronode.storage import replacing

from .gpu import MODELS

LOOPS = ("mmrnn", "ltc", "ode-rnn", "gru-d", "lem", "cfc")
"""Models that run as a loop, or as captured graphs if asked for."""
STEPS, BATCH, HIDDEN, REPEATS = 256, 64, 64, 5


def main() -> None:
    """Runs the tests and writes the report; the exit code is that of the tests."""
    parser = argparse.ArgumentParser(description="Run the tests of the GPU kernels and write a report.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="report, in Markdown")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", f"--junitxml={file}", *options.pytest]
        code = subprocess.run(command).returncode
        text = file.read_text(encoding="utf-8") if file.exists() else "<testsuites/>"
    lines = [*_machine(), *tests(text), *(_timings("cuda") if torch.cuda.is_available() else _no_gpu())]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with replacing(options.output) as draft:
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{options.output}: the report")
    sys.exit(code)


def _machine() -> Iterator[str]:
    yield from ("# Tests of the GPU kernels", "")
    for name in ("chronode", "torch", "triton"):
        yield f"- {name} {importlib.metadata.version(name)}"
    yield f"- Python {platform.python_version()}, {platform.platform()}"
    yield f"- CUDA {torch.version.cuda}, ROCm {torch.version.hip}"
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        yield f"- {about.name}, {about.total_memory / 2**30:.0f} GiB, {about.multi_processor_count} multiprocessors"


def tests(report: str) -> Iterator[str]:
    """Yields the numbers of tests, and the failed ones with their messages, from a report of pytest's in XML."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    failed = [(case, part) for case in cases for part in case if part.tag in ("failure", "error")]
    skipped = sum(case.find("skipped") is not None for case in cases)
    seconds = sum(float(case.get("time", 0)) for case in cases)
    where = "on the GPU" if torch.cuda.is_available() else "by Triton's interpreter"
    yield from ("", "## Tests", "")
    passed = len(cases) - len(failed) - skipped
    yield f"{passed} passed, {len(failed)} failed, {skipped} skipped, {where}, in {seconds:.0f} s."
    for case, part in failed:
        yield from ("", f"### {case.get('name')}", "", "```text", (part.get("message") or "").strip(), "```")


def _no_gpu() -> Iterator[str]:
    yield from ("", "## Timings", "", "None: torch sees no GPU on this machine.")


def _timings(device: str) -> Iterator[str]:
    yield from ("", "## Timings", "")
    yield f"T {STEPS}, B {BATCH}, H {HIDDEN}, 8 features, float32: best of {REPEATS}, forward and backward, in ms."
    yield from ("", "| model | kernel | CUDA graphs | loop |", "| --- | ---: | ---: | ---: |")
    for model in (*MODELS, *LOOPS):
        kernel = milliseconds(model, "auto", device) if model in MODELS else None
        graphs = milliseconds(model, "auto", device, graphs=True) if model in LOOPS else None
        numbers = (kernel, graphs, milliseconds(model, "torch", device))
        yield f"| {model} | " + " | ".join("" if one is None else one for one in numbers) + " |"


def milliseconds(model: str, backend: str, device: str, graphs: bool = False) -> str:
    """Returns the time of a training step of a layer, or the error that it ended with."""
    os.environ["CHRONODE_CUDA_GRAPHS"] = "on" if graphs else "off"
    best = float("inf")
    try:
        layer = chronode.create(model, 8, HIDDEN).to(device)
        x, dt = torch.randn(BATCH, STEPS, 8, device=device), torch.rand(BATCH, STEPS, device=device)
        with chronode.backend(backend), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(REPEATS + 1):
                start = time.perf_counter()
                layer(x, dt=dt)[0].sum().backward()
                if device == "cuda":
                    torch.cuda.synchronize()
                best = min(best, time.perf_counter() - start)
    except Exception as error:  # a report with one failed model is worth more than none
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return f"{1e3 * best:.2f}"


if __name__ == "__main__":
    main()
