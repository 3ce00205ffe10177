"""AntisymmetricRNN, plain and gated."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import flag, number
from .._cell import Cell, State, Step
from .._registry import register


@register("antisymmetric", paper="Chang et al. 2019, AntisymmetricRNN", time="native")
@register("gated-antisymmetric", paper="Chang et al. 2019, AntisymmetricRNN with gating", time="native", gated=True)
class AntisymmetricCell(Cell):
    """AntisymmetricRNN: eigenvalues near the imaginary axis, so that the state neither grows nor decays.

        S = W - Wᵀ - γ I
        plain:  y = h' = h + ε dt tanh(S h + V x + b)
        gated:  y = h' = h + ε dt σ(S h + V_z x + b_z) ⊙ tanh(S h + V x + b)

    State: (h,). With dt = 1 it is the paper's model. A step is bounded by ε dt, so h grows at most linearly with dt.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        gated: Whether there is a gate.
        epsilon: ε > 0, the step size.
        gamma: γ >= 0, diffusion.
    """

    def __init__(
        self, input_size: int, hidden_size: int, gated: bool = False, epsilon: float = 0.1, gamma: float = 0.01
    ):
        super().__init__(input_size, hidden_size)
        self.gated = flag("gated", gated)
        self.register_buffer("epsilon", self.constant("epsilon", number("epsilon", epsilon, above=0)))
        self.register_buffer("gamma", self.constant("gamma", number("gamma", gamma, at_least=0)))
        self.inputs = nn.Linear(input_size, (2 if gated else 1) * hidden_size)
        self.w = nn.Parameter(torch.randn(hidden_size, hidden_size) * hidden_size**-0.5)

    def project(self, x: Tensor) -> Tensor:
        """Returns V x + b, and the same for the gate."""
        return self.inputs(x)

    def matrix(self) -> Tensor:
        """Returns S, `(H, H)`."""
        eye = torch.eye(self.hidden_size, dtype=self.w.dtype, device=self.w.device)
        return self.w - self.w.T - self.gamma * eye

    def prepare(self) -> Step:
        """Returns the step with S computed once."""
        transposed = self.matrix().T

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            (h,) = state
            inner = h @ transposed
            for_change, *for_gate = x.split(self.hidden_size, dim=-1)
            change = torch.tanh(inner + for_change)
            if for_gate:
                change = torch.sigmoid(inner + for_gate[0]) * change
            h = h + self.epsilon * dt * change
            return h, (h,)

        return step
