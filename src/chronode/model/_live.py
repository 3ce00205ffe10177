"""A trained model that follows series: the state of a series and new observations in, predictions out."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..nn import TOO_LARGE, Plan, State, run_cell
from ._model import SequenceModel
from ._step import RunningStart
from ._window import Window
from .start import LinearStart

Vectors = list[Tensor]
"""Memory of the states of series, `(B, size)`, one for each type of number."""


class LiveModel:
    """Runs a model from the states of series, on observations that are scaled already.

    The state of a series is that of all layers and of the linear start, or, for a forecast from windows, the last
    observations.

    Args:
        model: The trained model.
        window: Number of steps of a window; 0 for a model with a state.
    """

    def __init__(self, model: SequenceModel, window: int = 0):
        self._model = copy.deepcopy(model).eval()
        self._window = Window(model.layer.input_size, window) if window else None
        self._stepper = self._start = None
        if self._window is None:
            self._model.layer.outputs = "all"  # every observation gets a prediction
            self._stepper = None if model.is_linear else self._model.layer.stepper(batch=1)
            self._start = None if model.start is None else RunningStart(cast(LinearStart, self._model.start))
        self._weights = self._model.head.weight, self._model.head.bias
        like = torch.zeros(1)
        self._sizes = [] if self._start is None else [p.shape[1] for p in self._start.initial_state(1, like)]

    def initial_state(self) -> State:
        """Returns the state of one new series, each part `(cells, 1, size)`."""
        if self._window is not None:
            (part,) = self._window.initial_state(1, self._model.head.weight.detach())
            return (part[None],)
        return tuple(part.detach().clone() for part in self._model.initial_state(1))

    @torch.no_grad()
    def run(self, x: Tensor, state: State, **times: Any) -> tuple[Tensor, State]:
        """Returns outputs `(B, T, K)` after each step of `x (B, T, D)`, and the states after the last valid one.

        Args:
            x: Values.
            state: Parts `(cells, B, size)` of the state.
            times: `lengths (B,)` always; `dt (B, T)` if series have times; `observed` if values may be missing.
        """
        if self._window is not None:
            return self._run_windows(self._window, x, state[0][0], **times)
        if self._stepper is not None or self._start is None:
            return self._model.run(x, state, **times)
        count = len(self._model.layer.initial_state(1))  # the layers add nothing
        outputs, after = self._model.run_start(x, tuple(part[0] for part in state[count:]), **times)
        return outputs.to(self._model.head.weight), (*state[:count], *(part[None] for part in after))

    @torch.no_grad()
    def step(self, x: Tensor, state: Vectors, dt: float | None, observed: Tensor | None) -> Tensor | None:
        """Performs `run` for one observation of one series in few operations, and changes its state.

        Args:
            x: Values `(1, D)`.
            state: Memory of the state, `(1, size)`: of the layers, and of the linear start.
            dt: Time since the last observation; None if series have no times.
            observed: Which values were observed, `(1, D)`; None if no values may be missing.

        Returns:
            The output `(1, K)`; None, and nothing is changed, if only `run` can perform the step.
        """
        stepper = self._stepper
        if self._window is not None or len(state) != 1 + (self._start is not None):
            return None
        output = None
        if stepper is not None:
            stepper.vector = state[0].view(-1)
            y = stepper.advance(x, 1.0 if dt is None else dt, observed)
            if not abs(y.sum().item()) < TOO_LARGE:
                return None  # `run` warns
            output = nn.functional.linear(y, *self._weights)
        if self._start is not None:
            rows = torch.cat([x, torch.ones_like(x) if observed is None else observed.to(x)], dim=-1).to(state[1])
            gap = rows.new_full((1, 1), 1.0 if dt is None else dt)
            started, after = self._start(rows, state[1].split(self._sizes, dim=1), gap)
            torch.cat(after, dim=1, out=state[1])
            output = started.to(self._weights[0]) if output is None else output + started.to(output)
        if stepper is not None:
            state[0].copy_(cast(Tensor, stepper.vector))
        return output

    def _run_windows(self, window: Window, x: Tensor, state: Tensor, **times: Any) -> tuple[Tensor, State]:
        """Returns the outputs of the windows that end at each step, and the last windows."""
        batch, steps, channels = x.shape
        lengths, dt = times["lengths"], times.get("dt", x.new_ones(batch, steps))
        observed = times.get("observed", torch.ones_like(x))
        rows = torch.cat([x, observed.to(x)], dim=-1).transpose(0, 1)
        windows, (after,) = run_cell(window, rows, (state,), dt.to(x).T[..., None], Plan(lengths))
        inside = torch.arange(steps) < lengths[:, None]
        # The window of each valid step, with its first step first.
        values, flags, gaps, _, count = windows.transpose(0, 1)[inside].split(window.sizes, dim=1)
        size = count[:, 0].long()
        at = (window.steps - size)[:, None] + torch.arange(int(size.max()))
        row, at = torch.arange(len(size))[:, None], at.clamp(max=window.steps - 1)
        arguments: dict[str, Any] = {"lengths": size}
        if "dt" in times:
            arguments["dt"] = gaps[row, at]
            arguments["dt"][:, 0] = 0  # as in training, the first gap of a window is 0
        if "observed" in times:
            arguments["observed"] = flags.view(-1, window.steps, channels)[row, at] > 0
        output = self._model(values.view(-1, window.steps, channels)[row, at], **arguments)
        found = output.new_zeros(batch, steps, output.shape[-1])
        found[inside] = output
        return found, (after[None],)
