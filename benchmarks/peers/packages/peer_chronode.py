"""chronode: estimators with the scikit-learn interface, all settings at their defaults."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from protocol import FORECAST, Answer, Series, Way, main

import chronode
from chronode.estimators import SequenceClassifier, SequenceForecaster


def columns(series: list[Series]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns values `(time, channels)` and times of each series."""
    return [each.values for each in series], [each.times for each in series]


def classify(train: list[Series], seed: int) -> Answer:
    classifier = SequenceClassifier(order="NTD", random_state=seed)
    values, times = columns(train)
    classifier.fit(values, [each.label for each in train], times=times)

    def answer(series: list[Series]) -> np.ndarray:
        values, times = columns(series)
        return classifier.predict_proba(values, times=times)

    return answer


def forecast(train: list[Series], seed: int) -> Answer:
    forecaster = SequenceForecaster(order="NTD", horizon=1, channels=[FORECAST], random_state=seed)
    values, times = columns(train)
    forecaster.fit(values, times=times)

    def answer(series: list[Series]) -> np.ndarray:
        values, times = columns(series)
        return forecaster.predict(values, times=times)[:, 0, 0]

    return answer


if __name__ == "__main__":
    main(
        "chronode",
        chronode.__version__,
        [
            Way("SequenceClassifier, list of arrays as it is", "docs/estimators.md", classify),
            Way("SequenceForecaster, next row, list of arrays as it is", "docs/estimators.md", forecast, "forecast"),
        ],
    )
