"""Exported C99: accuracy with 8-bit weights, rounding over 10,000 steps, microseconds per step, and a Cortex-M4.

    python benchmarks/edge.py [accuracy] [rounding] [steps] [device]

Without arguments, all are measured. The tables are written into docs/edge.md; those that were not asked for stay.
`accuracy` trains on JapaneseVowels (ships with aeon) and HAR-2 (downloaded once); `device` needs the packages that
benchmarks/cortex_m4.py names.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cortex_m4
import numpy as np
import torch

import chronode
from chronode.export import Exported
from chronode.export._c import CRunner, write_c
from chronode.export._deployment import Graph, Series
from chronode.export._onnx import OnnxRunner, write_onnx
from chronode.export._verify import irregular, predictions
from chronode.runs import Config, Trained, load, train_run

PAGE = Path(__file__).parents[1] / "docs" / "edge.md"
PAPERS = ("mmrnn", "unicornn", "ltc", "irnn", "ernn")
BESIDE = ("fastgrnn", "lstm")
SIZES = (32, 64)
WEIGHTS = ("float32", "int8")
CHANNELS, CLASSES = 6, 6
SEEDS = (0, 1, 2)
ROUNDING_STEPS = 10_000
TRAINING = {"batch_size": 16, "threads": 1}
MODELS: dict[str, dict[str, Any]] = {"mmrnn": {"hidden": 32}, "unicornn": {"hidden": 64, "layers": 2}}

BENCH = """
#include <stdio.h>
#include <time.h>
#include "chronode_model.h"
int main(void)
{
    static chronode_model_state state;
    float x[CHRONODE_MODEL_INPUTS], y[CHRONODE_MODEL_OUTPUTS], sum = 0.0f;
    double best = 1e30;
    for (int round = 0; round < 7; ++round) {
        const clock_t begin = clock();
        chronode_model_init(&state);
        for (int step = 0; step < STEPS; ++step) {
            for (int i = 0; i < CHRONODE_MODEL_INPUTS; ++i) {
                x[i] = (float)((step * 7 + i * 3) % 11) * 0.1f;
            }
            chronode_model_step(&state, x, 0, 1.0f, y);
            sum += y[0];
        }
        const double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = took < best ? took : best;
    }
    printf("%g %g\\n", 1e6 * best / STEPS, (double)sum);
    return 0;
}
"""


def main() -> None:
    parts: dict[str, Callable[[], list[str]]] = {"accuracy": accuracy, "rounding": rounding}
    parts |= {"steps": steps, "device": device}
    torch.set_num_threads(1)
    for name in sys.argv[1:] or parts:
        table = "\n".join(parts[name]())
        text = re.sub(rf"(?s)(<!-- {name} -->\n).*?(<!-- /{name} -->)", rf"\1\n{table}\n\n\2", PAGE.read_text())
        PAGE.write_text(text)


def accuracy() -> list[str]:
    """Test accuracy of chronode and of the exported C with 8-bit weights, over several seeds."""
    lines = ["| data | model | test series | float32 | int8 | lost, points | largest loss | flash float32 | int8 |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, (config, test) in _tasks().items():
        for model, settings in MODELS.items():
            asked = {**config, "model": {"model": model, **settings}}
            found = [_accuracies(asked, seed, test) for seed in SEEDS]
            right, rounded = (np.array([one[kind] for one in found]) for kind in WEIGHTS)
            flash = [f"{found[0]['flash'][kind]:,} bytes" for kind in WEIGHTS]
            share = found[0]["flash"]["int8"] / found[0]["flash"]["float32"]
            row = f"{found[0]['series']:,} | {right.mean():.2f}% | {rounded.mean():.2f}%"
            row += f" | {(right - rounded).mean():.2f} | {(right - rounded).max():.2f}"
            lines.append(f"| {name} | {model} | {row} | {flash[0]} | {flash[1]} ({100 * share:.0f}%) |")
            print(lines[-1], flush=True)
    return lines


def _accuracies(asked: dict[str, Any], seed: int, test: str | None) -> dict[str, Any]:
    """Trains with a seed; the accuracy in percent and the flash in bytes with both kinds of weights."""
    with tempfile.TemporaryDirectory() as place:
        train_run(Config.from_dict({**asked, "training": {**asked["training"], "seed": seed}}), Path(place) / "run")
        trained = load(Path(place) / "run")
        data = trained.series(test, labeled=True, anyway=True)
        labels, right = _labels(trained, data), np.array(trained.predict(data).labels)
        done = {kind: chronode.export(trained, Path(place) / kind, weights=kind) for kind in WEIGHTS}
        rounded = _predictions(done["int8"], trained, test)
    flash = {kind: int(one.costs["flash"].split()[0].replace(",", "")) for kind, one in done.items()}
    shares = {"float32": 100 * np.mean(right == labels), "int8": 100 * np.mean(rounded == labels)}
    return {**shares, "flash": flash, "series": len(data)}


def _tasks() -> dict[str, tuple[dict[str, Any], str | None]]:
    import aeon

    vowels = Path(aeon.__file__).parent / "datasets" / "data" / "JapaneseVowels"
    return {
        "JapaneseVowels": (
            {"data": {"source": str(vowels / "JapaneseVowels_TRAIN.ts")}, "training": {**TRAINING, "epochs": 40}},
            str(vowels / "JapaneseVowels_TEST.ts"),
        ),
        "HAR-2": ({"data": {"source": "har-2"}, "training": {**TRAINING, "batch_size": 64, "epochs": 4}}, None),
    }


def _labels(trained: Trained, data: Any) -> np.ndarray:
    classes = np.array(trained.objective.classes)
    return classes[data.with_classes(trained.objective.classes).target.values]


def _predictions(done: Exported, trained: Trained, test: str | None) -> np.ndarray:
    """The likeliest class of each series, by the exported C on raw observations."""
    from dataclasses import replace

    raw = trained if trained.reading is None else replace(trained, reading=replace(trained.reading, scaler=None))
    data, runner = raw.series(test, labeled=True, anyway=True), done.runner()
    found = []
    for row in range(len(data)):
        batch = data.batch([row])
        x = batch.x.float().numpy()
        dt = np.ones(x.shape[:2], np.float32) if batch.dt is None else batch.dt.float().numpy()
        seen = np.ones(x.shape, bool) if batch.observed is None else batch.observed.numpy()
        found.append(runner.run(done.graph, Series(x, seen, dt))[0, -1].argmax())
    return np.array(trained.objective.classes)[found]


def rounding() -> list[str]:
    """Largest differences of probabilities over 10,000 irregular steps with missing values, where they exceed 1e-5."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "export"))
    import export_cases  # the models that the tests export

    lines = ["| model | C and chronode | ONNX and chronode | chronode: float32 and float64 |"]
    lines += ["| --- | ---: | ---: | ---: |"]
    for name in chronode.models():
        deployment = export_cases.deployed(name)
        series, graph = irregular(deployment, 1, ROUNDING_STEPS, seed=1), Graph.of(deployment)
        own, exact = predictions(deployment, series), predictions(deployment, series, double=True)
        with tempfile.TemporaryDirectory() as place:
            write_c(graph, Path(place), int8=False, math="library")
            write_onnx(graph, Path(place))
            found = [runner(Path(place)).run(graph, series) for runner in (CRunner, OnnxRunner)]
        away = [float(np.abs(one - own).max()) for one in found]
        print(name, *away, flush=True)
        if not max(away) <= 1e-5:
            numbers = [*away, float(np.abs(own - exact).max())]
            cells = ["not finite" if np.isnan(number) else f"{number:.2g}" for number in numbers]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def steps() -> list[str]:
    """Microseconds per step."""
    lines = ["| model | units | float32, µs | int8, µs | multiply-adds |", "| --- | ---: | ---: | ---: | ---: |"]
    for model in PAPERS:
        for size in SIZES:
            with tempfile.TemporaryDirectory() as place:
                done = [_exported(model, size, kind, Path(place) / kind) for kind in WEIGHTS]
                times = " | ".join(f"{_time(one.folder):.2f}" for one in done)
            lines.append(f"| {model} | {size} | {times} | {done[0].costs['multiply-adds'].split()[0]} |")
            print(lines[-1], flush=True)
    return lines


def device() -> list[str]:
    """Flash, RAM and instructions on a Cortex-M4."""
    if gone := cortex_m4.missing_tools():
        sys.exit(f"not installed: {', '.join(gone)}; see benchmarks/cortex_m4.py.")
    lines = ["| model | units | weights | flash, bytes | RAM, bytes | instructions per step |"]
    lines += ["| --- | ---: | --- | ---: | ---: | ---: |"]
    for model in (*PAPERS, *BESIDE):
        for kind in WEIGHTS:
            with tempfile.TemporaryDirectory() as place:
                done, work = _exported(model, SIZES[0], kind, Path(place) / "c"), Path(place) / "work"
                work.mkdir()
                cortex_m4.check(done.folder, work)
                found = cortex_m4.measure(done.folder, work)
            row = f"{found.flash:,} | {found.ram:,} | {found.instructions:,}"
            lines.append(f"| {model} | {SIZES[0]} | {kind} | {row} |")
            print(lines[-1], flush=True)
    return lines


def _exported(model: str, size: int, weights: str, folder: Path) -> Exported:
    torch.manual_seed(0)
    spec = chronode.ModelSpec(model, CHANNELS, CLASSES, hidden_size=size)
    classes: Sequence[str] = [f"class {i}" for i in range(CLASSES)]
    return chronode.export(chronode.SequenceModel.build(spec), folder, classes=classes, weights=weights)


def _time(folder: Path) -> float:
    (folder / "bench.c").write_text(BENCH.replace("STEPS", "5000"))
    command = ["gcc", "-std=c99", "-O2", "-o", "bench", "chronode_model.c", "bench.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return float(subprocess.run(["./bench"], cwd=folder, check=True, capture_output=True, text=True).stdout.split()[0])


if __name__ == "__main__":
    main()
