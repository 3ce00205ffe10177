"""Base class of RNN, LSTM, GRU and UGRNN: weights as in torch.nn, dt as an optional input, fused loops of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ...kernels import autocasts
from ...settings import flag
from .._cell import Cell, State

if TYPE_CHECKING:
    from ..driver import Plan


ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class TextbookCell(Cell):
    """Base class of the standard cells: `gates` blocks of W (x, dt) + b + U h + d, in the layout of torch.nn.

    `inputs` holds weight_ih and bias_ih of torch.nn's cell, `recurrent` weight_hh and bias_hh; with `sees_dt`,
    `elapsed` is an additional column of weight_ih.
    """

    gates: ClassVar[int] = 1

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, self.gates * hidden_size)
        self.recurrent = nn.Linear(hidden_size, self.gates * hidden_size)
        self.elapsed = nn.Linear(1, self.gates * hidden_size, bias=False) if flag("sees_dt", sees_dt) else None
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the gates."""
        return self.inputs(x)

    def with_dt(self, x: Tensor, dt: Tensor) -> Tensor:
        """Returns the contribution of (x, dt) to the gates, given that of x."""
        return x if self.elapsed is None else x + self.elapsed(dt)

    def fused_loop(self) -> Callable[..., Any]:
        """Returns the fused loop of torch for this cell."""
        raise NotImplementedError

    def kernel_reads(self) -> Reads:
        """Returns the loop of torch, its weights and the training flag."""
        weights = [self.inputs.weight, self.recurrent.weight, self.inputs.bias, self.recurrent.bias]
        elapsed = None if self.elapsed is None else self.elapsed.weight
        return Reads(self.fused_loop(), weights, elapsed, self.training)


class Reads(NamedTuple):
    """Data of a standard cell that the `loop` of torch needs.

    `weights` are weight_ih, weight_hh, bias_ih and bias_hh; `elapsed` is the column of weight_ih for dt, if there is
    one.
    """

    loop: Callable[..., Any]
    weights: list[Tensor]
    elapsed: Tensor | None
    training: bool


def run_fused(reads: Reads, x: Tensor, state: State, dt: Tensor, plan: Plan) -> tuple[Tensor, State] | None:
    """Runs the fused loop of torch over a whole sequence; returns None where the driver must run."""
    # With lengths, torch takes packed sequences, whose backward pass is quadratic in T: each step slices everything.
    is_plain = plan.lengths is None and plan.memory != "low"
    if not is_plain or torch.compiler.is_compiling() or autocasts(x):
        return None
    weights = list(reads.weights)
    if reads.elapsed is not None:
        x, weights[0] = torch.cat([x, dt], dim=-1), torch.cat([weights[0], reads.elapsed], dim=-1)
    # torch's arguments: biases, one layer, no dropout, training or not, one direction, time first.
    y, *end = reads.loop(x, _torch_state(state), weights, True, 1, 0.0, reads.training, False, False)
    end = tuple(part.squeeze(0) for part in end)
    # The output of each of these cells is its h.
    return (end[0] if plan.last else y), end


def _torch_state(state: State) -> Tensor | State:
    layered = tuple(part.unsqueeze(0) for part in state)
    return layered if len(layered) > 1 else layered[0]
