"""Ridge and logistic regression with a cross-validated penalty, without dependencies.

Small logistic regressions use Newton's method, which is several times faster there than L-BFGS, and exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...system import without_compiler

RIDGE_PENALTIES = tuple(10.0**power for power in range(-7, 4))
LOGISTIC_PENALTIES = (1.0, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4)
_ITERATIONS = 40

Judge = tuple[Tensor, Tensor, Tensor | None]
"""Features, target and weights of validation rows; None for equal weights."""


@dataclass(frozen=True)
class Linear:
    """A linear map of features that may be NaN: `z = (features - mean) / std`, 0 where NaN; `z @ weight + bias`.

    Features are first clipped to `low` and `high`, so that a single outlier does not dominate a prediction.

    Attributes:
        mean: `(F,)`.
        std: `(F,)`, 1 where a feature is constant.
        low: `(F,)`.
        high: `(F,)`.
        weight: `(F, K)`.
        bias: `(K,)`.
    """

    mean: Tensor
    std: Tensor
    low: Tensor
    high: Tensor
    weight: Tensor
    bias: Tensor

    def scaled(self, by: float) -> Linear:
        """Returns the map with outputs times `by`."""
        return replace(self, weight=self.weight * by, bias=self.bias * by)

    def __call__(self, features: Tensor) -> Tensor:
        """Returns `(..., K)` of features `(..., F)`."""
        is_known = ~features.isnan()
        return standardized(features, is_known, self.mean, self.std, self.low, self.high) @ self.weight + self.bias


def standardized(features: Tensor, is_known: Tensor, mean: Tensor, std: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Returns features with mean 0 and standard deviation 1 as in training; missing features are 0."""
    inside = features.clamp(low, high)
    return torch.where(is_known, (inside - mean) / std, torch.zeros_like(inside))


@dataclass(frozen=True)
class Choice:
    """A linear model and how it was chosen.

    Attributes:
        linear: Fitted on all training rows.
        held_out: Out-of-fold outputs `(N, K)` of all training rows.
        penalty: The chosen penalty.
        loss: Mean loss of the chosen penalty over held-out rows.
        scale: Logits per unit of the outputs of a ridge regression; None for a logistic regression and for numbers.
    """

    linear: Linear
    held_out: Tensor
    penalty: float
    loss: float
    scale: float | None = None


def fit_linear(
    features: Tensor,
    target: Tensor,
    folds: Tensor,
    *,
    classes: int = 0,
    clip: bool = True,
    judge: Judge | None = None,
    penalties: Sequence[float] | None = None,
    weight: float = 0.5,
    weights: Tensor | None = None,
) -> Choice:
    """Fits a ridge regression to numbers `(N, K)`, or a logistic regression to class numbers `(N,)`.

    The penalty with the lowest loss over all folds is chosen; with `judge`, the loss on those rows counts too.

    Args:
        features: `(N, F)`, NaN where unknown.
        target: The target; rows with NaN or a negative class number are left out.
        folds: `(N,)` fold of each row, from 0.
        classes: Number of classes; 0 for numbers.
        clip: Whether to clip features to the range of the training rows (0.5 to 99.5%, widened by half of it).
        judge: Features, target and weights of validation rows.
        penalties: Candidates; by default a wide range.
        weight: Weight of the validation rows in the choice; the folds have the rest.
        weights: `(N,)` weights of the rows; None for equal weights.

    Example:
        >>> x = torch.linspace(-1, 1, 40).double()[:, None]
        >>> found = fit_linear(x, 3 * x + 1, torch.arange(40) % 5)
        >>> found.linear(torch.tensor([[0.5]]).double()).round(decimals=3).item()
        2.5
    """
    has_target = (target >= 0) if classes else ~target.isnan().any(-1)
    has_target = has_target if weights is None else has_target & (weights > 0)
    solve = _logistic_path if classes else _ridge_path
    penalties = tuple(penalties or (LOGISTIC_PENALTIES if classes else RIDGE_PENALTIES))

    def path(rows: Tensor) -> list[Linear]:
        rows = rows & has_target
        if not rows.any():  # every known target is in one fold: there is nothing else to fit to
            rows = has_target
        moments = _moments(features[rows], clip)
        inputs = standardized(features[rows], ~features[rows].isnan(), *moments)
        solved = solve(inputs, target[rows], penalties, classes, None if weights is None else weights[rows])
        return [Linear(*moments, weight, bias) for weight, bias in solved]

    held = features.new_zeros(len(penalties), len(features), classes or target.shape[1])
    for fold in folds.unique().tolist():
        inside = folds == fold
        held[:, inside] = _outputs(path(~inside), features[inside])
    whole = path(torch.ones_like(has_target))
    counted = None if weights is None else weights[has_target]
    losses = torch.stack([loss_of(outputs[has_target], target[has_target], classes, counted) for outputs in held])
    if judge is not None and len(judge[0]):
        judged = torch.stack([loss_of(outputs, judge[1], classes, judge[2]) for outputs in _outputs(whole, judge[0])])
        losses = (1 - weight) * losses + weight * judged
    best = int(losses.nan_to_num(nan=torch.inf).argmin())
    return Choice(whole[best], held[best], penalties[best], float(losses[best]))


def _outputs(path: Sequence[Linear], features: Tensor) -> Tensor:
    """Returns the outputs `(P, N, K)` of linear maps with the same moments; the features are standardized once."""
    first = path[0]
    inputs = standardized(features, ~features.isnan(), first.mean, first.std, first.low, first.high)
    return torch.stack([inputs @ linear.weight + linear.bias for linear in path])


def fit_classes(
    features: Tensor,
    target: Tensor,
    folds: Tensor,
    classes: int,
    *,
    clip: bool = True,
    judge: Judge | None = None,
    logistic: bool = True,
    weights: Tensor | None = None,
) -> Choice:
    """Fits ridge on a 0/1 column per class, scaled to the best logits, or logistic regression if that is better.

    The scale and the choice assume one more series with each class (Platt 1999): that a few series had no mistake does
    not prove that there are none. The arguments are those of `fit_linear`.
    """
    judged = None if judge is None else (judge[0], class_columns(judge[1], classes), judge[2])
    ridge = fit_linear(features, class_columns(target, classes), folds, clip=clip, judge=judged, weights=weights)
    steepness = torch.logspace(0, 2, 41, dtype=torch.float64)
    losses = torch.stack([expected_loss(ridge.held_out * by, target, classes, weights) for by in steepness])
    by = float(steepness[int(losses.argmin())])
    choices = [replace(ridge, linear=ridge.linear.scaled(by), held_out=ridge.held_out * by, scale=by)]
    if logistic:
        options: dict[str, Any] = {"clip": clip, "judge": judge, "weights": weights}
        choices.append(fit_linear(features, target, folds, classes=classes, **options))

    def loss(choice: Choice) -> float:
        mean = expected_loss(choice.held_out, target, classes, weights)
        if judge is None:
            return float(mean)
        return float(mean + expected_loss(choice.linear(judge[0]), judge[1], classes, judge[2])) / 2

    return min((replace(choice, loss=loss(choice)) for choice in choices), key=lambda choice: choice.loss)


def class_columns(target: Tensor, classes: int) -> Tensor:
    """Returns a 0/1 column per class, NaN where the class is unknown."""
    columns = torch.nn.functional.one_hot(target.clamp(min=0).long(), classes).double()
    return columns.masked_fill((target < 0)[:, None], torch.nan)


def expected_loss(output: Tensor, target: Tensor, classes: int, weights: Tensor | None = None) -> Tensor:
    """Returns the cross entropy with one more series of every class for each answer."""
    mask = target >= 0
    smoothing = classes / (int(mask.sum()) + classes)
    return _cross_entropy(output[mask], target[mask].long(), weights, mask, smoothing)


def loss_of(output: Tensor, target: Tensor, classes: int, weights: Tensor | None = None) -> Tensor:
    """Returns the cross entropy of classes or the mean squared error of numbers; unknown targets are ignored."""
    if classes:
        has_target = target >= 0
        return _cross_entropy(output[has_target], target[has_target].long(), weights, has_target)
    gaps = (output - target).square()
    if weights is None:
        return gaps.nanmean()
    each = weights[:, None] * ~gaps.isnan()
    return (each * gaps.nan_to_num()).sum() / each.sum()


def _cross_entropy(
    output: Tensor, target: Tensor, weights: Tensor | None, known: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Returns the mean, weighted if there are weights of the rows, of which `known` are those of the output."""
    if weights is None:
        return torch.nn.functional.cross_entropy(output, target, label_smoothing=smoothing)
    losses = torch.nn.functional.cross_entropy(output, target, label_smoothing=smoothing, reduction="none")
    return (losses * weights[known]).sum() / weights[known].sum()


def _moments(features: Tensor, clip: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns mean, standard deviation, lower and upper clipping limit of each column."""
    low, high = features.new_full((2, features.shape[1]), torch.inf)
    low = -low
    if clip:
        # With many rows, a sample has practically the same quantiles.
        sample = features[:: max(1, len(features) // 20_000)]
        least, most = torch.nanquantile(sample, features.new_tensor([0.005, 0.995]), dim=0)
        least, most = least.nan_to_num(nan=0.0), most.nan_to_num(nan=0.0)
        low, high = least - 0.5 * (most - least), most + 0.5 * (most - least)
    inside = features.clamp(low, high)
    mean = inside.nanmean(0).nan_to_num(nan=0.0)
    std = (inside - mean).square().nanmean(0).nan_to_num(nan=0.0).sqrt()
    constant = std <= 1e-9 * mean.abs().clamp(min=1e-9)
    return mean, torch.where(constant, torch.ones_like(std), std), low, high


def _ridge_path(
    x: Tensor, y: Tensor, penalties: Sequence[float], classes: int, weights: Tensor | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Minimizes `mean |y - x w - b|^2 / F + penalty |w|^2` for each penalty, with one eigenvalue problem."""
    count, width = x.shape
    if weights is None:
        middle, bias = x.mean(0), y.mean(0)
        x, y = x - middle, y - bias
    else:
        share = weights / weights.mean()
        middle, bias = share @ x / count, share @ y / count
        x, y = (x - middle) * share.sqrt()[:, None], (y - bias) * share.sqrt()[:, None]
    small = width <= count
    values, vectors = torch.linalg.eigh((x.T @ x if small else x @ x.T) / (count * width))
    values = values.clamp(min=0)
    side = vectors.T @ ((x.T @ y) if small else y) / (count * width)
    solutions = []
    for penalty in penalties:
        solved = vectors @ (side / (values + penalty)[:, None])
        weight = solved if small else x.T @ solved
        solutions.append((weight, bias - middle @ weight))
    return solutions


def _logistic_path(
    x: Tensor, y: Tensor, penalties: Sequence[float], classes: int, weights: Tensor | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Minimizes `mean cross entropy + penalty |w|^2 / 2` for each penalty, beginning where the last one ended."""
    count, width = x.shape
    basis = None
    if width > count:  # the weights are in the span of the rows, so there are at most as many unknowns as rows
        basis = torch.linalg.qr(x.T).Q
        x = x @ basis
    x = x / width**0.5
    share = None if weights is None else weights / weights.mean()
    shares = torch.bincount(y.long(), weights=share, minlength=classes).to(x) + 0.5
    weight = x.new_zeros(x.shape[1], classes).requires_grad_()
    bias = (shares / shares.sum()).log().requires_grad_()
    solutions = []
    minimize = newton if is_small(count, x.shape[1], classes) else _minimize
    for penalty in sorted(penalties, reverse=True):
        minimize(x, y.long(), weight, bias, penalty, share)
        solved = weight.detach() / width**0.5
        solutions.append((solved if basis is None else basis @ solved, bias.detach().clone()))
    return solutions


def _minimize(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, penalty: float, share: Tensor | None = None) -> None:
    """Sets weight and bias to the minimum, with L-BFGS."""
    optimizer = without_compiler(torch.optim.LBFGS)([weight, bias], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        losses = torch.nn.functional.cross_entropy(x @ weight + bias, y, reduction="none")
        loss = (losses if share is None else share * losses).mean() + penalty / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)


_NEWTON_ITERATIONS = 50
_TOLERANCE = 1e-9
_MOST_UNKNOWNS = 120
_MOST_HESSIAN_NUMBERS = 30_000_000
# The same number added to all biases changes nothing: without this the Hessian would be singular.
_RIDGE = 1e-9


def is_small(rows: int, width: int, classes: int) -> bool:
    """Returns whether the Hessian is small enough to be computed and solved again and again."""
    unknowns = (width + 1) * classes
    return unknowns <= _MOST_UNKNOWNS and rows * unknowns**2 <= _MOST_HESSIAN_NUMBERS


@torch.no_grad()
def newton(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, penalty: float, share: Tensor | None = None) -> None:
    """Sets weight and bias to the minimum of `mean cross entropy + penalty |weight|^2 / 2`.

    Args:
        x: `(N, F)` inputs.
        y: `(N,)` class numbers.
        weight: `(F, K)`, where to begin, and the result.
        bias: `(K,)`, likewise.
        penalty: Strength of the L2 penalty on the weights.
        share: `(N,)` weights of the rows, with mean 1; None for equal weights.
    """
    count, classes = len(x), len(bias)
    inputs = torch.cat([x, x.new_ones(count, 1)], dim=1)
    unknowns = torch.cat([weight, bias[None]])
    penalties = torch.full_like(unknowns, penalty)
    penalties[-1] = 0
    hot = torch.nn.functional.one_hot(y, classes).to(x)

    counted = inputs if share is None else inputs * share[:, None]

    def loss_at(point: Tensor) -> tuple[Tensor, Tensor]:
        logits = inputs @ point
        losses = logits.logsumexp(1) - (logits * hot).sum(1)
        trial = (losses if share is None else losses * share).mean() + (penalties * point.square()).sum() / 2
        return trial, logits.softmax(1)

    loss, chances = loss_at(unknowns)
    for _ in range(_NEWTON_ITERATIONS):
        gradient = counted.T @ (chances - hot) / count + penalties * unknowns
        if gradient.abs().max() < _TOLERANCE:
            break
        second = _hessian(inputs, counted, chances, penalties)
        step = torch.linalg.solve(second, gradient.T.flatten()).reshape(classes, -1).T
        size = 1.0
        while (trial := loss_at(unknowns - size * step))[0] > loss and size > 1e-6:
            size /= 2
        unknowns, (loss, chances) = unknowns - size * step, trial
    weight.copy_(unknowns[:-1])
    bias.copy_(unknowns[-1])


def _hessian(inputs: Tensor, counted: Tensor, chances: Tensor, penalties: Tensor) -> Tensor:
    """Returns the second derivatives, `(K (F + 1), K (F + 1))`, class by class."""
    curvature = torch.diag_embed(chances) - chances[:, :, None] * chances[:, None]  # (N, K, K)
    weighed = curvature[..., None] * inputs[:, None, None] / len(inputs)  # (N, K, K, F + 1)
    second = torch.tensordot(counted, weighed, dims=([0], [0])).permute(1, 0, 2, 3)  # (K, F + 1, K, F + 1)
    return second.reshape(penalties.numel(), -1) + torch.diag(penalties.T.flatten() + _RIDGE)
