"""ETTh1: the default forecaster beside a linear map, mean squared error of all test windows.

    CHRONODE_DATA_MIRROR=DATA python benchmarks/arena_ett.py [96 192 336 720] [--network]

The usual split: 12 months for training, 4 for validation, 4 for test, all channels scaled by the training part. The
linear map (of the class of DLinear) takes the last 336 values of a channel, minus the last one, to the horizon, with
the same weights for all channels, by ridge regression whose penalty is chosen on the validation part. Without
`--network`, the forecaster is its linear start alone (`epochs=0`). Results go to benchmarks/arena_ett.json.
"""

import argparse
import csv
import json
import os
import time
from pathlib import Path

import numpy as np

from chronode.data import from_list
from chronode.estimators import SequenceForecaster

RESULTS = Path(__file__).parent / "arena_ett.json"
MONTH = 30 * 24
TRAIN, VALID, TEST = 12 * MONTH, 16 * MONTH, 20 * MONTH
WINDOW, LONGEST = 336, 800
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)


def series():
    """Returns the scaled values `(T, 7)` and the names of the channels."""
    with (Path(os.environ["CHRONODE_DATA_MIRROR"]) / "forecasting" / "ETTh1.csv").open() as file:
        names, *rows = csv.reader(file)
    x = np.array([[float(cell) for cell in row[1:]] for row in rows])[:TEST]
    return (x - x[:TRAIN].mean(0)) / x[:TRAIN].std(0), names[1:]


def windows(x, first, last, horizon):
    """Returns inputs `(n * 7, 336)` and targets within the steps from `first` to `last`, both minus the last input."""
    whole = np.lib.stride_tricks.sliding_window_view(x[first - WINDOW : last], WINDOW + horizon, axis=0)
    at = whole.reshape(-1, WINDOW + horizon)
    return at[:, :WINDOW] - at[:, WINDOW - 1 : WINDOW], at[:, WINDOW:] - at[:, WINDOW - 1 : WINDOW]


def linear_map(x, horizon):
    """Returns the error of ridge regression on the test windows."""
    inputs, targets = windows(x, WINDOW, TRAIN, horizon)
    squares, products = inputs.T @ inputs, inputs.T @ targets

    def error(penalty, first, last):
        weights = np.linalg.solve(squares + penalty * np.eye(WINDOW), products)
        new, wanted = windows(x, first, last, horizon)
        return float(((new @ weights - wanted) ** 2).mean())

    best = min(PENALTIES, key=lambda penalty: error(penalty, TRAIN, VALID))
    return error(best, VALID, TEST)


def default(x, names, horizon, epochs):
    """Returns the error of the default forecaster, fitted to the training and validation parts."""
    options = {} if epochs is None else {"epochs": epochs}
    model = SequenceForecaster(horizon=horizon, random_state=0, n_threads=1, verbose=True, **options)
    model.fit(from_list([x[:VALID].astype(np.float32)], channels=names))
    total, count = 0.0, 0
    for first in range(VALID, TEST - horizon + 1, 64):
        origins = range(first, min(first + 64, TEST - horizon + 1))
        histories = from_list([x[at - LONGEST : at].astype(np.float32) for at in origins], channels=names)
        gaps = model.predict(histories) - np.stack([x[at : at + horizon] for at in origins])
        total, count = total + float((gaps**2).sum()), count + gaps.size
    return total / count, {"network": model.best_epoch_ > 0, "window": model.window_}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("horizons", nargs="*", type=int, default=[96, 192, 336, 720])
    options.add_argument("--network", action="store_true", help="train the network of the default, too")
    given = options.parse_args()
    (x, names), found = series(), json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for horizon in given.horizons:
        row = found.setdefault(str(horizon), {})
        row["linear map"] = linear_map(x, horizon)
        began = time.process_time()
        error, facts = default(x, names, horizon, None if given.network else 0)
        name = "chronode" if given.network else "linear start"
        row[name] = {"mse": error, "ratio": error / row["linear map"], "cpu": time.process_time() - began, **facts}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(horizon, row, flush=True)


if __name__ == "__main__":
    main()
