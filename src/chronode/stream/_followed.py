"""Models as a stream runs them: from the states of many series to their outputs after each new step."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..data import Reading
from ..model import SequenceModel
from ..nn import TOO_LARGE, Layer
from ..runs import Trained

State = tuple[Tensor, ...]


class Followed(Protocol):
    """The interface of a model in a stream."""

    def initial_state(self) -> State:
        """Returns the state of one new series, each part `(cells, 1, size)`."""
        ...

    def run(self, x: Tensor, state: State, **times: Tensor) -> tuple[Tensor, State]:
        """Returns outputs `(B, T, K)` after each step of `x (B, T, D)`, and the states after the last valid one."""
        ...


class Recurrent:
    """A model whose prediction follows from the state of its layer."""

    def __init__(self, model: SequenceModel):
        self._model = copy.deepcopy(model).eval()
        self._model.layer.outputs = "all"  # every observation gets a prediction
        self._model.layer = _SteppedLayer(self._model.layer)  # pyrefly: ignore[bad-assignment]

    def initial_state(self) -> State:
        """Returns the state of one new series."""
        return tuple(part.detach().clone() for part in self._model.initial_state(1))

    @torch.no_grad()
    def run(self, x: Tensor, state: State, **times: Tensor) -> tuple[Tensor, State]:
        """Returns the outputs after each step, and the states after the last."""
        return self._model.run(x, state, **times)


class _SteppedLayer(nn.Module):
    """A trained layer that takes a single step of a single series by a `Stepper`, which costs less than a batch."""

    def __init__(self, layer: Layer):
        super().__init__()
        self.layer, self.initial_state = layer, layer.initial_state
        self._stepper = layer.stepper(batch=1)

    def forward(self, x: Tensor, state: State, **times: Any) -> tuple[Tensor, State]:
        if x.shape[:2] != (1, 1):
            return self.layer(x, state, **times)
        stepper, dt, observed = self._stepper, times.get("dt"), times.get("observed")
        stepper.load(state)
        y = stepper.advance(x[0], 1.0 if dt is None else dt.item(), None if observed is None else observed[0])
        if not abs(y.sum().item()) < TOO_LARGE:
            return self.layer(x, state, **times)  # which warns
        return y[None], stepper.state


class Windowed:
    """A model that sees the last `window` steps at a time; these steps are its state.

    The parts of a state are the values, whether they were observed, the gaps before the steps, and how many steps there
    are; the newest step is the last.

    Args:
        model: The model, with one output per window.
        window: Number of steps.
    """

    def __init__(self, model: SequenceModel, window: int):
        self._model, self._window, self._channels = model.eval(), window, model.layer.input_size

    def initial_state(self) -> State:
        """Returns the state of one new series."""
        like = self._model.head.weight.detach()
        sizes = (self._window * self._channels, self._window * self._channels, self._window, 1)
        return tuple(like.new_zeros(1, 1, size) for size in sizes)

    @torch.no_grad()
    def run(self, x: Tensor, state: State, **times: Tensor) -> tuple[Tensor, State]:
        """Returns the outputs of the windows that end at each step, and the last windows."""
        batch, steps = x.shape[:2]
        window, lengths = self._window, times["lengths"]
        observed, dt = times.get("observed", torch.ones_like(x)), times.get("dt", x.new_ones(batch, steps))
        new = (x, observed.to(x), dt[..., None].to(x))
        kept = [part[0].view(batch, window, -1) for part in state[:3]]
        series = [torch.cat(pair, dim=1) for pair in zip(kept, new, strict=True)]
        count = state[3][0].long()  # (B, 1)
        rows = torch.arange(batch)[:, None]
        inside = torch.arange(steps) < lengths[:, None]
        # The window of each valid step, with its first step first.
        row, step = inside.nonzero(as_tuple=True)
        size = (count[row, 0] + step + 1).clamp(max=window)
        place = torch.arange(int(size.max()))
        at = (window + step + 1 - size)[:, None] + place
        there = place < size[:, None]
        at = torch.where(there, at, 0)
        seen = [torch.where(there[..., None], part[row[:, None], at], 0) for part in series]
        outputs = self._outputs(seen, size, times)
        found = outputs.new_zeros(batch, steps, outputs.shape[-1])
        found[row, step] = outputs
        last = lengths[:, None] + torch.arange(window)
        after = [part[rows, last].reshape(1, batch, -1) for part in series]
        return found, (*after, (count + lengths[:, None]).clamp(max=window).to(x)[None])

    def _outputs(self, seen: list[Tensor], size: Tensor, times: dict[str, Tensor]) -> Tensor:
        x, observed, gaps = seen
        arguments: dict[str, Any] = {"lengths": size}
        if "dt" in times:
            arguments["dt"] = gaps[..., 0].clone()
            arguments["dt"][:, 0] = 0  # as in training, the first gap of a window is 0
        if "observed" in times:
            arguments["observed"] = observed.bool()
        return self._model(x, **arguments)


def follow(trained: Trained) -> tuple[Reading, Followed]:
    """Returns how the model reads files, and the model as a stream runs it.

    Raises:
        ValueError: The model cannot follow a stream.
    """
    reading, model = trained.reading, trained.model
    if reading is None:
        raise ValueError(
            f"{trained.path} was trained on the task {trained.config.data.source}, which cannot be streamed."
        )
    if reading.window and not reading.per_step and not reading.horizon:
        raise ValueError("the model makes one prediction per window: train without --window to stream.")
    if reading.static:
        raise ValueError(
            "the model has inputs that a stream does not have: static values, or known values of the future. Train "
            "without --static, --known and --calendar; static columns are then channels."
        )
    if {"channel", "row_per_series"} & reading.options.keys():
        raise ValueError("the model was trained on a file that does not have one row per time, as a stream does.")
    if reading.horizon and not reading.per_step:
        return reading, Windowed(model, reading.window)
    if model.start is not None:
        _ = model.start.running  # refuses features that need whole series
    if model.layer.bidirectional:
        raise ValueError("a bidirectional model needs the whole series: train without bidirectional=true to stream.")
    if model.pool != "last":
        raise ValueError(f"a model with pool={model.pool} needs the whole series: train with pool=last to stream.")
    return reading, Recurrent(model)
