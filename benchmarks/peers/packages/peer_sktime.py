"""sktime: classifiers with the scikit-learn interface for frames with an index of series and time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from protocol import Answer, Series, Way, main
from sktime.classification.distance_based import KNeighborsTimeSeriesClassifier
from sktime.classification.kernel_based import RocketClassifier
from sktime.transformations.compose import FitInTransform
from sktime.transformations.impute import Imputer
from sktime.transformations.padder import PaddingTransformer

STEPS = 29
"""Frames of the longest utterance of the published data set."""


def frame(series: list[Series]) -> pd.DataFrame:
    """Returns one row per series and step. The steps are counted: classifiers of sktime do not use the times."""
    index = pd.MultiIndex.from_tuples(
        [(place, step) for place, each in enumerate(series) for step in range(len(each.times))],
        names=["instance", "step"],
    )
    values = np.concatenate([each.values for each in series])
    return pd.DataFrame(values, index=index, columns=[f"c{channel}" for channel in range(values.shape[1])])


def way(title: str, source: str, build: Callable[[int], Any]) -> Way:
    def train_classifier(train: list[Series], seed: int) -> Answer:
        classifier = build(seed)
        classifier.fit(frame(train), np.array([each.label for each in train]))
        return lambda series: classifier.predict_proba(frame(series))

    return Way(title, source, train_classifier)


if __name__ == "__main__":
    tags = "estimator search: unequal length, missing values"
    main(
        "sktime",
        version("sktime"),
        [
            way(
                "1-NN DTW, frame as it is",
                tags,
                lambda seed: KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw"),
            ),
            way(
                "FitInTransform(Imputer), PaddingTransformer, Rocket with 2,000 kernels",
                "classification tutorial, unequal length; API reference, FitInTransform",
                lambda seed: (
                    FitInTransform(Imputer(method="linear"))
                    * PaddingTransformer(pad_length=STEPS)
                    * RocketClassifier(num_kernels=2_000, random_state=seed)
                ),
            ),
        ],
    )
