"""Gradients of the loss at every step, the loss surface, and both over training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...model import SequenceModel
from ...settings import number, whole
from ...storage import Result
from ._gradients import gradient_flow
from ._instrumented import Instrumented, as_layer, frozen, name_of

Loss = Callable[[Tensor, Tensor], Tensor]


def default_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Returns the cross entropy for integer targets, otherwise the mean squared error."""
    if target.dtype.is_floating_point:
        return nn.functional.mse_loss(prediction, target.to(prediction.dtype).reshape(prediction.shape))
    return nn.functional.cross_entropy(prediction.flatten(0, -2), target.flatten())


@dataclass(frozen=True)
class LossGradients(Result):
    """‖∂L/∂h_t‖ of each sequence for t = 1..T: the teaching signal propagated back in time.

    Attributes:
        model: Name of the layer.
        loss: The loss L.
        norms: `(B, T)` gradient norms.
    """

    model: str
    loss: float
    norms: NDArray[np.float64]


def loss_gradients(
    model: SequenceModel, x: Tensor, target: Tensor, *, loss: Loss = default_loss, **times: Any
) -> LossGradients:
    """Computes ‖∂L/∂h_t‖ for all t (mmRNN Fig. 3 left, iRNN Fig. 9a); `times` are dt, t, lengths and observed.

    If y is not part of the state of a cell, the direct effect of y_t on L counts from step t - 1.

    Example:
        >>> import torch, chronode
        >>> model = SequenceModel(chronode.create("lstm", 2, 8, outputs="last"), 3)
        >>> loss_gradients(model, torch.randn(4, 6, 2), torch.tensor([0, 1, 2, 0])).norms.shape
        (4, 6)
    """
    twin = frozen(model)
    instrumented = Instrumented(model.layer)
    nudges: list[Tensor] = []

    def instrumented_output(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        inputs = instrumented.enter(args[0], **{key: value for key, value in kwargs.items() if key != "state"})
        steps, batch = inputs.x.shape[:2]
        nudges.append(torch.zeros(steps, batch, instrumented.size, dtype=torch.float64, requires_grad=True))
        y, _ = instrumented.run(inputs, instrumented.start(batch), nudges[0])
        if instrumented.layer.outputs == "last":
            return y[-1 if inputs.lengths is None else (inputs.lengths - 1, torch.arange(batch))], output[1]
        return (y.transpose(0, 1) if instrumented.layer.batch_first else y), output[1]

    twin.layer.register_forward_hook(instrumented_output, with_kwargs=True)
    x = x.double() if x.dtype.is_floating_point else x
    with torch.enable_grad():
        value = loss(twin(x, **times), target)
    (gradients,) = torch.autograd.grad(value, nudges[0])
    return LossGradients(name_of(model.layer), float(value.detach()), gradients.norm(dim=-1).T.numpy())


@dataclass(frozen=True)
class LossSurface(Result):
    """Loss on a plane in weight space.

    Attributes:
        model: Name of the layer.
        steps: `(n,)` distances along each of the two directions, relative to the norms of the rows of the weights.
        values: `(n, n)` loss; the model itself is in the middle.
    """

    model: str
    steps: NDArray[np.float64]
    values: NDArray[np.float64]


@torch.no_grad()
def loss_surface(
    model: SequenceModel,
    x: Tensor,
    target: Tensor,
    *,
    loss: Loss = default_loss,
    radius: float = 1.0,
    points: int = 21,
    seed: int = 0,
    **times: Any,
) -> LossSurface:
    """Computes the loss in two random directions, normalized by the rows of the weights (mmRNN Fig. 3 right).

    Example:
        >>> import torch, chronode
        >>> model = SequenceModel(chronode.create("lstm", 2, 8, outputs="last"), 3)
        >>> loss_surface(model, torch.randn(4, 6, 2), torch.tensor([0, 1, 2, 0]), points=3).values.shape
        (3, 3)
    """
    twin = copy.deepcopy(model).eval()
    rng = torch.Generator().manual_seed(seed)
    home = [p.clone() for p in twin.parameters()]
    directions = [[_like(p, rng) for p in home] for _ in range(2)]
    steps = np.linspace(-number("radius", radius, above=0), radius, whole("points", points, at_least=2))
    values = np.empty((len(steps), len(steps)))
    for i, a in enumerate(steps):
        for j, b in enumerate(steps):
            for parameter, start, u, v in zip(twin.parameters(), home, *directions, strict=True):
                parameter.copy_(start + float(a) * u + float(b) * v)
            values[i, j] = float(loss(twin(x, **times), target))
    return LossSurface(name_of(model.layer), steps, values)


def teach_bits(
    models: Sequence[str] = ("ode-rnn", "mmrnn"),
    *,
    steps: int = 31,
    hidden_size: int = 32,
    points: int = 15,
    seed: int = 0,
) -> tuple[list[LossGradients], list[LossSurface]]:
    """Computes the teaching signal and the loss surface of each model on blocks of `steps` bits (mmRNN Fig. 3).

    Example:
        >>> signals, surfaces = teach_bits(["lstm"], steps=6, hidden_size=4, points=3)
        >>> signals[0].norms.shape, surfaces[0].values.shape
        ((64, 6), (3, 3))
    """
    from ..tasks.bitstream import bitstream

    batch = bitstream(64, seed, event=False, shortest=steps, longest=steps).batch()
    assert batch.target is not None
    times = {"dt": batch.dt, "lengths": batch.lengths}
    signals, surfaces = [], []
    for name in models:
        layer = as_layer(name, 1, hidden_size, seed, outputs="last")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = SequenceModel(layer, 2)
        signals.append(replace(loss_gradients(model, batch.x, batch.target, **times), model=name))
        plane = loss_surface(model, batch.x, batch.target, points=points, radius=2.0, seed=seed, **times)
        surfaces.append(replace(plane, model=name))
    return signals, surfaces


def _like(parameter: Tensor, rng: torch.Generator) -> Tensor:
    random = torch.randn(parameter.shape, generator=rng).to(parameter)
    if parameter.dim() < 2:
        return torch.zeros_like(parameter)
    return random * parameter.norm(dim=-1, keepdim=True) / random.norm(dim=-1, keepdim=True).clamp(min=1e-12)


@dataclass(frozen=True)
class GradientHistory(Result):
    """Gradient flow over training (iRNN Figs. 3, 8 and 9), one entry per record.

    Attributes:
        model: Name of the layer.
        steps: Training steps of the records.
        first: Mean over sequences of ‖∂h_T/∂h_1‖.
        ratio: Mean of ‖∂h_T/∂h_1‖ / ‖∂h_T/∂h_{T-1}‖.
        losses: Loss; NaN without a target.
        loss_first: Mean of ‖∂L/∂h_1‖, NaN without a target.
    """

    model: str
    steps: NDArray[np.int64]
    first: NDArray[np.float64]
    ratio: NDArray[np.float64]
    losses: NDArray[np.float64]
    loss_first: NDArray[np.float64]


def track_adding(
    models: Sequence[str] = ("rnn", "irnn"),
    *,
    length: int = 50,
    steps: int = 100,
    every: int = 10,
    hidden_size: int = 32,
    learning_rate: float = 1e-2,
    seed: int = 0,
) -> list[GradientHistory]:
    """Trains each model on the adding problem and records its gradient flow (iRNN Figs. 3, 8 and 9).

    As in the paper: length 200, 1000 steps and batches of 128, with Adam and gradients clipped at norm 1.

    Example:
        >>> [history] = track_adding(["irnn"], length=8, steps=2, every=1, hidden_size=4)
        >>> history.steps.tolist()
        [0, 1, 2]
    """
    from ..tasks.synthetic import adding

    whole("steps", steps, at_least=1)
    histories = []
    for name in models:
        rng = np.random.default_rng(seed)
        layer = as_layer(name, 2, hidden_size, seed, outputs="last")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = SequenceModel(layer, 1)
        fixed = adding(8, rng, length=length).batch()
        track = GradientTracker(model, fixed.x, fixed.target, every=every)
        optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        track(0)
        for step in range(1, steps + 1):
            batch = adding(128, rng, length=length).batch()
            assert batch.target is not None
            optimizer.zero_grad(set_to_none=True)
            default_loss(model(batch.x), batch.target).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            track(step)
        histories.append(replace(track.history(), model=name))
    return histories


class GradientTracker:
    """Recorder of gradient flow on a fixed batch; call it with the step number in any training loop.

    Example:
        >>> import torch, chronode
        >>> model = SequenceModel(chronode.create("rnn", 2, 4, outputs="last"), 2)
        >>> track = GradientTracker(model, torch.randn(3, 5, 2), torch.tensor([0, 1, 1]), every=10)
        >>> for step in range(21):
        ...     track(step)  # after the optimizer's step
        >>> track.history().steps.tolist()
        [0, 10, 20]
    """

    def __init__(
        self,
        model: SequenceModel,
        x: Tensor,
        target: Tensor | None = None,
        *,
        every: int = 1,
        loss: Loss = default_loss,
        **times: Any,
    ):
        self.model, self.x, self.target, self.loss, self.times = model, x, target, loss, times
        self.every = whole("every", every, at_least=1)
        self.rows: list[tuple[int, float, float, float, float]] = []

    def __call__(self, step: int) -> None:
        """Records the gradient flow if it is due."""
        if step % self.every:
            return
        flow = gradient_flow(self.model, self.x, **self.times)
        value, reached = float("nan"), float("nan")
        if self.target is not None:
            signal = loss_gradients(self.model, self.x, self.target, loss=self.loss, **self.times)
            value, reached = signal.loss, float(signal.norms[:, 0].mean())
        self.rows.append((step, float(flow.norms[:, 1].mean()), float(flow.ratio.mean()), value, reached))

    def history(self) -> GradientHistory:
        """Returns all records so far."""
        steps, *columns = zip(*self.rows, strict=True) if self.rows else [()] * 5
        return GradientHistory(name_of(self.model.layer), np.array(steps, dtype=np.int64), *map(np.array, columns))
