"""aeon: classifiers with the scikit-learn interface for lists of arrays `(channels, time)`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from aeon.classification.convolution_based import MultiRocketClassifier, RocketClassifier
from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier
from aeon.pipeline import make_pipeline
from aeon.transformations.collection import SimpleImputer
from aeon.transformations.collection.unequal_length import Padder
from protocol import Answer, Series, Way, main

STEPS = 29
"""Frames of the longest utterance of the published data set."""
SOURCE = "examples/transformations/preprocessing.ipynb"


def way(title: str, source: str, build: Callable[[int], Any]) -> Way:
    def train_classifier(train: list[Series], seed: int) -> Answer:
        classifier = build(seed)
        classifier.fit([each.values.T for each in train], np.array([each.label for each in train]))
        return lambda series: classifier.predict_proba([each.values.T for each in series])

    return Way(title, source, train_classifier)


def neighbor() -> Any:
    return KNeighborsTimeSeriesClassifier(distance="dtw")


if __name__ == "__main__":
    main(
        "aeon",
        version("aeon"),
        [
            way("1-NN DTW, list of arrays as it is", "estimator overview", lambda seed: neighbor()),
            way("SimpleImputer, 1-NN DTW", SOURCE, lambda seed: make_pipeline(SimpleImputer(), neighbor())),
            way(
                "SimpleImputer, Padder, Rocket",
                SOURCE,
                lambda seed: make_pipeline(SimpleImputer(), Padder(STEPS), RocketClassifier(random_state=seed)),
            ),
            way(
                "SimpleImputer, Padder, MultiRocket",
                SOURCE,
                lambda seed: make_pipeline(SimpleImputer(), Padder(STEPS), MultiRocketClassifier(random_state=seed)),
            ),
        ],
    )
