"""RNN, LSTM, GRU and UGRNN: weights as in torch.nn, dt as an optional input, fused loops of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ...kernels import Kernel, autocasts
from ...settings import flag, number, one_of
from .._cell import InputMapCell, State
from .._registry import register

if TYPE_CHECKING:
    from ..driver import Plan

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class TextbookCell(InputMapCell):
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
    layered = tuple(part.unsqueeze(0) for part in state)
    # torch's arguments: biases, one layer, no dropout, training or not, one direction, time first.
    y, *end = reads.loop(
        x, layered if len(layered) > 1 else layered[0], weights, True, 1, 0.0, reads.training, False, False
    )
    end = tuple(part.squeeze(0) for part in end)
    # The output of each of these cells is its h.
    return (end[0] if plan.last else y), end


@register("rnn", paper="Elman 1990, simple RNN", time="none")
@register("rnn-dt", paper="RNN with dt as an input (RNN-Δt of Rubanova et al. 2019)", time="feature", sees_dt=True)
class RNNCell(TextbookCell):
    """RNN: the simple recurrent network; "rnn-dt" has dt as an additional input.

        y = h' = φ(W (x, dt) + b + U h + d)

    State: (h,). Weights as in torch.nn.RNN.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        sees_dt: Whether dt is appended to the input.
        activation: φ, "tanh" or "relu".
    """

    sequence_kernel = Kernel(run_fused, native=False)

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False, activation: str = "tanh"):
        super().__init__(input_size, hidden_size, sees_dt)
        self.activation = one_of("activation", activation, ACTIVATIONS)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        h = ACTIVATIONS[self.activation](self.with_dt(x, dt) + self.recurrent(h))
        return h, (h,)

    def fused_loop(self) -> Callable[..., Any]:
        """Returns the fused loop of torch."""
        return torch.rnn_tanh if self.activation == "tanh" else torch.rnn_relu


@register("lstm", paper="Hochreiter & Schmidhuber 1997, LSTM", time="none")
@register("lstm-dt", paper="LSTM with dt as an input (augmented LSTM)", time="feature", sees_dt=True)
class LSTMCell(TextbookCell):
    """LSTM: a gated memory; "lstm-dt" has dt as an additional input.

        a_i, a_f, a_g, a_o = W (x, dt) + b + U h + d          (b_f starts at forget_bias)
        c' = σ(a_f) ⊙ c + σ(a_i) ⊙ tanh(a_g);   y = h' = σ(a_o) ⊙ tanh(c')

    State: (h, c). Weights and state as in torch.nn.LSTM.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        sees_dt: Whether dt is appended to the input.
        forget_bias: Initial b_f.
    """

    sequence_kernel = Kernel(run_fused, native=False)
    gates = 4
    state_parts = 2

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False, forget_bias: float = 1.0):
        super().__init__(input_size, hidden_size, sees_dt)
        with torch.no_grad():
            self.inputs.bias.zero_()
            self.recurrent.bias.zero_()
            self.inputs.bias[hidden_size : 2 * hidden_size] = number("forget_bias", forget_bias)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h, c = state
        write, forget, value, out = (self.with_dt(x, dt) + self.recurrent(h)).chunk(4, dim=-1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(write) * torch.tanh(value)
        h = torch.sigmoid(out) * torch.tanh(c)
        return h, (h, c)

    def fused_loop(self) -> Callable[..., Any]:
        """Returns the fused loop of torch."""
        return torch.lstm


@register("gru", paper="Cho et al. 2014, GRU", time="none")
@register("relu-gru", paper="Dey & Salem 2017, GRU with a ReLU candidate", time="none", activation="relu")
class GRUCell(TextbookCell):
    """GRU: a reset and an update gate; "relu-gru" has φ = ReLU.

        r, z = σ(W (x, dt) + b + U h + d)
        n = φ(W_n (x, dt) + b_n + r ⊙ (U_n h + d_n));   y = h' = (1 - z) ⊙ n + z ⊙ h

    State: (h,). Weights as in torch.nn.GRU.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        sees_dt: Whether dt is appended to the input.
        activation: φ, "tanh" or "relu".
    """

    sequence_kernel = Kernel(run_fused, {"activation": ("tanh",)}, native=False)
    gates = 3

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False, activation: str = "tanh"):
        super().__init__(input_size, hidden_size, sees_dt)
        self.activation = one_of("activation", activation, ACTIVATIONS)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        x_r, x_z, x_n = self.with_dt(x, dt).chunk(3, dim=-1)
        h_r, h_z, h_n = self.recurrent(h).chunk(3, dim=-1)
        n = ACTIVATIONS[self.activation](x_n + torch.sigmoid(x_r + h_r) * h_n)
        h = n + torch.sigmoid(x_z + h_z) * (h - n)
        return h, (h,)

    def fused_loop(self) -> Callable[..., Any]:
        """Returns the fused loop of torch."""
        return torch.gru


@register("ugrnn", paper="Collins, Sohl-Dickstein & Sussillo 2017, UGRNN", time="none")
class UGRNNCell(TextbookCell):
    """UGRNN: a single update gate.

        c = tanh(W_c x + U_c h + b_c);   g = σ(W_g x + U_g h + b_g)          (b_g starts at forget_bias)
        y = h' = g ⊙ h + (1 - g) ⊙ c

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        forget_bias: Initial b_g.
    """

    gates = 2

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float = 1.0):
        super().__init__(input_size, hidden_size)
        with torch.no_grad():
            self.inputs.bias[hidden_size:] = number("forget_bias", forget_bias)
            self.recurrent.bias.zero_()

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        c, g = (x + self.recurrent(h)).chunk(2, dim=-1)
        c = torch.tanh(c)
        h = c + torch.sigmoid(g) * (h - c)
        return h, (h,)
