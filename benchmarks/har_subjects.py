"""HAR-2 with held-out subjects: how long to train, cross-validated over the training subjects only.

    CHRONODE_DATA_MIRROR=... python benchmarks/har_subjects.py

The settings of the recipes of HAR-2 were selected by this. The accuracy is that after the last step, on a third of the
21 training subjects, three times; the test subjects are not used. benchmarks/har_subjects.md is the table.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from chronode.lab.tasks import find_task
from chronode.training import Settings
from chronode.training._assembly import assemble, together

HERE = Path(__file__).parent
USUAL = {"epochs": 10_000, "batch_size": 128, "optimizer": "adamw", "weight_decay": 0.01, "schedule": "cosine"}
AVERAGED = {"average": "ema", "average_decay": 0.99}
SIGMOID = {"activation": "sigmoid", "dropout": 0.0, "input_std": 1.0}
SETTINGS = [
    ("irnn", {"learning_rate": 3e-3, "steps": 2400}, {}),
    ("irnn", {"learning_rate": 1e-2, "steps": 800}, {}),
    ("irnn", {"learning_rate": 1e-2, "steps": 800, "jitter": 0.15}, {}),
    ("irnn", {"learning_rate": 1e-2, "steps": 2400, "jitter": 0.15, **AVERAGED}, {}),
    ("irnn", {"learning_rate": 1e-2, "steps": 800}, {"activation": "sigmoid"}),
    ("irnn", {"learning_rate": 3e-3, "steps": 2400, "jitter": 0.1}, SIGMOID),
    ("lstm", {"learning_rate": 3e-3, "steps": 800}, {}),
]


def held_out():
    """Pairs of training and held-out series, by thirds of the training subjects."""
    parts = find_task("har-2").load("paper", 0)
    every = together(parts.train, parts.valid)
    subjects = np.unique(every.groups)
    np.random.default_rng(0).shuffle(subjects)
    for fold in range(3):
        held = np.isin(every.groups, subjects[fold::3])
        yield replace(parts, train=every[~held], valid=every[held], test=every[held])


def last_epoch(parts, model, training, sizes):
    """Loss and accuracy on the held-out subjects after the last step."""
    network = {"hidden_size": 80, "dropout": 0.3, **({"K": 1, "eta_steps": 128} if model == "irnn" else {}), **sizes}
    last = assemble(parts, model, Settings(**USUAL, **training, threads=1), network=network).fit().history[-1]
    return last.valid_loss, last.metrics["accuracy"]


def main():
    lines = ["# HAR-2 with held-out subjects", "", "`python benchmarks/har_subjects.py`; see there.", ""]
    lines += [
        "| model | rate | steps | jitter | accuracy, three folds (%) | mean | loss |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for model, training, sizes in SETTINGS:
        found = np.array([last_epoch(parts, model, training, sizes) for parts in held_out()])
        folds = ", ".join(f"{100 * value:.1f}" for value in found[:, 1])
        name, jitter = " ".join([model, *filter(None, [sizes.get("activation")])]), training.get("jitter", 0)
        about = f"| {name} | {training['learning_rate']:g} | {training['steps']:,} | {jitter:g} | {folds} |"
        lines.append(f"{about} {100 * found[:, 1].mean():.1f} | {found[:, 0].mean():.2f} |")
        print(lines[-1], flush=True)
    (HERE / "har_subjects.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
