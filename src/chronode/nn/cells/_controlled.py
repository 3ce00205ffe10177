"""Base class and vector field of the neural controlled differential equations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import whole
from .._cell import Cell
from .._solvers import Solver


class VectorField(nn.Module):
    """f(z) d = tanh(W₂ relu(W₁ z + b₁) + b₂) d: an `(H, channels)` matrix that depends on z, times a direction."""

    def __init__(self, size: int, channels: int):
        super().__init__()
        self.shape = (size, channels)
        self.inner = nn.Linear(size, size)
        self.outer = nn.Linear(size, size * channels)

    def forward(self, z: Tensor, direction: Tensor) -> Tensor:
        """Returns the change of `z (B, H)` along `direction (B, channels)`."""
        f = torch.tanh(self.outer(torch.relu(self.inner(z)))).unflatten(-1, self.shape)
        return torch.linalg.vecdot(f, direction.unsqueeze(-2))


class ControlledCell(Cell):
    """Base class: path of `channels` values, initial state W x + b of the first observation, and a solver."""

    def __init__(self, input_size: int, hidden_size: int, channels: int | None, solver: str, steps: int):
        super().__init__(input_size, hidden_size)
        limit = input_size if channels is None else whole("channels", channels, at_least=1)
        self.channels = min(input_size, limit)
        self.path = nn.Linear(input_size, limit, bias=False) if input_size > limit else nn.Identity()
        self.start = nn.Linear(self.channels, hidden_size)
        self.solve = Solver(solver, steps)

    def project(self, x: Tensor) -> Tensor:
        """Returns the values of the path."""
        return self.path(x)
