"""Attribution of predictions to observations: integrated gradients over channels and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import Batch, Sequences
from ..model import SequenceModel, pooled
from ..settings import number, whole
from ..storage import Result

# Gauss's rule on every stretch of the path.
_PLACES, _WEIGHTS = (numbers / 2 for numbers in np.polynomial.legendre.leggauss(8))
# Numbers that one batch of points may hold per tensor of hidden states: 16 MB.
_MOST_NUMBERS = 2**22


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
    """

    values: NDArray[np.float64]
    output: float
    reference: float
    error: float
    points: int


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
) -> Attribution:
    """Divides the difference between the output for a series and for a reference among the values of the series.

    The gradient of the output is integrated along the straight line from the reference to the series (Sundararajan et
    al., 2017, https://arxiv.org/abs/1703.01365), so the contributions sum to the difference. Times and the pattern of
    missing values are those of the series all the way.

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
    batch = data.batch([row])
    training, slow = model.training, [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval().requires_grad_(False)
    try:
        path = _Path(model, batch, output, step, probability)
        reference, end = path.outputs(np.array([0.0, 1.0])).tolist()
        allowed = tolerance * max(1.0, abs(end - reference))
        values, points = _integrate(path, allowed, most)
        error = abs(float(values.sum()) - (end - reference))
        return Attribution(path.summed(values), end, reference, error, points)
    finally:
        for parameter in slow:
            parameter.requires_grad_(True)
        model.train(training)


def _integrate(path: _Path, allowed: float, most: int) -> tuple[NDArray[np.float64], int]:
    """Returns (contributions, points): stretches whose contributions miss the change of the output are halved."""
    done, missed, points = np.zeros(path.shape), 0.0, 0
    edges = np.array([[0.0, 0.5], [0.5, 1.0]])
    while True:
        parts = path.stretches(edges)
        points += len(edges) * len(_PLACES)
        gaps = parts.sum((1, 2)) - (path.outputs(edges[:, 1]) - path.outputs(edges[:, 0]))
        bad = ~(np.abs(gaps) <= allowed / (4 * len(gaps)))  # also where a gradient is not finite
        if missed + np.abs(gaps).sum() <= allowed or points + 2 * bad.sum() * len(_PLACES) > most:
            return done + parts.sum(0), points
        done, missed = done + parts[~bad].sum(0), missed + float(np.abs(gaps[~bad]).sum())
        low, high = edges[bad].T
        middle = (low + high) / 2
        edges = np.concatenate([np.stack([low, middle], 1), np.stack([middle, high], 1)])


class _Path:
    """The straight line from the reference (0 everywhere) at 0 to the series at 1."""

    def __init__(self, model: SequenceModel, batch: Batch, output: int, step: int, probability: bool):
        self.model, self.output, self.step, self.probability = model, output, step, probability
        weight = model.head.weight
        x = batch.x.to(weight.device)
        self.symbols = model.embedding is not None
        self.end: Tensor = model.embedding(x.squeeze(-1)) if model.embedding is not None else x.to(weight.dtype)
        self.shape = tuple(self.end.shape[1:])
        self.offset: Tensor | float = 0.0
        self.times = {name: tensor.to(weight.device) for name, tensor in batch.inputs.items()}
        if self.symbols and model.start is not None:
            with torch.no_grad():
                self.offset = model.start(x, **self.times)
        self.at_once = max(1, _MOST_NUMBERS // (x.shape[1] * max(model.layer.hidden_size, self.shape[-1])))

    def _value(self, x: Tensor) -> Tensor:
        """Returns the output for each of the inputs `(n, T, D)`."""
        times: dict[str, Any] = {name: tensor.expand(len(x), *tensor.shape[1:]) for name, tensor in self.times.items()}
        if self.symbols:  # a linear start sees the symbols themselves, which stay
            y = self.model.layer(x, **times)[0]
            y = y if self.model.pool == "last" else pooled(y, times.get("lengths"), self.model.pool)
            found = self.model.head(y) + self.offset
        else:
            found = self.model(x, **times)
        found = found[:, self.step] if self.model.per_step else found
        return (found.softmax(-1) if self.probability else found)[:, self.output]

    def _at(self, places: NDArray[np.float64]) -> Tensor:
        return torch.tensor(places).to(self.end)[:, None, None] * self.end

    def outputs(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the outputs at `places` of the path."""
        with torch.no_grad():
            parts = np.array_split(places, -(-len(places) // self.at_once))
            return torch.cat([self._value(self._at(part)) for part in parts]).double().numpy(force=True)

    def stretches(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """`(n, T, D)` what the stretches `edges (n, 2)` contribute: gradients by Gauss's rule, times the way."""
        low, size = edges[:, :1], np.diff(edges, axis=1)
        places, weights = (low + size * (0.5 + _PLACES)).ravel(), (size * _WEIGHTS).ravel()
        slopes = []
        for part in np.array_split(places, -(-len(places) // self.at_once)):
            x = self._at(part).requires_grad_(True)
            with torch.enable_grad():
                slopes += [torch.autograd.grad(self._value(x).sum(), x)[0].double().cpu()]
        found = torch.cat(slopes) * torch.tensor(weights)[:, None, None] * self.end.double().cpu()
        return found.reshape(len(edges), len(_PLACES), *self.shape).sum(1).numpy()

    def summed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`(T, D)` contributions per channel; those of a symbol are the sum over its vector."""
        return values.sum(-1, keepdims=True) if self.symbols else values
