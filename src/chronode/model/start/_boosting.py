"""Gradient boosting on features of a series: fitted by scikit-learn, kept and evaluated as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...settings import whole
from ._linear import expected_loss, loss_of
from ._start import FeatureStart

_SETTINGS = {"learning_rate": 0.03, "max_leaf_nodes": 15, "max_features": 0.3, "l2_regularization": 5.0}
_MOST_ROUNDS, _FEWEST_ROUNDS, _MOST_TREES = 400, 60, 2_000
_MOST_PER_LEAF, _ROWS_PER_LEAF = 20, 15
_EVERY = 10  # rounds between two numbers of rounds that are compared
_LEAF = -1
_NODES = ("feature", "left", "right", "threshold", "unknown_left", "value")


def can_boost() -> bool:
    """Returns whether scikit-learn, which fits the trees, is installed."""
    return find_spec("sklearn") is not None


class Boosting(FeatureStart):
    """Sums of regression trees of the features of a series: `sums @ mix + bias`, with one sum per tree of a round.

    A node sends a series to its left child if its feature is at most the threshold, or unknown and `unknown_left`.

    Args:
        description: Argument of `build_features` with "rounds", "per_round" and "nodes": the number of rounds, of trees
            in each, and the most nodes of a tree; "static" is the number of static values, which are features too.
        outputs: Number of logits or values.

    Example:
        >>> sizes = {"rounds": 4, "per_round": 3, "nodes": 5}
        >>> model = Boosting({"model": "boosting", "kind": "summaries", "channels": 2, **sizes}, 3)
        >>> model(torch.randn(4, 6, 2)).shape
        torch.Size([4, 3])
    """

    def __init__(self, description: dict[str, Any], outputs: int):
        sizes = ("rounds", "per_round", "nodes")
        rounds, per_round, nodes = (whole(f"start.{name}", description[name], at_least=1) for name in sizes)
        super().__init__({name: value for name, value in description.items() if name not in ("model", *sizes)})
        self.per_round = per_round
        kinds = {"threshold": torch.float64, "value": torch.float64, "unknown_left": torch.bool}
        for name in _NODES:
            empty = torch.zeros(rounds * per_round, nodes, dtype=kinds.get(name, torch.int32))
            self.register_buffer(name, empty + _LEAF if name == "feature" else empty)
        self.register_buffer("mix", torch.zeros(per_round, outputs, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(outputs, dtype=torch.float64))

    name = "boosting"

    @property
    def kind(self) -> str:
        """Model and features in a few words."""
        return f"boosting on {self.features.kind}"

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns `(B, K)`."""
        return self.of(self.columns(x, **times))

    def of(self, features: Tensor) -> Tensor:
        """Returns the outputs `(B, K)` of features `(B, F)`."""
        return self.after_rounds(features)[:, -1]

    def after_rounds(self, features: Tensor, every: int | None = None) -> Tensor:
        """Returns the outputs `(B, R, K)` after each `every` rounds, or after the last one."""
        sums = self._leaves(features).unflatten(1, (-1, self.per_round))
        sums = sums.sum(1, keepdim=True) if every is None else sums.cumsum(1)[:, every - 1 :: every]
        return sums @ self.get_buffer("mix") + self.get_buffer("bias")

    def _leaves(self, features: Tensor) -> Tensor:
        """Returns the value `(B, trees)` of the leaf of each tree that a series falls into."""
        feature, left, right, threshold, unknown_left, value = (self.get_buffer(name) for name in _NODES)
        count, nodes = value.shape
        first = torch.arange(0, count * nodes, nodes, device=features.device).expand(len(features), -1)
        at = first
        for _ in range(nodes):  # no path is longer
            column = feature.take(at).long()
            inner = column != _LEAF
            if not inner.any():
                break
            values = features.gather(1, column.clamp(min=0))
            goes_left = torch.where(values.isnan(), unknown_left.take(at), values <= threshold.take(at))
            child = torch.where(goes_left, left.take(at), right.take(at))
            at = torch.where(inner, first + child, at)
        return value.take(at)


@dataclass(frozen=True)
class BoostingFit:
    """Fitted trees and how their number was chosen.

    Attributes:
        trees: The trees, without their features.
        held_out: Out-of-fold outputs `(N, K)` of all training rows.
        loss: Mean loss of the held-out rows.
    """

    trees: Boosting
    held_out: Tensor
    loss: float


def fit_boosting(
    features: Tensor,
    target: Tensor,
    folds: Tensor,
    classes: int,
    *,
    rival: Tensor | None = None,
    seed: int = 0,
    weights: Tensor | None = None,
) -> BoostingFit | None:
    """Fits trees to all rows, with the number of rounds that has the lowest loss over all folds.

    Args:
        features: `(N, F)`, NaN where unknown.
        target: Numbers `(N, K)`, or class numbers `(N,)`; rows with NaN or a negative class number are left out.
        folds: `(N,)` fold of each row, from 0.
        classes: Number of classes; 0 for numbers.
        rival: Out-of-fold outputs of another model. If boosting is clearly worse in the first fold, the others are not
            fitted.
        seed: Random seed of the features that each node may use.
        weights: `(N,)` weights of the rows; None for equal weights.

    Returns:
        The fit; None if the rival is clearly better, or there is too little to learn from.
    """
    mask = _counted(target, classes, weights)
    most = max(_FEWEST_ROUNDS, min(_MOST_ROUNDS, _MOST_TREES // max(1, classes)) // _EVERY * _EVERY)
    held: list[tuple[Tensor, Tensor]] = []
    for fold in folds.unique().tolist():
        inside = folds == fold
        trees = _fitted(features, target, ~inside & mask, classes, most, seed, weights)
        if trees is None:
            return None
        held.append((inside, trees.after_rounds(features[inside], _EVERY)))
        if rival is not None and len(held) == 1:
            own = None if weights is None else weights[inside]
            if _cannot_win(held[0][1], rival[inside], target[inside], classes, own):
                return None
    outputs = features.new_zeros(len(features), most // _EVERY, classes or target.shape[1])
    for inside, output in held:
        outputs[inside] = output
    losses = [float(_loss(outputs[:, at], target, classes, weights)) for at in range(outputs.shape[1])]
    best = int(np.argmin(losses))
    final = _fitted(features, target, mask, classes, (best + 1) * _EVERY, seed, weights)
    if final is None:
        return None
    return BoostingFit(final, outputs[:, best], losses[best])


def refit_boosting(
    features: Tensor, target: Tensor, classes: int, rounds: int, seed: int = 0, weights: Tensor | None = None
) -> Boosting | None:
    """Fits this number of rounds to all rows."""
    mask = _counted(target, classes, weights)
    return _fitted(features, target, mask, classes, rounds, seed, weights)


def _counted(target: Tensor, classes: int, weights: Tensor | None) -> Tensor:
    """Returns which rows have a known target and a weight."""
    known = (target >= 0) if classes else ~target.isnan().any(-1)
    return known if weights is None else known & (weights > 0)


def trees_state(trees: Boosting) -> dict[str, Tensor]:
    """Returns the buffers of the trees, without those of the features."""
    return {name: trees.get_buffer(name) for name in (*_NODES, "mix", "bias")}


def _loss(output: Tensor, target: Tensor, classes: int, weights: Tensor | None) -> Tensor:
    return expected_loss(output, target, classes, weights) if classes else loss_of(output, target, 0, weights)


def _cannot_win(outputs: Tensor, rival: Tensor, target: Tensor, classes: int, weights: Tensor | None) -> bool:
    """Returns whether even the best number of rounds is worse by more than two standard errors, and never right where
    the rival is wrong often enough to add to it.
    """
    rows = torch.stack([row_losses(outputs[:, at], target, classes, weights) for at in range(outputs.shape[1])])
    gaps = rows[int(rows.mean(1).argmin())] - row_losses(rival, target, classes, weights)
    return bool(gaps.mean() > 2 * gaps.std() / max(1, len(gaps)) ** 0.5 and gaps.mean() > 0.1)


def row_losses(output: Tensor, target: Tensor, classes: int, weights: Tensor | None = None) -> Tensor:
    """Returns the loss of each row with a known target, times its weight relative to the mean; of numbers in units of
    their variance.
    """
    if classes:
        mask = target >= 0
        losses = nn.functional.cross_entropy(output[mask], target[mask].long(), reduction="none")
    else:
        mask = ~target.isnan().any(-1)
        unit = target[mask].var(0).clamp(min=1e-12)
        losses = ((output[mask] - target[mask]).square() / unit).mean(1)
    return losses if weights is None else losses * weights[mask] / weights[mask].mean()


def _fitted(
    features: Tensor, target: Tensor, rows: Tensor, classes: int, rounds: int, seed: int, weights: Tensor | None
) -> Boosting | None:
    """Fits trees to some rows; None if there are not two classes, or no feature has two values."""
    target, sample_weight = target[rows], None if weights is None else weights[rows].numpy()
    inputs = features[rows].numpy().astype(np.float32).astype(np.float64)
    columns = np.flatnonzero([_varies(column) for column in inputs.T])
    if not len(columns) or len(inputs) < 10:
        return None
    options: dict[str, Any] = {**_SETTINGS, "max_iter": rounds, "random_state": seed, "early_stopping": False}
    options["min_samples_leaf"] = max(1, min(_MOST_PER_LEAF, len(inputs) // _ROWS_PER_LEAF))
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if not classes:
        fits: list[Any] = [
            HistGradientBoostingRegressor(**options).fit(inputs[:, columns], goal, sample_weight)
            for goal in target.double().numpy().T
        ]
        mix = torch.eye(len(fits), dtype=torch.float64)
        return _trees([fit._predictors for fit in fits], columns, mix, _intercepts(fits))
    labels = target.numpy()
    present = np.unique(labels)
    if len(present) < 2:
        return None
    fit: Any = HistGradientBoostingClassifier(**options).fit(inputs[:, columns], labels, sample_weight)
    mix = torch.zeros(len(present), classes, dtype=torch.float64)
    mix[torch.arange(len(present)), torch.tensor(present).long()] = 1.0
    mix = mix if len(present) > 2 else (mix[1:] - mix[:1]) / 2
    absent = torch.full((classes,), -float(np.log(2 * len(labels))), dtype=torch.float64)
    absent[torch.tensor(present).long()] = 0.0
    per_class = [[trees[k] for trees in fit._predictors] for k in range(len(mix))]
    boosting = _trees([[[tree] for tree in stages] for stages in per_class], columns, mix, _intercepts([fit]))
    boosting.get_buffer("bias").add_(absent)
    return boosting


def _varies(column: NDArray[np.float64]) -> bool:
    finite = column[np.isfinite(column)]
    return len(finite) > 1 and finite.min() < finite.max()


def _intercepts(fits: list[Any]) -> Tensor:
    return torch.tensor(np.concatenate([np.ravel(fit._baseline_prediction) for fit in fits]), dtype=torch.float64)


def _trees(predictors: list[Any], columns: NDArray[np.int64], mix: Tensor, intercepts: Tensor) -> Boosting:
    """Returns the trees of scikit-learn, `predictors[output][round][0]`, as arrays; their features are set later."""
    rounds, per_round = len(predictors[0]), len(predictors)
    ordered = [predictors[k][r][0].nodes for r in range(rounds) for k in range(per_round)]
    sizes = {"rounds": rounds, "per_round": per_round, "nodes": max(len(nodes) for nodes in ordered)}
    boosting = Boosting({"kind": "summaries", "channels": 1, **sizes}, mix.shape[1])
    for at, nodes in enumerate(ordered):
        inner = nodes["is_leaf"] == 0
        rows = {
            "feature": np.where(inner, columns[np.where(inner, nodes["feature_idx"], 0)], _LEAF),
            "left": nodes["left"].astype(np.int64),
            "right": nodes["right"].astype(np.int64),
            "threshold": nodes["num_threshold"],
            "unknown_left": nodes["missing_go_to_left"].astype(bool),
            "value": nodes["value"],
        }
        for name, values in rows.items():
            boosting.get_buffer(name)[at, : len(nodes)] = torch.tensor(np.ascontiguousarray(values))
    boosting.get_buffer("mix").copy_(mix)
    boosting.get_buffer("bias").copy_(intercepts @ mix)
    return boosting
