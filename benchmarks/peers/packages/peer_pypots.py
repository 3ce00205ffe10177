"""PyPOTS: networks for partially observed series on a grid of fixed length, NaN where nothing was read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from numpy.typing import NDArray
from protocol import STEP_MS, Answer, Series, Way, classes, main, moments
from pypots.classification import BRITS, GRUD, SAITS

STEPS = 29
"""Frames of the longest utterance of the published data set."""
COMMON: dict[str, Any] = {"epochs": 60, "patience": 10, "device": "cpu", "verbose": False}
ATTENTION = {"n_layers": 2, "d_model": 64, "n_heads": 4, "d_k": 16, "d_v": 16, "d_ffn": 128, "dropout": 0.1}
VALIDATION = 7
"""Every seventh series is the validation set of early stopping."""


def grid(series: list[Series], mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float32]:
    """Returns scaled values `(series, STEPS, channels)`; frames without a row and frames after the end are NaN."""
    values = np.full((len(series), STEPS, series[0].values.shape[1]), np.nan, dtype=np.float32)
    for place, each in enumerate(series):
        values[place, np.round(each.times / STEP_MS).astype(int)] = (each.values - mean) / deviation
    return values


def way(model: str, build: Callable[..., Any], **options: Any) -> Way:
    def train_network(train: list[Series], seed: int) -> Answer:
        torch.manual_seed(seed)
        scaling = moments(train)
        labels = np.array([classes(train).index(each.label) for each in train])
        values = grid(train, *scaling)
        valid = np.arange(len(train)) % VALIDATION == 0
        network = build(STEPS, values.shape[2], len(classes(train)), **options, **COMMON)
        network.fit({"X": values[~valid], "y": labels[~valid]}, val_set={"X": values[valid], "y": labels[valid]})
        return lambda series: network.predict({"X": grid(series, *scaling)})["classification_proba"]

    return Way(f"{model}, grid of {STEPS} frames, NaN elsewhere", "quick-start examples; API reference", train_network)


if __name__ == "__main__":
    main(
        "PyPOTS",
        version("pypots"),
        [
            way("GRUD", GRUD, rnn_hidden_size=64),
            way("BRITS", BRITS, rnn_hidden_size=64),
            way("SAITS", SAITS, **ATTENTION),
        ],
    )
