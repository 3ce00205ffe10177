"""Training defaults of a named model, on held-out training series of the data sets of defaults.py.

    python benchmarks/named_defaults.py [--seeds 1]

30% of the training series of each set are held out and scored (accuracy, or R² of numbers); test parts are not used.
Prints the mean score and the CPU seconds of each set of defaults; docs/training.md quotes them.
"""

import argparse
import time
import warnings

import numpy as np
from defaults import CLASSES, VALUES, parts
from sklearn.model_selection import train_test_split

from chronode.estimators import SequenceClassifier, SequenceRegressor

MODELS = ("mmrnn", "lstm-dt", "gru")
DEFAULTS = {
    "20 epochs, batches of 64, no early stop, accuracy or RMSE": (20, 64, 0, None),
    "20 epochs, batches of 64, no early stop, loss": (20, 64, 0, "loss"),
    "50 epochs, batches of 16, early stop after 20, loss": (50, 16, 20, "loss"),
    "50 epochs, batches of 16, early stop after 20, accuracy or RMSE": (50, 16, 20, None),
    "50 epochs, batches of 64, early stop after 20, loss": (50, 64, 20, "loss"),
}


def score(name: str, model: str, seed: int, epochs: int, batch_size: int, early_stop: int, metric: str | None) -> float:
    """Returns the score on held-out training series."""
    numbers, (X, y, *_) = name in VALUES, parts(name)
    X, rows = list(X), np.arange(len(y))
    train, held = train_test_split(rows, test_size=0.3, random_state=seed, stratify=None if numbers else y)
    kind = SequenceRegressor if numbers else SequenceClassifier
    training = {"metric": metric or ("rmse" if numbers else "accuracy")}
    sizes = {"epochs": epochs, "batch_size": batch_size, "early_stop": early_stop}
    estimator = kind(model, **sizes, training=training, random_state=seed).fit([X[row] for row in train], y[train])
    return estimator.score([X[row] for row in held], y[held])


def main() -> None:
    warnings.filterwarnings("ignore")
    options = argparse.ArgumentParser()
    options.add_argument("names", nargs="*")
    options.add_argument("--seeds", type=int, default=1)
    asked = options.parse_args()
    for label, settings in DEFAULTS.items():
        begin = time.process_time()
        names = asked.names or [*CLASSES, *VALUES]
        scores = [score(n, model, seed, *settings) for n in names for model in MODELS for seed in range(asked.seeds)]
        seconds = (time.process_time() - begin) / len(scores)
        print(f"{label}: {np.mean(scores):.3f} over {len(scores)} runs, {seconds:.1f} CPU seconds a run", flush=True)


if __name__ == "__main__":
    main()
