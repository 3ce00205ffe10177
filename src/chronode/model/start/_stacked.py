"""A stack: linear models on several kinds of features and gradient boosting, combined by their held-out outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ...data import Sequences, concat
from ._boosting import Boosting, can_boost, fit_boosting, refit_boosting, row_losses, trees_state
from ._linear import expected_loss, loss_of
from ._start import (
    MOST_SERIES,
    FeatureStart,
    LinearStart,
    Start,
    StartFit,
    describe_features,
    fit_each,
    fit_start,
    folds_for,
    rows_of,
)

_MOST_SHARES = 12  # a share is a multiple of 1 / _MOST_SHARES or of a larger part
_LEAST_GAIN = 2e-3  # of the loss
_FEWEST_TO_BOOST = 100  # series; with fewer, trees take part by chance only
_STEEPNESS = torch.logspace(-1, 1, 41, dtype=torch.float64)


class StackedStart(Start):
    """Weighted sum of the outputs of several models: `sum_m share_m output_m(x)`.

    Args:
        description: "members" are the descriptions of linear models (`LinearStart`), or of trees (`Boosting`) if they
            have "model": "boosting".
        outputs: Number of logits or values.

    Example:
        >>> linear = {"kind": "summaries", "channels": 2}
        >>> start = StackedStart({"members": [linear, linear]}, 3)
        >>> start(torch.randn(4, 6, 2)).shape, start.title
        (torch.Size([4, 3]), 'stack (linear on summaries 50%, linear on summaries 50%)')
    """

    name = "stack"

    def __init__(self, description: dict[str, Any], outputs: int):
        super().__init__()
        members: list[FeatureStart] = [
            Boosting(part, outputs) if "model" in part else LinearStart(part, outputs)
            for part in description["members"]
        ]
        self.members = nn.ModuleList(members)
        self.titles = [part.kind if isinstance(part, Boosting) else f"linear on {part.kind}" for part in members]
        self.static = max(member.static for member in members)
        self.register_buffer("share", torch.full((len(members),), 1 / len(members), dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(outputs, dtype=torch.float64))

    @property
    def kind(self) -> str:
        """Members with their shares, the largest first."""
        share = self.get_buffer("share")
        parts = sorted(zip((100 * share / share.sum()).tolist(), self.titles, strict=True), key=lambda pair: -pair[0])
        return ", ".join(f"{title} {part:.0f}%" for part, title in parts)

    def scale_by(self, factor: float) -> None:
        """Multiplies the shares and the bias."""
        self.get_buffer("share").mul_(factor)
        self.get_buffer("bias").mul_(factor)

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns `(B, K)`."""
        outputs = torch.stack([member(x, **times) for member in self.members], dim=-1)
        return outputs @ self.get_buffer("share") + self.get_buffer("bias")


def build_single(description: dict[str, Any], outputs: int) -> Start:
    """Builds the linear model or the stack of a description."""
    return StackedStart(description, outputs) if "members" in description else LinearStart(description, outputs)


@dataclass(frozen=True)
class BoostedFit(StartFit):
    """Fitted trees; `seed` is that of the training."""

    seed: int = field(default=0, kw_only=True)

    def refitted(self, *parts: Sequences) -> StartFit:
        """Returns the same features and number of rounds, fitted to all series of these parts."""
        whole = parts[0] if len(parts) == 1 else concat(parts)
        assert whole.target is not None
        assert isinstance(self.start, FeatureStart)
        features, goal, _, weights = rows_of(self.start, whole, None, None)
        classes = len(whole.target.classes or ())
        trees = refit_boosting(features, goal, classes, self.description["rounds"], self.seed, weights)
        return self if trees is None else replace(self, **_with_trees(self.description, trees))


@dataclass(frozen=True)
class StackFit(StartFit):
    """A fitted stack; `members` are the fits of its members."""

    members: tuple[StartFit, ...] = field(default=(), kw_only=True)

    def refitted(self, *parts: Sequences) -> StartFit:
        """Returns the same members and shares, fitted to all series of these parts."""
        return _stack([member.refitted(*parts) for member in self.members], self.start.get_buffer("share"), self)


def fit_stack(train: Sequences, valid: Sequences, *, seed: int = 0) -> StartFit:
    """Returns a stack of models of the target of `train`, or the best linear one if no other adds to it.

    The shares are those with the lowest loss of the out-of-fold outputs of the training series. Boosting takes part if
    there are at least 100 series, and it lowers the loss by more than one standard error.

    Args:
        train: Series with one target each.
        valid: Series to choose the penalties by, in addition to folds of the training series.
        seed: Random seed of the folds and of boosting.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
        >>> fit_stack(s, s[:0]).start.title.startswith("linear")
        True
    """
    assert train.target is not None
    if train.target.per_step or len(train) > MOST_SERIES:
        return fit_start(train, valid, seed=seed)
    classes = len(train.target.classes or ())
    fits: list[StartFit] = fit_each(train, valid, describe_features(train), seed=seed)
    goal, shares = torch.tensor(train.target.values), train.target_weights()
    weights = None if shares is None else torch.from_numpy(shares)
    best = min(fits, key=lambda fitted: fitted.losses[fitted.start.kind])
    boosted = _boosted(train, best.held_out, seed) if len(train) >= _FEWEST_TO_BOOST else None
    if boosted is not None:
        fits.append(boosted)
    outputs = torch.stack([fitted.held_out for fitted in fits if fitted.held_out is not None])
    share = shares_of(outputs, goal, classes, weights)
    if boosted is not None and share[-1]:
        linear = shares_of(outputs[:-1], goal, classes, weights)
        mixed = torch.tensordot(share, outputs, 1), torch.tensordot(linear, outputs[:-1], 1)
        if not _clearly_better(*mixed, goal, classes, weights):
            share = torch.cat([linear, share.new_zeros(1)])
    kept = [(fitted, part) for fitted, part in zip(fits, share.tolist(), strict=True) if part]
    losses = {kind: loss for fitted in fits for kind, loss in fitted.losses.items()}
    if len(kept) == 1 and not isinstance(kept[0][0], BoostedFit):
        return replace(kept[0][0], losses=losses)
    stacked = _stack([fitted for fitted, _ in kept], torch.tensor([part for _, part in kept], dtype=torch.float64))
    return replace(stacked, losses=losses)


def shares_of(outputs: Tensor, goal: Tensor, classes: int, weights: Tensor | None = None) -> Tensor:
    """Returns the shares `(M,)` of models in their sum, by adding the one that lowers the loss most again and again.

    Args:
        outputs: `(M, N, K)` out-of-fold outputs.
        goal: Numbers `(N, K)`, or class numbers `(N,)`.
        classes: Number of classes; 0 for numbers.
        weights: `(N,)` weights of the rows; None for equal weights.

    Example:
        >>> goal = torch.arange(8.0)[:, None].double()
        >>> errors = torch.tensor([1.0, -1.0] * 4)[:, None].double()
        >>> shares_of(torch.stack([goal + errors, goal - errors, goal + 5 * errors]), goal, 0).tolist()
        [0.5, 0.5, 0.0]
    """

    def loss(output: Tensor) -> float:
        if classes:
            return float(expected_loss(output, goal, classes, weights))
        return float(loss_of(output, goal.double(), 0, weights))

    counts, total, lowest = torch.zeros(len(outputs), dtype=torch.float64), torch.zeros_like(outputs[0]), float("inf")
    best: Tensor = counts
    for number in range(1, _MOST_SHARES + 1):
        losses = [loss((total + output) / number) for output in outputs]
        chosen = min(range(len(losses)), key=losses.__getitem__)
        counts[chosen] += 1
        total = total + outputs[chosen]
        if losses[chosen] < (1 - _LEAST_GAIN) * lowest:
            best, lowest = counts / number, losses[chosen]
    if classes:  # averages of logits are too close to 0 where the members disagree
        mixed = torch.tensordot(best, outputs, 1)
        best = best * min(_STEEPNESS, key=lambda by: loss(by * mixed))
    return best


def _clearly_better(output: Tensor, other: Tensor, goal: Tensor, classes: int, weights: Tensor | None) -> bool:
    """Returns whether the mean loss is lower by more than one standard error of the differences, row by row."""
    gaps = row_losses(other, goal, classes, weights) - row_losses(output, goal, classes, weights)
    return bool(gaps.mean() > gaps.std() / len(gaps) ** 0.5)


def _boosted(train: Sequences, rival: Tensor | None, seed: int) -> BoostedFit | None:
    """Returns boosting on the summaries; None if it cannot win or scikit-learn is not installed."""
    assert train.target is not None
    if not can_boost():
        return None
    classes = len(train.target.classes or ())
    description = describe_features(train, ("summaries",))[0]
    rows = rows_of(LinearStart(description, 1), train, folds_for(train, seed), None)
    fit = fit_boosting(rows.features, rows.goal, rows.folds, classes, rival=rival, seed=seed, weights=rows.weights)
    if fit is None:
        return None
    fields = _with_trees(description, fit.trees)
    kind = fields["start"].kind
    return BoostedFit(**fields, held_out=fit.held_out, losses={kind: fit.loss}, penalty=0.0, seed=seed)


def _with_trees(description: dict[str, Any], trees: Boosting) -> dict[str, Any]:
    """Returns the trees as a module with the features of the description, and its description."""
    value = trees.get_buffer("value")
    sizes = {"rounds": len(value) // trees.per_round, "per_round": trees.per_round, "nodes": value.shape[1]}
    description = {"model": "boosting", **description, **sizes}
    start = Boosting(description, trees.get_buffer("mix").shape[1])
    start.load_state_dict(trees_state(trees))
    return {"start": start, "description": description}


def _stack(members: Sequence[StartFit], share: Tensor, like: StartFit | None = None) -> StackFit:
    """Returns the stack of fitted members with these shares; with what is known of one `like` it."""
    description = {"kind": "stack", "members": [member.description for member in members]}
    start = StackedStart(description, members[0].start.get_buffer("bias").shape[0])
    for module, member in zip(start.members, members, strict=True):
        module.load_state_dict(member.start.state_dict())
    start.get_buffer("share").copy_(share)
    outputs = [member.held_out for member in members if member.held_out is not None]
    held_out = torch.stack(outputs, dim=-1) @ share if like is None else like.held_out
    return StackFit(start, description, held_out, {}, 0.0, members=tuple(members))
