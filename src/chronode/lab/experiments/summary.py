"""Baselines without a notion of time: classifiers on summaries of each channel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...data import Parts, Sequences
from ...training import Objective

STATISTICS = ("first", "last", "mean", "std", "min", "max", "readings")


class SummaryScores(NamedTuple):
    """Result of a run: metrics by part, size of the model and CPU time."""

    metrics: dict[str, dict[str, float]]
    parameters: int
    seconds: float


def summaries(s: Sequences) -> NDArray[np.float64]:
    """Returns the STATISTICS of the known values of each channel, `(series, 7 channels)`; NaN without values.

    Example:
        >>> from chronode.data import from_list
        >>> summaries(from_list([[1.0, np.nan, 4.0], [2.0]])).round(1).tolist()
        [[1.0, 4.0, 2.5, 1.5, 1.0, 4.0, 2.0], [2.0, 2.0, 2.0, 0.0, 2.0, 2.0, 1.0]]
    """
    values = s.values.astype(np.float64)
    ends = np.cumsum(s.lengths)
    starts = ends - s.lengths
    there = ~np.isnan(values)
    count = np.add.reduceat(there, starts, axis=0, dtype=np.int64)
    none = np.where(count > 0, 1.0, np.nan)
    total = np.add.reduceat(np.where(there, values, 0), starts, axis=0)
    mean = total / np.maximum(count, 1)
    gaps = np.where(there, values - np.repeat(mean, s.lengths, axis=0), 0)
    std = np.sqrt(np.add.reduceat(gaps**2, starts, axis=0) / np.maximum(count, 1))
    low = np.minimum.reduceat(np.where(there, values, np.inf), starts, axis=0)
    high = np.maximum.reduceat(np.where(there, values, -np.inf), starts, axis=0)
    rows = np.arange(len(values))[:, None]
    first = np.minimum.reduceat(np.where(there, rows, len(values) - 1), starts, axis=0)
    last = np.maximum.reduceat(np.where(there, rows, 0), starts, axis=0)
    columns = np.arange(values.shape[1])
    parts = [values[first, columns], values[last, columns], mean, std, low, high]
    stacked = np.stack([*(part * none for part in parts), count], axis=-1)
    return stacked.reshape(len(s), -1)


def run_summary(name: str, parts: Parts, objective: Objective, seed: int) -> SummaryScores:
    """Fits a model to the summaries of the training series; candidates are selected by validation."""
    begun = time.process_time()
    inputs = {part: summaries(getattr(parts, part)) for part in ("train", "valid", "test")}
    observed = ~np.isnan(inputs["train"]).all(0)
    inputs = {part: values[:, observed] for part, values in inputs.items()}
    best: tuple[float, Any] | None = None
    for model in CANDIDATES[name](seed):
        model.fit(inputs["train"], _labels(parts.train))
        value = _metrics(model, inputs["valid"], parts.valid, objective)[objective.metric]
        if best is None or objective.better(value, best[0]):
            best = (value, model)
    assert best is not None
    seconds = time.process_time() - begun
    metrics = {part: _metrics(best[1], inputs[part], getattr(parts, part), objective) for part in ("valid", "test")}
    return SummaryScores(metrics, _size(best[1]), seconds)


def _labels(s: Sequences) -> NDArray[Any]:
    assert s.target is not None
    return s.target.values


def _metrics(model: Any, inputs: NDArray[np.float64], s: Sequences, objective: Objective) -> dict[str, float]:
    chances = np.clip(model.predict_proba(inputs), 1e-12, 1.0)
    scores = objective.scores()
    objective.measure(scores, torch.tensor(np.log(chances)), torch.tensor(_labels(s).astype(np.int64)))
    return scores.compute()


def _size(model: Any) -> int:
    last = model[-1] if hasattr(model, "steps") else model
    return int(last.coef_.size + last.intercept_.size) if hasattr(last, "coef_") else 0


def _logistic(seed: int) -> Iterable[Any]:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    for strength in (1e-3, 3e-3, 1e-2, 3e-2):
        yield make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(C=strength, max_iter=2_000))


def _boosted(seed: int) -> Iterable[Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    for rate, leaves in ((0.03, 7), (0.03, 15), (0.1, 7)):
        yield HistGradientBoostingClassifier(
            learning_rate=rate, max_leaf_nodes=leaves, max_iter=300, l2_regularization=1.0, random_state=seed
        )


CANDIDATES: dict[str, Callable[[int], Iterable[Any]]] = {
    "logistic-regression": _logistic,
    "gradient-boosting": _boosted,
}
"""Name -> candidate models for a seed, selected by validation."""
