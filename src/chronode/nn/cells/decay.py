"""Memories that decay between observations: RNN-Decay, GRU-D, CT-GRU, CT-LSTM, and a diagonal GRU."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...settings import flag, number, one_of, whole
from .._cell import Cell, InputMapCell, State, counter
from .._flows import inverse_softplus
from .._registry import register
from .textbook import RNNCell


@register("rnn-decay", paper="Mozer et al. 2017 / Rubanova et al. 2019, RNN-Decay", time="native")
class RNNDecayCell(Cell):
    """RNN-Decay: each unit decays at its own rate, then an RNN processes the observation.

        h⁻ = h ⊙ exp(-softplus(τ) dt)
        y = h' = tanh(W x + U h⁻ + b)

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        rate: Initial value of softplus(τ).
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 0.1):
        super().__init__(input_size, hidden_size)
        self.jump = RNNCell(input_size, hidden_size)
        self.tau = nn.Parameter(torch.full((hidden_size,), inverse_softplus(number("rate", rate, above=0))))

    def project(self, x: Tensor) -> Tensor:
        """Returns W x + b."""
        return self.jump.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        return self.jump(x, (h * torch.exp(-F.softplus(self.tau) * dt),), dt)


@register("rnn-decay-mmrnn", paper="RNN-decay as in the code of the mmRNN paper", time="native")
class SubtractingDecayCell(Cell):
    """RNN-decay as in the code of the mmRNN paper: a trained rate times dt is subtracted from the state.

        y = h' = W₂ tanh(W x + U h + b) + b₂ - τ dt

    State: (h,). It decreases (or, where τ is negative, grows) at most linearly with dt.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        rate: Initial value of τ.
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 0.1):
        super().__init__(input_size, hidden_size)
        self.jump = RNNCell(input_size, hidden_size)
        self.outer = nn.Linear(hidden_size, hidden_size)
        self.tau = nn.Parameter(torch.full((hidden_size,), number("rate", rate)))

    def project(self, x: Tensor) -> Tensor:
        """Returns W x + b."""
        return self.jump.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h = self.outer(self.jump(x, state, dt)[0]) - self.tau * dt
        return h, (h,)


class DecayToMean(Cell):
    """Missing inputs of GRU-D: a missing value decays from the last observed one to the mean x̃.

        δ  = 0 at the first step, then dt + (0 if the previous step was observed, else its δ)
        γ  = exp(-relu(w ⊙ δ + b))
        x̂  = x where observed, else γ ⊙ last + (1 - γ) ⊙ x̃           (last = x̃ before the first observation)
        y  = (x̂, observed, δ)

    Its input is `(x, observed)`, `2 D` features; its output has `3 D`. State: (last, δ if not observed, else 0; -1
    before the first step).
    `mean` is a buffer, 0 (the mean of standardized inputs) until `set_mean` is called.
    """

    for_reader: ClassVar[dict[str, Any]] = {"encoded": True}

    def __init__(self, features: int):
        super().__init__(2 * features, features)
        self.output_size = 3 * features
        self.register_buffer("mean", torch.zeros(features))
        self.w = nn.Parameter(torch.full((features,), 0.1))
        self.b = nn.Parameter(torch.zeros(features))

    def set_mean(self, x: Tensor, observed: Tensor) -> None:
        """Sets x̃ from training data: the mean of the observed values of `x (..., D)`."""
        mask = observed.reshape(-1, self.hidden_size)
        values = torch.where(mask, x.reshape(mask.shape), 0)
        self.mean.copy_(values.sum(0) / mask.sum(0).clamp(min=1))

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a state without observations."""
        return self.mean.to(like).expand(batch, -1), counter(like, batch, self.hidden_size, -1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        value, observed = x.chunk(2, dim=-1)
        last, since = state
        is_observed = observed > 0
        since = torch.where(since < 0, torch.zeros_like(since), since + dt)
        kept = torch.exp(-torch.relu(self.w * since + self.b)).to(x.dtype)
        filled = torch.where(is_observed, value, self.mean + kept * (last - self.mean))
        y = torch.cat([filled, observed, since.to(x.dtype)], dim=-1)
        return y, (torch.where(is_observed, value, last), torch.where(is_observed, torch.zeros_like(since), since))


@register("gru-d", paper="Che et al. 2018, GRU-D", time="native", missing=True)
class GRUDCell(Cell):
    """GRU-D: missing inputs decay to their mean (`DecayToMean`), and the state decays with the time since the
    observation.

        h⁻ = h ⊙ exp(-relu(W_γ δ + b_γ))
        r, z = σ(W x̂ + V m + U h⁻ + b);   n = tanh(W_n x̂ + V_n m + U_n (r ⊙ h⁻) + b_n)
        y = h' = (1 - z) ⊙ h⁻ + z ⊙ n

    With `missing=True` (the preset) the first layer of a stack sees (x̂, m, δ). Other layers, and all with
    `missing=False`, see every input at every step: δ = dt, and m = 1 is part of the bias.

    State: (h,).

    Args:
        input_size: Number of features D (3 D if encoded).
        hidden_size: Number of units H.
        encoded: Whether the input is (x̂, m, δ); set by the layer.
    """

    encoder = DecayToMean

    def __init__(self, input_size: int, hidden_size: int, encoded: bool = False):
        super().__init__(input_size, hidden_size)
        self.gaps = input_size // 3 if flag("encoded", encoded) else 0
        self.inputs = nn.Linear(input_size - self.gaps, 3 * hidden_size)
        self.gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)
        self.decay = nn.Linear(self.gaps or 1, hidden_size)
        # Rates are initially positive, otherwise relu would hide the gaps.
        nn.init.uniform_(self.decay.weight, 0, 0.2 / self.decay.in_features)
        nn.init.zeros_(self.decay.bias)

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the gates, and that of δ to the decay if the input contains it."""
        if not self.gaps:
            return self.inputs(x)
        values, since = x.split([self.input_size - self.gaps, self.gaps], dim=-1)
        return torch.cat([self.inputs(values), self.decay(since)], dim=-1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        x_r, x_z, x_n, *rate = x.split(self.hidden_size, dim=-1)
        h = h * torch.exp(-torch.relu(rate[0] if rate else self.decay(dt)))
        h_r, h_z = self.gates(h).chunk(2, dim=-1)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + self.candidate(torch.sigmoid(x_r + h_r) * h))
        h = h + z * (n - h)
        return h, (h,)


@register("ct-gru", paper="Mozer, Kazakov & Lindsey 2017, CT-GRU", time="native")
class CTGRUCell(InputMapCell):
    """CT-GRU: each unit keeps M traces that decay at fixed time scales, and learns where to store and retrieve.

        τ_k = 10^(k/2), k = 0..M-1;   ĥ_k⁻ = ĥ_k exp(-dt/τ_k);   h⁻ = Σ ĥ_k⁻
        ln τ_R, ln τ_S = W x + U h⁻ + b
        r_k = softmax_k(-(ln τ_R - ln τ_k)²);   s_k = softmax_k(-(ln τ_S - ln τ_k)²)
        q = tanh(W_q x + U_q Σ r_k ⊙ ĥ_k⁻ + b_q)
        ĥ_k' = (1 - s_k) ⊙ ĥ_k⁻ + s_k ⊙ q;   y = Σ ĥ_k'

    In the paper, the decay follows the storage and uses the time to the next event; dt here is the time since the
    last one, so the decay comes first. State: (ĥ,), all traces side by side.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        scales: Number of time scales M.
    """

    def __init__(self, input_size: int, hidden_size: int, scales: int = 8):
        super().__init__(input_size, hidden_size)
        self.scales = whole("scales", scales, at_least=1)
        self.inputs = nn.Linear(input_size, 3 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.retrieved = nn.Linear(hidden_size, hidden_size, bias=False)
        log_tau = [k / 2 * math.log(10) for k in range(scales)]
        self.register_buffer("log_tau", self.constant("log_tau", [[value] for value in log_tau]))
        # Units are initialized over the whole range of scales, not all at the fastest.
        nn.init.uniform_(self.inputs.bias[: 2 * hidden_size], 0, log_tau[-1])

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns empty traces."""
        return (like.new_zeros(batch, self.scales * self.hidden_size),)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        traces = state[0].unflatten(-1, (self.scales, self.hidden_size))
        traces = traces * torch.exp(-dt.unsqueeze(-1) * torch.exp(-self.log_tau))
        for_scales, for_signal = x.split([2 * self.hidden_size, self.hidden_size], dim=-1)
        wanted = (for_scales + self.recurrent(traces.sum(1))).unsqueeze(1)
        # -(a - l)² without the term -a², which is common to all scales.
        retrieve, store = (torch.softmax(self.log_tau * (2 * a - self.log_tau), 1) for a in wanted.chunk(2, -1))
        signal = torch.tanh(for_signal + self.retrieved((retrieve * traces).sum(1)))
        traces = traces + store * (signal.unsqueeze(1) - traces)
        return traces.sum(1), (traces.flatten(1),)


@register("ct-lstm", paper="Mei & Eisner 2017, continuous-time LSTM (neural Hawkes process)", time="native")
class CTLSTMCell(InputMapCell):
    """CT-LSTM: between observations the memory c moves to its target c̄ at the rate δ.

        c⁻ = c̄ + (c - c̄) ⊙ exp(-δ dt);   h⁻ = o ⊙ tanh(c⁻)
        a_i, a_f, a_g, a_o, a_ī, a_f̄, a_δ = W x + U h⁻ + b             (b_f, b_f̄ start at forget_bias)
        g = 2σ(a_g) - 1  ("logistic", the paper's) or tanh(a_g)  ("tanh")
        c' = σ(a_f) ⊙ c⁻ + σ(a_i) ⊙ g;   c̄' = σ(a_f̄) ⊙ c̄ + σ(a_ī) ⊙ g
        o' = σ(a_o);   δ' = softplus(a_δ);   y = o' ⊙ tanh(c')

    State: (c, c̄, δ, o).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        forget_bias: Initial value of b_f and b_f̄.
        candidate: Form of g: "logistic" or "tanh".
    """

    state_parts = 4

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float = 1.0, candidate: str = "logistic"):
        super().__init__(input_size, hidden_size)
        self.candidate = one_of("candidate", candidate, ("logistic", "tanh"))
        self.inputs = nn.Linear(input_size, 7 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 7 * hidden_size, bias=False)
        with torch.no_grad():
            biases = self.inputs.bias.zero_().view(7, hidden_size)
            biases[[1, 5]] = number("forget_bias", forget_bias)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        c, target, rate, out = state
        c = target + (c - target) * torch.exp(-rate * dt)
        a = x + self.recurrent(out * torch.tanh(c))
        write, forget, value, out, write_target, forget_target, rate = a.chunk(7, dim=-1)
        # 2σ(a) - 1 = tanh(a/2), which is accurate near 0.
        value = torch.tanh(0.5 * value if self.candidate == "logistic" else value)
        c = torch.sigmoid(forget) * c + torch.sigmoid(write) * value
        target = torch.sigmoid(forget_target) * target + torch.sigmoid(write_target) * value
        out = torch.sigmoid(out)
        return out * torch.tanh(c), (c, target, F.softplus(rate), out)


@register("decay-gru", paper="Danieli et al. 2025, ParaGRU, with a decay between observations", time="native")
class DecayGRUCell(InputMapCell):
    """Diagonal GRU with decay: each unit sees only its own past, which decays between observations.

        h⁻ = h ⊙ exp(-softplus(τ) dt)
        z, r = σ(a_z ⊙ h⁻ + B_z x + b_z), σ(a_r ⊙ h⁻ + B_r x + b_r)
        c = tanh(a_c ⊙ (r ⊙ h⁻) + B_c x + b_c);   y = h' = (1 - z) ⊙ h⁻ + z ⊙ c

    State: (h,). No product depends on the state, so a step costs little more than its input product.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        rate: Largest initial value of softplus(τ); those of the units are spread from a hundredth of it, so that some
            units forget quickly and some slowly.
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 1.0):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, 3 * hidden_size)
        self.a = nn.Parameter(torch.empty(3, hidden_size).uniform_(-1, 1))
        rates = number("rate", rate, above=0) * torch.logspace(-2, 0, hidden_size)
        self.tau = nn.Parameter(rates.expm1().log())

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h = state[0] * torch.exp(-F.softplus(self.tau) * dt)
        x_z, x_r, x_c = x.chunk(3, dim=-1)
        a_z, a_r, a_c = self.a
        z, r = torch.sigmoid(x_z + a_z * h), torch.sigmoid(x_r + a_r * h)
        h = h + z * (torch.tanh(x_c + a_c * (r * h)) - h)
        return h, (h,)
