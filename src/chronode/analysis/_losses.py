"""What the loss sees: its gradient at every step, its surface, and both over training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .._checks import number, whole
from .._model import SequenceModel
from ._gradients import gradient_flow
from ._instrumented import Opened, as_layer, frozen, name_of
from ._result import Result

Loss = Callable[[Tensor, Tensor], Tensor]


def default_loss(answer: Tensor, target: Tensor) -> Tensor:
    """Cross entropy for whole-number targets, else the mean squared error."""
    if target.dtype.is_floating_point:
        return nn.functional.mse_loss(answer, target.to(answer.dtype).reshape(answer.shape))
    return nn.functional.cross_entropy(answer.flatten(0, -2), target.flatten())


@dataclass(frozen=True)
class LossGradients(Result):
    """‖∂L/∂h_t‖ of each sequence for t = 1..T: the teaching signal on its way back in time.

    Attributes:
        model: the layer's name.
        loss: L.
        norms: `(B, T)`.
    """

    model: str
    loss: float
    norms: NDArray[np.float64]


def loss_gradients(
    model: SequenceModel, x: Tensor, target: Tensor, *, loss: Loss = default_loss, **times: Any
) -> LossGradients:
    """‖∂L/∂h_t‖ for all t (mmRNN Fig. 3 left, iRNN Fig. 9a); `times` are the layer's dt, t, lengths, observed.

    Where a cell's y is no part of its state, what L takes directly from y_t counts from step t - 1 on.

    Example:
        >>> import torch, chronode
        >>> model = SequenceModel(chronode.create("lstm", 2, 8, outputs="last"), 3)
        >>> loss_gradients(model, torch.randn(4, 6, 2), torch.tensor([0, 1, 2, 0])).norms.shape
        (4, 6)
    """
    twin = frozen(model)
    opened = Opened(model.layer)
    nudges: list[Tensor] = []

    def opened_up(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        inputs = opened.enter(args[0], **{key: value for key, value in kwargs.items() if key != "state"})
        steps, batch = inputs.x.shape[:2]
        nudges.append(torch.zeros(steps, batch, opened.size, dtype=torch.float64, requires_grad=True))
        y, _ = opened.run(inputs, opened.start(batch), nudges[0])
        if opened.layer.outputs == "last":
            return y[-1 if inputs.lengths is None else (inputs.lengths - 1, torch.arange(batch))], output[1]
        return (y.transpose(0, 1) if opened.layer.batch_first else y), output[1]

    twin.layer.register_forward_hook(opened_up, with_kwargs=True)
    x = x.double() if x.dtype.is_floating_point else x
    with torch.enable_grad():
        value = loss(twin(x, **times), target)
    (found,) = torch.autograd.grad(value, nudges[0])
    return LossGradients(name_of(model.layer), float(value.detach()), found.norm(dim=-1).T.numpy())


@dataclass(frozen=True)
class LossSurface(Result):
    """The loss on a plane through the weights.

    Attributes:
        model: the layer's name.
        steps: `(n,)` distances along each of the two directions; 1 is the length of each weight matrix's own row.
        values: `(n, n)` the loss; the middle is the model itself.
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
    """The loss in two random directions, each row as long as the weights' own (mmRNN Fig. 3 right).

    Example:
        >>> import torch, chronode
        >>> model = SequenceModel(chronode.create("lstm", 2, 8, outputs="last"), 3)
        >>> loss_surface(model, torch.randn(4, 6, 2), torch.tensor([0, 1, 2, 0]), points=3).values.shape
        (3, 3)
    """
    twin = copy.deepcopy(model).eval()
    dice = torch.Generator().manual_seed(seed)
    home = [p.clone() for p in twin.parameters()]
    directions = [[_like(p, dice) for p in home] for _ in range(2)]
    steps = np.linspace(-number("radius", radius, above=0), radius, whole("points", points, at_least=2))
    values = np.empty((len(steps), len(steps)))
    for i, a in enumerate(steps):
        for j, b in enumerate(steps):
            for own, start, u, v in zip(twin.parameters(), home, *directions, strict=True):
                own.copy_(start + float(a) * u + float(b) * v)
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
    """The teaching signal and the loss surface of each model on blocks of `steps` bits (mmRNN Fig. 3 in one call).

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


def _like(parameter: Tensor, dice: torch.Generator) -> Tensor:
    random = torch.randn(parameter.shape, generator=dice).to(parameter)
    if parameter.dim() < 2:
        return torch.zeros_like(parameter)
    return random * parameter.norm(dim=-1, keepdim=True) / random.norm(dim=-1, keepdim=True).clamp(min=1e-12)


@dataclass(frozen=True)
class GradientHistory(Result):
    """Gradient flow over training (iRNN Fig. 3, 8, 9), one entry a record.

    Attributes:
        model: the layer's name.
        steps: training steps at which it was recorded.
        first: mean over sequences of ‖∂h_T/∂h_1‖.
        ratio: mean of ‖∂h_T/∂h_1‖ / ‖∂h_T/∂h_{T-1}‖.
        losses: the loss, NaN where no target was given.
        loss_first: mean of ‖∂L/∂h_1‖, NaN where no target was given.
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
    """Trains each model on the adding problem and records its gradient flow (iRNN Fig. 3, 8 and 9 in one call).

    The paper's figures have length 200, 1000 steps and batches of 128, as here; Adam, clipped at norm 1.

    Example:
        >>> [history] = track_adding(["irnn"], length=8, steps=2, every=1, hidden_size=4)
        >>> history.steps.tolist()
        [0, 1, 2]
    """
    from ..tasks.adding import adding

    whole("steps", steps, at_least=1)
    histories = []
    for name in models:
        dice = np.random.default_rng(seed)
        layer = as_layer(name, 2, hidden_size, seed, outputs="last")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = SequenceModel(layer, 1)
        fixed = adding(8, dice, length=length).batch()
        track = GradientTracker(model, fixed.x, fixed.target, every=every)
        optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        track(0)
        for step in range(1, steps + 1):
            batch = adding(128, dice, length=length).batch()
            assert batch.target is not None
            optimizer.zero_grad(set_to_none=True)
            default_loss(model(batch.x), batch.target).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            track(step)
        histories.append(replace(track.history(), model=name))
    return histories


class GradientTracker:
    """Records gradient flow on a fixed batch: call it with the step's number in any training loop.

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
        """Records if it is time to."""
        if step % self.every:
            return
        flow = gradient_flow(self.model, self.x, **self.times)
        seen, reached = float("nan"), float("nan")
        if self.target is not None:
            found = loss_gradients(self.model, self.x, self.target, loss=self.loss, **self.times)
            seen, reached = found.loss, float(found.norms[:, 0].mean())
        self.rows.append((step, float(flow.norms[:, 1].mean()), float(flow.ratio.mean()), seen, reached))

    def history(self) -> GradientHistory:
        """All records so far."""
        steps, *columns = zip(*self.rows, strict=True) if self.rows else [()] * 5
        return GradientHistory(name_of(self.model.layer), np.array(steps, dtype=np.int64), *map(np.array, columns))
