"""PyPOTS and classifiers on summaries on the random splits of PhysioNet 2012 that chronode's recipe uses.

    python benchmarks/peers/physionet.py [MODEL SPLITS EPOCHS]

The same stays are for training, validation and test as in `chronode reproduce beyond/physionet2012-splits` (task
physionet-2012, protocol "paper"; the seed of the task is the number of the split), and the values are scaled and
clipped in the same way. PyPOTS works on grids of fixed length: it gets hourly means, as in its documentation, of all 37
variables, and the descriptors in the first hour. What was computed before is not computed again. The results go to
physionet.json and physionet.md here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pages import mean
from run import CACHE, HERE, ONE_THREAD, digest, interpreter

from chronode.data import Sequences
from chronode.lab.experiments.summary import run_summary
from chronode.lab.tasks import Parts, find_task
from chronode.lab.tasks.physionet2012 import HOURS, UNIT
from chronode.training import Objective

PLAN = {"GRUD": (3, 6), "SAITS": (3, 6)}
"""Network of PyPOTS -> (number of splits, epochs)."""
SUMMARIES = {
    "logistic-regression": "logistic regression on summaries",
    "gradient-boosting": "gradient boosting on summaries",
}
SPLITS = 5
WORK = CACHE / "physionet"


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    plan = {sys.argv[1]: (int(sys.argv[2]), int(sys.argv[3]))} if len(sys.argv) > 1 else PLAN
    stored = HERE / "physionet.json"
    results: dict[str, list[dict[str, Any]]] = json.loads(stored.read_text()) if stored.exists() else {}
    for name in [name for name in SUMMARIES if name not in results]:
        results[name] = [summary(name, split) for split in range(SPLITS)]
        write(results)
    for name, (splits, epochs) in plan.items():
        results[name] = [network(name, split, epochs) for split in range(splits)]
        write(results)
    print(page(results))


def write(results: dict[str, list[dict[str, Any]]]) -> None:
    (HERE / "physionet.json").write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "physionet.md").write_text(page(results))


def load(split: int) -> tuple[Parts, Objective]:
    """Returns the series of a split and the task's metrics."""
    task = find_task("physionet-2012")
    parts = task.load("paper", split)
    return parts, Objective.for_task(task, parts.train, scaler=parts.scaler)


def summary(name: str, split: int) -> dict[str, Any]:
    """Scores a classifier on summaries; its settings are those with the best validation score."""
    done = run_summary(name, *load(split), seed=split)
    return {"split": split, **done.metrics["test"], "seconds": round(done.seconds, 1)}


def network(name: str, split: int, epochs: int) -> dict[str, Any]:
    """Trains a network in the environment of PyPOTS, unless its answer exists, and scores it."""
    script, requirements = HERE / "packages" / "physionet_pypots.py", HERE / "packages" / "pypots.txt"
    parts, objective = load(split)
    grids = WORK / f"split-{split}.npz"
    np.savez(grids, **grids_of(parts))
    out = WORK / f"{name}-{split}-{epochs}-{digest(script, requirements, grids)}.json"
    if not out.exists():
        words = [name, str(epochs), str(split), grids, out]
        command = [interpreter("pypots"), "-W", "ignore", script, *words]
        subprocess.run(command, check=True, cwd=WORK, env={**os.environ, **ONE_THREAD})
    answer = json.loads(out.read_text())
    chances = torch.tensor(answer.pop("test"), dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    scores = objective.scores()
    objective.measure(scores, torch.stack([1 - chances, chances], 1).log(), torch.tensor(labels(parts.test)))
    return {"split": split, **scores.compute(), **answer}


def grids_of(parts: Parts) -> dict[str, NDArray[Any]]:
    """Returns hourly means `(stays, hours, channels)` and labels of every part; NaN where nothing was read."""
    sequences = {"train": parts.train, "valid": parts.valid, "test": parts.test}
    means = {name: hourly_means(part) for name, part in sequences.items()}
    return means | {f"{name}_labels": labels(part) for name, part in sequences.items()}


def hourly_means(stays: Sequences) -> NDArray[np.float32]:
    """Returns the mean reading of each channel in each hour, `(stays, HOURS, channels)`."""
    stay = np.repeat(np.arange(len(stays)), stays.lengths)
    hour = np.minimum((stays.times * UNIT).astype(int), HOURS - 1)
    known = ~np.isnan(stays.values)
    shape = (len(stays) * HOURS, stays.values.shape[1])
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, stay * HOURS + hour, np.where(known, stays.values, 0))
    np.add.at(count, stay * HOURS + hour, known)
    means = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)
    return means.reshape(len(stays), HOURS, -1).astype(np.float32)


def labels(stays: Sequences) -> NDArray[np.int64]:
    assert stays.target is not None
    return stays.target.values.astype(np.int64)


def page(results: dict[str, list[dict[str, Any]]]) -> str:
    """Returns physionet.md: a row per model, means over its splits."""
    lines = [
        "| model | AUROC | AUPRC | min(Se, P+) | splits | epochs | CPU s per epoch |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, runs in sorted(results.items(), key=lambda item: -mean([run["auroc"] for run in item[1]])):
        known = SUMMARIES.get(name) or f"PyPOTS {runs[0]['version']}, {name}"
        scores = [with_range([run[metric] for run in runs]) for metric in ("auroc", "auprc", "min_se_ppv")]
        trained = "epochs" in runs[0]
        epochs = str(runs[0]["epochs"]) if trained else ""
        seconds = f"{mean([run['seconds per epoch'] for run in runs]):.1f}" if trained else ""
        lines.append("| " + " | ".join([known, *scores, str(len(runs)), epochs, seconds]) + " |")
    return "\n".join(lines) + "\n"


def with_range(values: list[float]) -> str:
    """Returns the mean and, of several values, the range."""
    return f"{mean(values):.3f}" + (f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
