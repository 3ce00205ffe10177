"""CT-GRU: traces that decay at fixed time scales."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...settings import whole
from .._cell import Cell, State
from .._registry import register


@register("ct-gru", paper="Mozer, Kazakov & Lindsey 2017, CT-GRU", time="native")
class CTGRUCell(Cell):
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

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to ln τ_R, ln τ_S and q."""
        return self.inputs(x)

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
