"""Baselines that a model has to beat, measured on the same test part as the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import Parts, Scaler, Sequences, step_gap
from ..model import SequenceModel
from ..model.start import (
    StartFit,
    drift,
    fit_forecast,
    fit_start,
    fit_targets,
    histories,
    last_value,
    outputs_of,
    seasonal_naive,
    training_season,
)
from ..training import LOWER_IS_BETTER, Objective, by_target, class_counts

Metrics = dict[str, float]

_MOST_NUMBERS = 20_000_000
_MOST_CLASSES = 50
_last: list[tuple[Sequences, Sequences, StartFit]] = []  # the linear model of the last data, which takes seconds


def baselines(
    objective: Objective,
    parts: Parts,
    *,
    channels: Sequence[str] = (),
    model: SequenceModel | None = None,
    linear: bool = True,
) -> dict[str, Metrics]:
    """Measures simple baselines on the test part; see `measured_baselines`.

    Returns:
        Metrics by name of the baseline.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [1.0, 3.0], [3.0, 1.0], [5.0, 2.0]] * 5, target=["a", "a", "a", "b"] * 5)
        >>> found = baselines(Objective.for_data(s), Parts(s, s, s))
        >>> list(found), found["majority"]["accuracy"]
        (['majority', 'linear (summaries)', 'nearest by DTW'], 0.75)
    """
    return measured_baselines(objective, parts, channels=channels, model=model, linear=linear).overall


class MeasuredBaselines(NamedTuple):
    """Metrics of baselines by name, and for each of several targets: by name of the target, then of the baseline."""

    overall: dict[str, Metrics]
    targets: dict[str, dict[str, Metrics]]


def measured_baselines(
    objective: Objective,
    parts: Parts,
    *,
    channels: Sequence[str] = (),
    model: SequenceModel | None = None,
    linear: bool = True,
) -> MeasuredBaselines:
    """Measures simple baselines on the test part, over all targets and for each of them.

    Classes: the most frequent one, a linear model, the nearest training series by dynamic time warping. Numbers: the
    mean and a linear model. Forecasts: the last value, the last season, the line through the window, a linear model.

    Args:
        objective: Metrics to compute.
        parts: Series, scaled as for the model.
        channels: Channels that the target continues, for a forecast.
        model: The trained model; if it has a linear start, that is the linear model to compare with.
        linear: Whether to fit a linear model.
    """
    target, test = parts.test.target, parts.test
    assert target is not None
    if channels:
        predictions = _forecasts(parts, channels, objective)
    else:
        name = {"class": "majority", "value": "mean", "several": "constant"}[objective.kind]
        predictions = {name: constant_outputs(parts.train).expand(_rows(test), -1)}
    if linear:
        predictions |= _linear(parts, objective, channels, model)
    if objective.kind == "class" and not target.per_step and test.base_values.dtype.kind == "f":
        nearest = nearest_by_warping(parts.train, test)
        if nearest is not None:
            predictions["nearest by DTW"] = _votes(parts.train, nearest, objective.num_outputs)
    each = {name: by_target(objective, output, _truth(test), _weights(test)) for name, output in predictions.items()}
    targets = {target: {name: metrics[target] for name, metrics in each.items()} for target in objective.targets}
    return MeasuredBaselines(
        {name: _measured(objective, output, test) for name, output in predictions.items()}, targets
    )


def best_baseline(metric: str, found: dict[str, Metrics]) -> tuple[str, float] | None:
    """Returns the name and value of the best baseline by a metric; None if none has it.

    Example:
        >>> best_baseline("accuracy", {"majority": {"accuracy": 0.5}, "linear": {"accuracy": 0.9}})
        ('linear', 0.9)
    """
    values = [(name, metrics[metric]) for name, metrics in found.items() if metrics.get(metric) is not None]
    values = [(name, value) for name, value in values if value == value]
    if not values:
        return None
    pick = min if metric in LOWER_IS_BETTER else max
    return pick(values, key=lambda pair: pair[1])


def linear_validation(objective: Objective, parts: Parts) -> Metrics:
    """Returns the validation metrics of the linear model that a network could start from; empty if there is none.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
        >>> linear_validation(Objective.for_data(s), Parts(s[:30], s[30:], s[30:]))["accuracy"]
        1.0
    """
    fitted = _fitted_linear(parts, objective, ())
    return {} if fitted is None else _measured(objective, fitted.outputs(parts.valid), parts.valid)


def _linear(
    parts: Parts, objective: Objective, channels: Sequence[str], model: SequenceModel | None
) -> dict[str, Tensor]:
    """Outputs of the linear start, or of the one that there could be."""
    replaced = model is not None and model.spec is not None and bool(model.spec.baseline) and model.is_linear
    if model is not None and model.start is not None and not replaced:
        outputs = outputs_of(model.start, parts.test, model.relative)
        return {model.start.title: outputs}
    fitted = _fitted_linear(parts, objective, channels)
    return {} if fitted is None else {fitted.start.title: fitted.outputs(parts.test)}


def _fitted_linear(parts: Parts, objective: Objective, channels: Sequence[str]) -> StartFit | None:
    """Returns the linear model of the training part; None if there are too many numbers or classes."""
    train = parts.train
    large = int(train.lengths.sum()) * train.num_channels > _MOST_NUMBERS or objective.num_outputs > _MOST_CLASSES
    if train.base_values.dtype.kind != "f" or large:
        return None
    if _last and _last[0][0] is train and _last[0][1] is parts.valid:
        return _last[0][2]
    if channels and train.target is not None and not train.target.per_step:
        fitted = fit_forecast(train, parts.valid, [train.channels.index(name) for name in channels])
    else:
        fitted = fit_targets(fit_start, train, parts.valid.with_classes(train.class_names))
    _last[:] = [(train, parts.valid, fitted)]
    return fitted


def _forecasts(parts: Parts, channels: Sequence[str], objective: Objective) -> dict[str, Tensor]:
    test, target = parts.test, parts.test.target
    assert target is not None
    at = [test.channels.index(name) for name in channels]
    if target.per_step:
        scaler = objective.scaler if objective.scaler is not None else parts.scaler
        return {"last value": torch.tensor(_last_values(test, scaler, objective.num_outputs, at))}
    horizon = objective.num_outputs // len(at)
    season, gap = training_season(parts.train, at, horizon), step_gap(parts.train)
    forecasts: dict[str, list[Tensor]] = {}
    for first in range(0, len(test), 256):
        history, lengths = histories(test[first : first + 256], at, gap)
        batch = {"last value": last_value(history, lengths, horizon), "drift": drift(history, lengths, horizon)}
        if season > 1:
            batch[f"seasonal naive ({season})"] = seasonal_naive(history, lengths, horizon, season)
        for name, values in batch.items():
            forecasts.setdefault(name, []).append(values.flatten(1))
    return {name: torch.cat(values) for name, values in forecasts.items()}


def _votes(train: Sequences, nearest: Tensor, classes: int) -> Tensor:
    assert train.target is not None
    labels = torch.tensor(train.target.values).long()[nearest]
    return torch.nn.functional.one_hot(labels.clamp(min=0), classes).double() * 10


def _measured(objective: Objective, output: Tensor, test: Sequences) -> Metrics:
    scores, truth = objective.scores(), _truth(test)
    truth = truth.long() if objective.kind == "class" else truth
    objective.measure(scores, output.double(), truth, _weights(test))
    if not objective.heads:
        return scores.compute()
    # Metrics of several targets have no sum; their losses do.
    return {"loss": float(objective.loss_of(output.double(), truth, weights=_weights(test)).mean), **scores.compute()}


def _truth(test: Sequences) -> Tensor:
    target = test.target
    assert target is not None
    return torch.tensor(target.values[test.steps] if target.per_step else target.values)


def _weights(test: Sequences) -> Tensor | None:
    weights = test.target_weights()
    return None if weights is None else torch.from_numpy(weights)


def _rows(s: Sequences) -> int:
    assert s.target is not None
    return int(s.lengths.sum()) if s.target.per_step else len(s)


def constant_outputs(train: Sequences) -> Tensor:
    """Returns outputs `(K,)` that are the same for all series: the class frequencies, or the mean of training."""
    parts = [part for part in train.by_target if part.target is not None]
    each = [
        _means(part) if part.classes is None else np.log(np.maximum(class_counts(part, weighted=True), 0.5))
        for part in parts
    ]
    return torch.tensor(np.concatenate(each))


def _means(train: Sequences) -> NDArray[np.float64]:
    target = train.target
    assert target is not None
    values = target.values[train.steps] if target.per_step else target.values
    weights = train.target_weights()
    if weights is None:
        return np.asarray(np.nanmean(values, axis=0, dtype=np.float64))
    each = weights[:, None] * ~np.isnan(values)
    return np.nansum(each * values, axis=0) / each.sum(0)


def _last_values(test: Sequences, scaler: Scaler | None, outputs: int, at: list[int]) -> NDArray[np.float64]:
    """For every step and horizon the value last seen; the channel's mean before the first one."""
    last = _filled(test.values[:, at].astype(np.float64), test.lengths)
    if scaler is not None:
        last = scaler.inverse_values(last, at)
    ahead = np.tile(last, (1, outputs // len(at)))
    return ahead if scaler is None else scaler.scale_target(ahead)


def _filled(values: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Holes filled with the value before them in the same series; 0 if there is none."""
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)[:, None]
    index = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    index = np.maximum(np.maximum.accumulate(index, axis=0), first)
    return np.nan_to_num(np.take_along_axis(values, index, axis=0))


BAND = 0.1
_MOST_CELLS = 5e7  # a few seconds
_BATCH_CELLS = 2**22


def nearest_by_warping(train: Sequences, test: Sequences) -> Tensor | None:
    """Returns the row `(N,)` of the training series nearest to each test series; None if it would take too long.

    The distance is dynamic time warping of squared differences within a band of a tenth of the length; missing values
    are replaced by 0, the mean of scaled series.

    Example:
        >>> from chronode.data import from_list
        >>> train = from_list([[0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
        >>> nearest_by_warping(train, from_list([[0.0, 0.0, 1.0, 0.0], [1.0, 0.9, 1.0, 1.0]])).tolist()
        [0, 1]
    """
    longest = max(int(train.lengths.max()), int(test.lengths.max()))
    apart = longest - min(int(train.lengths.min()), int(test.lengths.min()))
    width = min(longest, apart + 2 * BAND * longest + 1)
    if len(train) * len(test) * longest * width * train.num_channels > _MOST_CELLS:
        return None
    reference = train.batch()
    size = max(1, _BATCH_CELLS // (len(train) * longest * train.num_channels))
    nearest = []
    for first in range(0, len(test), size):
        batch = test.batch(slice(first, first + size))
        nearest.append(warping_distances(batch.x, batch.lengths, reference.x, reference.lengths).argmin(1))
    return torch.cat(nearest)


def warping_distances(a: Tensor, a_lengths: Tensor, b: Tensor, b_lengths: Tensor, *, band: float = BAND) -> Tensor:
    """Returns squared distances `(P, Q)` of the series `a (P, T, D)` and `b (Q, S, D)` by dynamic time warping.

    The cost matrix of each pair is filled diagonal by diagonal, for all pairs at once.

    Args:
        a: Padded series.
        a_lengths: `(P,)`.
        b: Padded series.
        b_lengths: `(Q,)`.
        band: Half-width of the band as a share of the longer series (at least the difference of the lengths).

    Example:
        >>> a, b = torch.tensor([[[0.0], [1.0], [1.0]]]), torch.tensor([[[0.0], [0.0], [1.0]]])
        >>> warping_distances(a, torch.tensor([3]), b, torch.tensor([3]), band=1.0).item()
        0.0
    """
    a, b = a.float(), b.float()
    rows, columns = a.shape[1], b.shape[1]
    spread = (a_lengths[:, None] - b_lengths[None]).abs()
    reach = spread + max(1, round(band * max(rows, columns)))
    widest = int(reach.max())
    never = torch.full((len(a), len(b), rows + 1), torch.inf)
    before, last = never.clone(), never.clone()  # of the two diagonals before; row -1 lies at 0
    distances = torch.full((len(a), len(b)), torch.inf)
    ends = (a_lengths - 1)[:, None] + (b_lengths - 1)[None]
    for diagonal in range(rows + columns - 1):
        low = max(0, diagonal - columns + 1, -(-(diagonal - widest) // 2))
        high = min(diagonal, rows - 1, (diagonal + widest) // 2) + 1
        i = torch.arange(low, high)
        cost = (a[:, None, low:high] - b[None, :, diagonal - i]).square().sum(-1)
        cost = cost.masked_fill((2 * i - diagonal).abs() > reach[..., None], torch.inf)
        best = torch.minimum(torch.minimum(last[..., low + 1 : high + 1], last[..., low:high]), before[..., low:high])
        now = never.clone()
        now[..., low + 1 : high + 1] = cost + (best if diagonal else 0.0)
        over = ends == diagonal
        if over.any():
            at = a_lengths[:, None, None].expand(len(a), len(b), 1)
            distances = torch.where(over, now.gather(2, at)[..., 0], distances)
        before, last = last, now
    return distances


_MOST_LAGS, _MOST_STEPS = 60, 2_000


def autoregression(history: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """Continues each channel with an autoregression, fitted by least squares to its own history: `(B, horizon, C)`.

    The number of lags, up to 60 and a third of the history, is that with the lowest AIC. Only the last 2,000 steps are
    used.

    Example:
        >>> wave = torch.sin(0.5 * torch.arange(60.0, dtype=torch.float64))
        >>> found = autoregression(wave[None, :50, None], torch.tensor([50]), 10)
        >>> bool((found.flatten() - wave[50:]).abs().max() < 1e-6)
        True
    """
    forecasts = torch.empty(len(history), horizon, history.shape[2], dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        for channel in range(history.shape[2]):
            values = history[row, max(0, length - _MOST_STEPS) : length, channel].double().numpy()
            forecasts[row, :, channel] = torch.tensor(_continued(values, horizon))
    return forecasts


def _continued(values: NDArray[np.float64], horizon: int) -> NDArray[np.float64]:
    most = min(_MOST_LAGS, len(values) // 3)
    level, spread = values.mean(), values.std()
    if most < 1 or spread <= 1e-12 * abs(level):
        return np.full(horizon, values[-1])
    scaled = (values - level) / spread
    # All orders are compared on the same steps, those that the longest can predict.
    inputs = np.stack([np.ones(len(scaled) - most), *(scaled[most - lag : -lag] for lag in range(1, most + 1))], axis=1)
    criteria = [_aic(inputs[:, : lags + 1], scaled[most:]) for lags in range(1, most + 1)]
    lags = 1 + int(np.argmin(criteria))
    lagged = np.stack([np.ones(len(scaled) - lags), *(scaled[lags - lag : -lag] for lag in range(1, lags + 1))], axis=1)
    weights = np.linalg.lstsq(lagged, scaled[lags:], rcond=None)[0]
    path = scaled.tolist()
    for _ in range(horizon):
        path.append(float(weights[0] + weights[1:] @ np.array(path[: -lags - 1 : -1])))
    return np.array(path[-horizon:]) * spread + level


def _aic(inputs: NDArray[np.float64], goal: NDArray[np.float64]) -> float:
    left = goal - inputs @ np.linalg.lstsq(inputs, goal, rcond=None)[0]
    return len(goal) * float(np.log(max(float(left @ left) / len(goal), 1e-24))) + 2 * inputs.shape[1]
