"""Inputs with missing values, for models without a mechanism of their own."""

from __future__ import annotations

import torch
from torch import Tensor

from ._cell import Cell, State, counter


class ForwardFill(Cell):
    """Carries the last observed value forward and adds the mask and the time since that observation.

        filled = x where observed, else the last observed x (0 before the first)
        since  = 0 where observed, else since + dt
        y      = (filled, observed, since)

    Its input is `(x, observed)`, `2 D` features; its output has `3 D`. State: (filled, since).
    """

    def __init__(self, features: int):
        super().__init__(2 * features, features)
        self.output_size = 3 * features

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a state without observations."""
        return like.new_zeros(batch, self.hidden_size), counter(like, batch, self.hidden_size)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        value, observed = x.chunk(2, dim=-1)
        filled, since = state
        is_observed = observed > 0
        filled = torch.where(is_observed, value, filled)
        since = torch.where(is_observed, torch.zeros_like(since), since + dt)
        return torch.cat([filled, observed, since.to(x.dtype)], dim=-1), (filled, since)
