"""minGRU: a gated memory whose gate sees the input alone; and the base class that it shares with minLSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._cell import State
from .._registry import register
from ._linear import LinearCell, Matrix, Recurrence


class GatedLinearCell(LinearCell):
    """Base class of minGRU and minLSTM: h' = h e^(-r dt) + c (1 - e^(-r dt)), r and c from the input.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        gates: Number of gates.
    """

    def __init__(self, input_size: int, hidden_size: int, gates: int):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, (gates + 1) * hidden_size)

    def project(self, x: Tensor) -> Tensor:
        """Returns (r, c)."""
        *gates, candidate = self.inputs(x).split(self.hidden_size, dim=-1)
        return torch.cat([self.forgetting(*gates), candidate], dim=-1)

    def forgetting(self, *gates: Tensor) -> Tensor:
        """Returns r from the pre-activations of the gates."""
        raise NotImplementedError

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            rate, candidate = u.chunk(2, dim=-1)
            kept = -rate * dt
            return ((torch.exp(kept),),), (-torch.expm1(kept) * candidate,)

        return at


@register("mingru", paper="Feng et al. 2024, minGRU", time="native")
class MinGRUCell(GatedLinearCell):
    """minGRU: a GRU whose gate and candidate depend on the input alone.

        r = softplus(W_z x + b_z),   z = 1 - exp(-r dt)
        y = h' = (1 - z) ⊙ h + z ⊙ (W_c x + b_c)

    With dt = 1, z = σ(W_z x + b_z), the paper's model.

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size, gates=1)

    def forgetting(self, *gates: Tensor) -> Tensor:
        """Returns r."""
        return F.softplus(gates[0])
