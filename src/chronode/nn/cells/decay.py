"""Models whose state fades between observations at learned rates."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..._checks import flag, number, one_of
from .._cell import Cell, State, counter
from .._flows import inverse_softplus
from .._registry import register
from .gated import RNNCell


@register("rnn-decay", paper="Mozer et al. 2017 / Rubanova et al. 2019, RNN-Decay", time="native")
class RNNDecayCell(Cell):
    """RNN-Decay: each unit fades at its own rate, then an RNN takes the observation in.

        h⁻ = h ⊙ exp(-softplus(τ) dt)
        y = h' = tanh(W x + U h⁻ + b)

    State: (h,).

    Args:
        input_size: features D.
        hidden_size: units H.
        rate: softplus(τ) at the start.
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 0.1):
        super().__init__(input_size, hidden_size)
        self.jump = RNNCell(input_size, hidden_size)
        self.tau = nn.Parameter(torch.full((hidden_size,), inverse_softplus(number("rate", rate, above=0))))

    def project(self, x: Tensor) -> Tensor:
        """W x + b."""
        return self.jump.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        (h,) = state
        return self.jump(x, (h * torch.exp(-F.softplus(self.tau) * dt),), dt)


@register("rnn-decay-mmrnn", paper="RNN-decay as in the program of the mmRNN paper", time="native")
class SubtractingDecayCell(Cell):
    """RNN-decay as in the mmRNN paper's program: time is subtracted from the state, in proportion to a trained rate.

        y = h' = W₂ tanh(W x + U h + b) + b₂ - τ dt

    State: (h,). It falls (or, where τ is negative, grows) with dt, but no faster.

    Args:
        input_size: features D.
        hidden_size: units H.
        rate: τ at the start.
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 0.1):
        super().__init__(input_size, hidden_size)
        self.jump = RNNCell(input_size, hidden_size)
        self.outer = nn.Linear(hidden_size, hidden_size)
        self.tau = nn.Parameter(torch.full((hidden_size,), number("rate", rate)))

    def project(self, x: Tensor) -> Tensor:
        """W x + b."""
        return self.jump.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        h = self.outer(self.jump(x, state, dt)[0]) - self.tau * dt
        return h, (h,)


class DecayToMean(Cell):
    """GRU-D's way with missing inputs: a value not seen fades from the last seen one to the mean x̃.

        δ  = 0 at the first step, then dt + (0 where the step before observed, else the δ there)
        γ  = exp(-relu(w ⊙ δ + b))
        x̂  = x where observed, else γ ⊙ last + (1 - γ) ⊙ x̃           (last = x̃ before anything was seen)
        y  = (x̂, observed, δ)

    Its input is `(x, observed)`, `2 D` features; its output has `3 D`. State: (last, δ if not observed, else 0; -1
    before the first step).
    `mean` is a buffer, 0 (the mean of standardised inputs) until `set_mean`.
    """

    for_reader: ClassVar[dict[str, Any]] = {"encoded": True}

    def __init__(self, features: int):
        super().__init__(2 * features, features)
        self.output_size = 3 * features
        self.register_buffer("mean", torch.zeros(features))
        self.w = nn.Parameter(torch.full((features,), 0.1))
        self.b = nn.Parameter(torch.zeros(features))

    def set_mean(self, x: Tensor, observed: Tensor) -> None:
        """Takes x̃ from training data: the mean of the observed values of `x (..., D)`."""
        seen = observed.reshape(-1, self.hidden_size)
        values = torch.where(seen, x.reshape(seen.shape), 0)
        self.mean.copy_(values.sum(0) / seen.sum(0).clamp(min=1))

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Nothing seen yet."""
        return self.mean.to(like).expand(batch, -1), counter(like, batch, self.hidden_size, -1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        value, observed = x.chunk(2, dim=-1)
        last, since = state
        seen = observed > 0
        since = torch.where(since < 0, torch.zeros_like(since), since + dt)
        kept = torch.exp(-torch.relu(self.w * since + self.b)).to(x.dtype)
        filled = torch.where(seen, value, self.mean + kept * (last - self.mean))
        y = torch.cat([filled, observed, since.to(x.dtype)], dim=-1)
        return y, (torch.where(seen, value, last), torch.where(seen, torch.zeros_like(since), since))


@register("gru-d", paper="Che et al. 2018, GRU-D", time="native", missing=True)
class GRUDCell(Cell):
    """GRU-D: inputs fade to their mean while missing (`DecayToMean`), the state fades with the time since.

        h⁻ = h ⊙ exp(-relu(W_γ δ + b_γ))
        r, z = σ(W x̂ + V m + U h⁻ + b);   n = tanh(W_n x̂ + V_n m + U_n (r ⊙ h⁻) + b_n)
        y = h' = (1 - z) ⊙ h⁻ + z ⊙ n

    With `missing=True` (the preset) the first layer of a stack sees (x̂, m, δ). Other layers, and all with
    `missing=False`, see every input at every step: δ = dt, and m = 1 is part of the bias.

    State: (h,).

    Args:
        input_size: features D (3 D' if encoded).
        hidden_size: units H.
        encoded: whether the input is (x̂, m, δ); the layer says so.
    """

    encoder = DecayToMean

    def __init__(self, input_size: int, hidden_size: int, encoded: bool = False):
        super().__init__(input_size, hidden_size)
        self.gaps = input_size // 3 if flag("encoded", encoded) else 0
        self.inputs = nn.Linear(input_size - self.gaps, 3 * hidden_size)
        self.gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)
        self.decay = nn.Linear(self.gaps or 1, hidden_size)
        # Rates are positive at the start, else relu would hide the gaps.
        nn.init.uniform_(self.decay.weight, 0, 0.2 / self.decay.in_features)
        nn.init.zeros_(self.decay.bias)

    def project(self, x: Tensor) -> Tensor:
        """The gates' share of the input, and δ's of the decay if the input holds it."""
        if not self.gaps:
            return self.inputs(x)
        values, since = x.split([self.input_size - self.gaps, self.gaps], dim=-1)
        return torch.cat([self.inputs(values), self.decay(since)], dim=-1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        (h,) = state
        x_r, x_z, x_n, *rate = x.split(self.hidden_size, dim=-1)
        h = h * torch.exp(-torch.relu(rate[0] if rate else self.decay(dt)))
        h_r, h_z = self.gates(h).chunk(2, dim=-1)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + self.candidate(torch.sigmoid(x_r + h_r) * h))
        h = h + z * (n - h)
        return h, (h,)


@register("ct-lstm", paper="Mei & Eisner 2017, continuous-time LSTM (neural Hawkes process)", time="native")
class CTLSTMCell(Cell):
    """CT-LSTM: between observations the memory c moves to its target c̄ at the rate δ.

        c⁻ = c̄ + (c - c̄) ⊙ exp(-δ dt);   h⁻ = o ⊙ tanh(c⁻)
        a_i, a_f, a_g, a_o, a_ī, a_f̄, a_δ = W x + U h⁻ + b             (b_f, b_f̄ start at forget_bias)
        g = 2σ(a_g) - 1  ("logistic", the paper's) or tanh(a_g)  ("tanh")
        c' = σ(a_f) ⊙ c⁻ + σ(a_i) ⊙ g;   c̄' = σ(a_f̄) ⊙ c̄ + σ(a_ī) ⊙ g
        o' = σ(a_o);   δ' = softplus(a_δ);   y = o' ⊙ tanh(c')

    State: (c, c̄, δ, o).

    Args:
        input_size: features D.
        hidden_size: units H.
        forget_bias: initial b_f and b_f̄.
        candidate: what g is: "logistic" or "tanh".
    """

    state_parts = 4
    older_settings: ClassVar[dict[str, Any]] = {"candidate": "tanh"}

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float = 1.0, candidate: str = "logistic"):
        super().__init__(input_size, hidden_size)
        self.candidate = one_of("candidate", candidate, ("logistic", "tanh"))
        self.inputs = nn.Linear(input_size, 7 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 7 * hidden_size, bias=False)
        with torch.no_grad():
            biases = self.inputs.bias.zero_().view(7, hidden_size)
            biases[[1, 5]] = number("forget_bias", forget_bias)

    def project(self, x: Tensor) -> Tensor:
        """The gates' share of the input."""
        return self.inputs(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        c, target, rate, out = state
        c = target + (c - target) * torch.exp(-rate * dt)
        a = x + self.recurrent(out * torch.tanh(c))
        write, forget, value, out, write_target, forget_target, rate = a.chunk(7, dim=-1)
        # 2σ(a) - 1 = tanh(a/2), which keeps its digits near 0.
        value = torch.tanh(0.5 * value if self.candidate == "logistic" else value)
        c = torch.sigmoid(forget) * c + torch.sigmoid(write) * value
        target = torch.sigmoid(forget_target) * target + torch.sigmoid(write_target) * value
        out = torch.sigmoid(out)
        return out * torch.tanh(c), (c, target, F.softplus(rate), out)
