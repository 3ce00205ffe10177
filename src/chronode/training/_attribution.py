"""Attribution of predictions to observations: integrated gradients, and occlusion of what has no gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data import Batch, Sequences
from ..model import SequenceModel, pooled
from ..model.start import LinearStart, StackedStart
from ..settings import number, whole
from ..storage import Result

Floats = NDArray[np.float64]
Values = Callable[[Tensor], Tensor]
# Gauss's rule on every stretch of the path.
_PLACES, _WEIGHTS = (numbers / 2 for numbers in np.polynomial.legendre.leggauss(8))
# Numbers that one batch of points may hold per tensor of hidden states: 16 MB.
_MOST_NUMBERS = 2**22
# Features that count or rank: their outputs jump, so that gradients miss what they do.
_JUMPING = ("patterns", "patterns of changes", "ranked summaries")
_MOST_ORDERS = 16


@dataclass(frozen=True)
class Attribution(Result):
    """Contribution of each value of a series to one output of a model.

    Attributes:
        values: `(T, D)` contributions; 0 where a value is missing. Of symbols, one column.
        output: The output for the series.
        reference: The output for the reference: the same series with 0 for every observed value, which is the mean of a
            channel that was scaled.
        error: Difference between `output - reference` and the sum of the contributions.
        points: Points of the path from the reference to the series at which gradients were taken.
        static: `(S,)` contributions of the static values.
        by_gradients: Change of the output by the differentiable part of the model, divided by integrated gradients.
        by_occlusion: Change of the output by trees and by features that count or rank, divided by occlusion.
    """

    values: Floats
    output: float
    reference: float
    error: float
    points: int
    static: Floats
    by_gradients: float
    by_occlusion: float


def integrated_gradients(
    model: SequenceModel,
    data: Sequences,
    row: int = 0,
    *,
    output: int = 0,
    step: int = -1,
    probability: bool = False,
    tolerance: float = 1e-3,
    most: int = 1024,
    spans: int = 4,
    unscaled: Values | None = None,
) -> Attribution:
    """Divides the difference between the output for a series and for a reference among the values of the series.

    The gradient of the output is integrated along the straight line from the reference to the series (Sundararajan et
    al., 2017, https://arxiv.org/abs/1703.01365), so the contributions sum to the difference. Times and the pattern of
    missing values are those of the series all the way.

    Trees, and linear models of features that count or rank, have no useful gradients. Their part of the difference is
    the mean of what they change with the rest of the model at the reference and at the series (its Shapley value), and
    it is divided by occlusion: the values of a channel in a span of time are uncovered together, one group after the
    other in random orders, and the change of the output is shared equally by the values of the group.

    Args:
        model: a trained model.
        data: Series as the model takes them, that is, scaled.
        row: The series.
        output: Index of the logit or value.
        step: The step whose output is explained, for models with an output per step.
        probability: Explain the probability of class `output` instead of its logit.
        tolerance: Stretches of the line are halved until the contributions sum to the difference within `tolerance`,
            or within this share of it if it is above 1.
        most: Points of the line at which gradients are taken, at most; `error` of the result tells what is missing
            then.
        spans: Number of spans of equal duration for occlusion.
        unscaled: Map from outputs `(n, K)` to the units to be explained; by default those of the model.

    Returns:
        The contributions, both outputs and the error of the sum.

    Example:
        >>> from chronode import ModelSpec
        >>> from chronode.data import from_list
        >>> s = from_list([[0.5, -1.0, 2.0]], target=[1.0])
        >>> found = integrated_gradients(SequenceModel.build(ModelSpec.for_data(s, "gru", 4)), s)
        >>> found.values.shape, found.error < 1e-3
        ((3, 1), True)
    """
    tolerance, most = number("tolerance", tolerance, above=0), whole("most", most, at_least=2 * len(_PLACES))
    training, slow = model.training, [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval().requires_grad_(False)

    def answer(found: Tensor) -> Tensor:
        found = found[:, step] if model.per_step else found
        found = found.softmax(-1) if probability else found if unscaled is None else unscaled(found)
        return found[:, output]

    try:
        path = _Path(model, data.batch([row]), answer)
        if path.parts is None:
            smooth, (reference, end), points = _smooth(path, None, tolerance, most)
            rough = np.zeros_like(smooth)
        else:
            smooth, rough, reference, end, points = _both(path, span_masks(data, row, spans), tolerance, most)
        values, static = path.divided(smooth + rough)
        error = abs(float(values.sum() + static.sum()) - (end - reference))
        change = float(rough.sum())
        return Attribution(values, end, reference, error, points, static, end - reference - change, change)
    finally:
        for parameter in slow:
            parameter.requires_grad_(True)
        model.train(training)


def span_edges(data: Sequences, row: int, spans: int) -> Floats:
    """Returns the `spans + 1` ends of spans of equal duration of a series, in the unit of its clock.

    Example:
        >>> from chronode.data import from_list
        >>> span_edges(from_list([[1.0, 2.0, 3.0]], times=[[0.0, 1.0, 6.0]]), 0, 3).tolist()
        [0.0, 2.0, 4.0, 6.0]
    """
    times = data[row].times
    return np.linspace(times[0], times[-1], whole("spans", spans, at_least=1) + 1)


def span_masks(data: Sequences, row: int, spans: int) -> NDArray[np.bool_]:
    """Returns `(spans, T)`: the steps of each span; a step at an end belongs to the later span.

    Example:
        >>> from chronode.data import from_list
        >>> span_masks(from_list([[1.0, 2.0, 3.0]], times=[[0.0, 3.0, 6.0]]), 0, 2).tolist()
        [[True, False, False], [False, True, True]]
    """
    edges = span_edges(data, row, spans)
    span = np.searchsorted(edges[1:-1], data[row].times, side="right")
    return span == np.arange(spans)[:, None]


def _smooth(path: _Path, added: Tensor | None, tolerance: float, most: int) -> tuple[Floats, tuple[float, float], int]:
    """Returns (contributions, outputs at both ends, points), with `added` in place of what has no gradients."""
    path.added = added
    reference, end = path.outputs(np.array([0.0, 1.0])).tolist()
    allowed = tolerance * max(1.0, abs(end - reference))
    values, points = _integrate(path, allowed, most)
    return values, (reference, end), points


def _both(
    path: _Path, spans: NDArray[np.bool_], tolerance: float, most: int
) -> tuple[Floats, Floats, float, float, int]:
    """Returns (contributions by gradients, by occlusion, output for the reference, for the series, points)."""
    assert path.parts is not None
    groups = path.groups(spans)
    orders = max(1, min(_MOST_ORDERS, most // max(1, len(groups))) // 2)
    masks, order = _uncovered(len(groups), orders)
    rough = path.rough(masks, groups)
    ends = rough[0], rough[len(groups)]  # nothing and everything uncovered
    halves = [_smooth(path, added, tolerance / 2, most // 2) for added in ends]
    smooth = (halves[0][0] + halves[1][0]) / 2
    with torch.no_grad():
        sides = [path.rest(end) for end in (0.0, 1.0)]
        values = np.mean([path.answer(side + rough).double().numpy(force=True) for side in sides], axis=0)
    steps = np.diff(values.reshape(2 * orders, len(groups) + 1), axis=1)
    shares = np.zeros(len(groups))
    np.add.at(shares, order.ravel(), steps.ravel() / (2 * orders))
    sizes = np.maximum(groups.sum(1), 1)
    return smooth, (shares / sizes) @ groups, halves[0][1][0], halves[1][1][1], sum(points for *_, points in halves)


def _uncovered(count: int, orders: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Returns `(2 orders (count + 1), count)`, which groups are uncovered, and the orders, each also reversed."""
    rng = np.random.default_rng(0)
    forward = np.stack([rng.permutation(count) for _ in range(orders)]).astype(np.int64)
    order = np.concatenate([forward, forward[:, ::-1]])
    rank = np.argsort(order, axis=1)
    return (rank[:, None] < np.arange(count + 1)[:, None]).reshape(-1, count), order


def _integrate(path: _Path, allowed: float, most: int) -> tuple[Floats, int]:
    """Returns (contributions, points): stretches whose contributions miss the change of the output are halved."""
    done, missed, points = np.zeros(path.size), 0.0, 0
    edges = np.array([[0.0, 0.5], [0.5, 1.0]])
    while True:
        parts = path.stretches(edges)
        points += len(edges) * len(_PLACES)
        gaps = parts.sum(1) - (path.outputs(edges[:, 1]) - path.outputs(edges[:, 0]))
        bad = ~(np.abs(gaps) <= allowed / (4 * len(gaps)))  # also where a gradient is not finite
        if missed + np.abs(gaps).sum() <= allowed or points + 2 * bad.sum() * len(_PLACES) > most:
            return done + parts.sum(0), points
        done, missed = done + parts[~bad].sum(0), missed + float(np.abs(gaps[~bad]).sum())
        low, high = edges[bad].T
        middle = (low + high) / 2
        edges = np.concatenate([np.stack([low, middle], 1), np.stack([middle, high], 1)])


@dataclass(frozen=True)
class _Parts:
    """A start in two parts: with gradients and without; each is a sum of weighted models, `share * model(x)`."""

    smooth: tuple[tuple[Tensor, nn.Module], ...]
    rough: tuple[tuple[Tensor, nn.Module], ...]
    bias: Tensor

    @classmethod
    def of(cls, model: SequenceModel) -> _Parts | None:
        """Returns the parts of the start of a model; None if there are gradients everywhere."""
        start = model.start
        if start is None or model.relative is not None or model.embedding is not None:
            return None
        bias = torch.zeros(model.head.out_features, dtype=torch.float64)
        shares: list[tuple[Tensor, nn.Module]] = [(bias.new_ones(()), start)]
        if isinstance(start, StackedStart):
            shares, bias = list(zip(start.get_buffer("share"), start.members, strict=True)), start.get_buffer("bias")
        rough = tuple(pair for pair in shares if not _has_gradients(pair[1]))
        return cls(tuple(pair for pair in shares if _has_gradients(pair[1])), rough, bias) if rough else None


def _has_gradients(member: nn.Module) -> bool:
    return isinstance(member, LinearStart) and member.kind not in _JUMPING


class _Path:
    """The straight line from the reference (0 everywhere) at 0 to the series and its static values at 1.

    Numbers of the series and static values are one flat vector.

    Attributes:
        parts: Parts of the start of the model; None if there are gradients everywhere.
        added: Outputs `(K,)` in place of the part that has no gradients.
    """

    def __init__(self, model: SequenceModel, batch: Batch, answer: Values):
        self.model, self.answer, self.parts = model, answer, _Parts.of(model)
        self.added: Tensor | None = None
        weight = model.head.weight
        x = batch.x.to(weight.device)
        self.symbols = model.embedding is not None
        series: Tensor = model.embedding(x.squeeze(-1)) if model.embedding is not None else x.to(weight.dtype)
        self.shape = tuple(series.shape[1:])
        self.times = {name: tensor.to(weight.device) for name, tensor in batch.inputs.items()}
        static = self.times.pop("static", None)
        self.unknown = None if static is None else static.isnan()
        flat = series.flatten()
        self.end = flat if static is None else torch.cat([flat, static.flatten().nan_to_num().to(flat)])
        self.size = len(self.end)
        self.offset: Tensor | float = 0.0
        if self.symbols and model.start is not None:
            with torch.no_grad():
                self.offset = model.start(x, **self._inputs(self.end[None])[1])
        self.at_once = max(1, _MOST_NUMBERS // (x.shape[1] * max(model.layer.hidden_size, self.shape[-1])))

    def _inputs(self, flat: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Returns the series `(n, T, D)` and the other inputs of points `(n, size)`."""
        count = int(np.prod(self.shape))
        times: dict[str, Any] = {
            name: tensor.expand(len(flat), *tensor.shape[1:]) for name, tensor in self.times.items()
        }
        if self.unknown is not None:
            times["static"] = flat[:, count:].masked_fill(self.unknown, torch.nan)
        return flat[:, :count].unflatten(1, self.shape), times

    def _raw(self, flat: Tensor) -> Tensor:
        """Returns the outputs of the model for each of the points `(n, size)`."""
        x, times = self._inputs(flat)
        if self.symbols:  # a linear start sees the symbols themselves, which stay
            y = self.model.layer(x, **times)[0]
            y = y if self.model.pool == "last" else pooled(y, times.get("lengths"), self.model.pool)
            return self.model.head(y) + self.offset
        if self.parts is None:
            return self.model(x, **times)
        assert self.added is not None
        return self._rest(x, times) + self.added

    def _rest(self, x: Tensor, times: dict[str, Any]) -> Tensor:
        """Returns the outputs of the network and of the members of the start that have gradients."""
        assert self.parts is not None
        started = self.parts.bias.expand(len(x), -1)
        for share, member in self.parts.smooth:
            started = started + share * member(x, **times)
        return started if self.model.is_linear else self.model(x, started=started, **times)

    def rest(self, place: float) -> Tensor:
        """Returns the outputs `(1, K)` of the network and of the members with gradients at a place of the path."""
        return self._rest(*self._inputs(place * self.end[None]))

    def groups(self, spans: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns the groups of numbers that occlusion covers together, `(groups, size)`: the observed values of a
        channel in a span of time, and each static value.
        """
        moves = self.end.numpy(force=True) != 0
        steps, channels = self.shape
        cells = np.einsum("st,cd->scdt", spans, np.eye(channels, dtype=bool)).swapaxes(2, 3)
        cells = cells.reshape(-1, steps * channels)
        more = self.size - steps * channels
        blocks = [np.pad(cells, ((0, 0), (0, more))), np.eye(self.size, dtype=bool)[self.size - more :]]
        groups = np.concatenate(blocks) & moves
        return groups[groups.any(1)]

    def rough(self, masks: NDArray[np.bool_], groups: NDArray[np.bool_]) -> Tensor:
        """Returns the outputs `(n, K)` of the part without gradients, with the groups of each mask uncovered."""
        assert self.parts is not None
        outputs = []
        with torch.no_grad():
            for part in np.array_split(masks, -(-len(masks) // self.at_once)):
                x, times = self._inputs(torch.from_numpy(part @ groups).to(self.end) * self.end)
                outputs.append(torch.stack([share * member(x, **times) for share, member in self.parts.rough]).sum(0))
        return torch.cat(outputs)

    def _at(self, places: Floats) -> Tensor:
        return torch.tensor(places).to(self.end)[:, None] * self.end

    def outputs(self, places: Floats) -> Floats:
        """Returns the outputs at `places` of the path."""
        with torch.no_grad():
            parts = np.array_split(places, -(-len(places) // self.at_once))
            return torch.cat([self.answer(self._raw(self._at(part))) for part in parts]).double().numpy(force=True)

    def stretches(self, edges: Floats) -> Floats:
        """`(n, size)` what the stretches `edges (n, 2)` contribute: gradients by Gauss's rule, times the way."""
        low, size = edges[:, :1], np.diff(edges, axis=1)
        places, weights = (low + size * (0.5 + _PLACES)).ravel(), (size * _WEIGHTS).ravel()
        slopes = []
        for part in np.array_split(places, -(-len(places) // self.at_once)):
            x = self._at(part).requires_grad_(True)
            with torch.enable_grad():
                value = self.answer(self._raw(x)).sum()
            # A stack of trees alone does not depend on x here.
            slope = torch.autograd.grad(value, x)[0] if value.requires_grad else torch.zeros_like(x)
            slopes.append(slope.double().cpu())
        changes = torch.cat(slopes) * torch.tensor(weights)[:, None] * self.end.double().cpu()
        return changes.reshape(len(edges), len(_PLACES), -1).sum(1).numpy()

    def divided(self, values: Floats) -> tuple[Floats, Floats]:
        """Returns contributions `(T, D)`, those of a symbol summed over its vector, and those of static values."""
        count = int(np.prod(self.shape))
        series = values[:count].reshape(self.shape)
        return (series.sum(-1, keepdims=True) if self.symbols else series), values[count:]
