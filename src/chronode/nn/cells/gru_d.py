"""GRU-D: missing inputs decay to their mean, and the state decays with the time since the observation."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...settings import flag
from .._cell import Cell, State, counter
from .._registry import register


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
