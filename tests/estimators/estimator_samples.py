"""Small series and a quick classifier, for the tests of the estimators."""

import numpy as np
import pandas as pd

from chronode.estimators import SequenceClassifier

QUICK = {"hidden_size": 6, "epochs": 2, "random_state": 0}


def waves(count=24, channels=2, steps=9, seed=0):
    """Series (n, channels, time) whose mean tells their class."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 2
    return rng.normal(size=(count, channels, steps)) + y[:, None, None], y


def even_times():
    """A time for every step of `waves()`."""
    return np.tile(np.arange(9), (24, 1))


def uneven_times():
    return np.cumsum(np.random.default_rng(3).uniform(0.5, 2, size=(24, 9)), axis=1)


def long_frame(X, y, times):
    """The same series of two channels as a frame with a row per step."""
    rows = [(f"s{i:02d}", t, *X[i, :, k], y[i]) for i in range(len(X)) for k, t in enumerate(times[i])]
    return pd.DataFrame(rows, columns=["who", "when", "x0", "x1", "label"])


def classifier(**options):
    return SequenceClassifier("gru", **{**QUICK, **options})


def fitted_classifier():
    """Several tests may look at one, if none changes it."""
    return classifier().fit(*waves())
