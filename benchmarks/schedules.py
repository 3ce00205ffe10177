"""Constant learning rate against warm-up and cosine, at several rates: cross-validated on training parts only.

    python benchmarks/schedules.py [NAME ...] [--demo]

Each model is trained with the usual settings of `SequenceClassifier` on two thirds of the training part of a data set
of benchmarks/defaults.py and scored on the rest, three times. benchmarks/schedules.md is the table. With --demo, two
models are trained as by `chronode demo` instead, and only the second table there is written.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from defaults import parts
from sklearn.model_selection import StratifiedKFold

from chronode import ModelSpec
from chronode.estimators import SequenceClassifier
from chronode.lab.cli.demo import HIDDEN, LONGEST, TEST, TRAIN, VALID
from chronode.lab.tasks.bitstream import bitstream
from chronode.training import Settings, fit

DEMO = "## The task of `chronode demo`"
HERE = Path(__file__).parent
NAMES = ["ArrowHead", "GunPoint", "BasicMotions", "JapaneseVowels", "breast_cancer"]
MODELS = ["mmrnn"]
RATES = [0.001, 0.005, 0.02]
SCHEDULES = {"constant": {}, "warm-up, cosine": {"schedule": "cosine", "warmup_epochs": 1}}


def score(name, model, rate, schedule):
    """The mean accuracy on held-out thirds."""
    X, y, *_ = parts(name)
    X, y, found = list(X), np.asarray(y), []
    for kept, held in StratifiedKFold(3, shuffle=True, random_state=0).split(np.zeros(len(y)), y):
        usual = {"epochs": 20, "refit": False, "early_stop": 0, "random_state": 0}
        own = SequenceClassifier(model, learning_rate=rate, training=SCHEDULES[schedule], **usual)
        own.fit([X[i] for i in kept], y[kept])
        found.append(own.score([X[i] for i in held], y[held]))
    return float(np.mean(found))


def demo():
    """The test accuracies of `chronode demo` with each schedule, as a table."""
    train, valid, test = (bitstream(count, part, longest=LONGEST) for part, count in enumerate((TRAIN, VALID, TEST)))
    lines = [DEMO, "", f"| model | {' | '.join(SCHEDULES)} |", f"| --- |{' ---: |' * len(SCHEDULES)}"]
    for model in ("mmrnn", "lstm-dt"):
        cells = []
        for schedule in SCHEDULES.values():
            settings = Settings(epochs=24, batch_size=128, threads=1, **schedule)
            fitted = fit(train, ModelSpec.for_data(train, model, HIDDEN), settings, valid=valid)
            cells.append(f"{100 * fitted.evaluate(test)['accuracy']:.1f}")
        lines.append(f"| {model} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main():
    warnings.filterwarnings("ignore")
    options = argparse.ArgumentParser()
    options.add_argument("names", nargs="*", default=NAMES)
    options.add_argument("--demo", action="store_true")
    page = HERE / "schedules.md"
    first, _, second = page.read_text().partition(DEMO)
    if options.parse_args().demo:
        page.write_text(first.rstrip() + "\n\n" + demo())
        return
    lines = ["# Constant learning rate, or warm-up and cosine", "", "`python benchmarks/schedules.py`; see there.", ""]
    lines += [f"| model | data set | {' | '.join(f'{r:g}, {s}' for r in RATES for s in SCHEDULES)} |"]
    lines += [f"| --- | --- |{' ---: |' * len(RATES) * len(SCHEDULES)}"]
    rows = []
    for model in MODELS:
        for name in options.parse_args().names:
            rows.append([score(name, model, rate, schedule) for rate in RATES for schedule in SCHEDULES])
            lines.append(f"| {model} | {name} | {' | '.join(f'{100 * value:.1f}' for value in rows[-1])} |")
            print(lines[-1], flush=True)
    lines.append(f"| mean | | {' | '.join(f'{100 * value:.1f}' for value in np.mean(rows, axis=0))} |")
    page.write_text("\n".join(lines) + "\n" + (f"\n{DEMO}{second}" if second else ""))


if __name__ == "__main__":
    main()
