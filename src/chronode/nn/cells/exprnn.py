"""expRNN: an orthogonal recurrent matrix from the exponential of a skew-symmetric one."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from .._cell import Cell, State, Step
from .._registry import register


class OrthogonalMatrix(nn.Module):
    """A trained orthogonal matrix: B exp(X - Xᵀ), X lower triangular (torch.nn.utils.parametrizations).

    The initial value is a block-diagonal matrix of rotations by random angles, as in expRNN ("Henaff").
    """

    def __init__(self, size: int):
        super().__init__()
        self.size = size
        holder = nn.Linear(size, size, bias=False)
        angles = torch.empty(size // 2).uniform_(-math.pi, math.pi)
        generator = torch.zeros(size, size)
        even = 2 * torch.arange(size // 2)
        generator[even, even + 1] = angles
        with torch.no_grad():
            holder.weight.copy_(torch.matrix_exp(generator - generator.T))
        self.holder = parametrizations.orthogonal(holder, orthogonal_map="matrix_exp")

    def forward(self) -> Tensor:
        """Returns the matrix, computed at every call."""
        return cast(Tensor, self.holder.weight)

    def __reduce__(self):
        # torch cannot pickle parametrized modules, so the module is rebuilt with the same values.
        trained = [parameter.requires_grad for parameter in self.parameters()]
        return _rebuilt, (self.size, self.state_dict(), trained, self.training)


def _rebuilt(size: int, numbers: dict[str, Tensor], trained: list[bool], training: bool) -> OrthogonalMatrix:
    with torch.random.fork_rng(devices=[]):
        matrix = OrthogonalMatrix(size)
    matrix.to(next(iter(numbers.values()))).load_state_dict(numbers)
    for parameter, one in zip(matrix.parameters(), trained, strict=True):
        parameter.requires_grad_(one)
    return matrix.train(training)


@register("exprnn", paper="Lezcano-Casado & Martínez-Rubio 2019, expRNN", time="none")
class ExpRNNCell(Cell):
    """expRNN: an orthogonal recurrent matrix, parametrized by the matrix exponential.

        Q = B exp(X - Xᵀ);   y = h' = modrelu(W x + Q h),  modrelu(a) = sign(a) relu(|a| + b)

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, hidden_size, bias=False)
        nn.init.kaiming_normal_(self.inputs.weight)
        self.recurrent = OrthogonalMatrix(hidden_size)
        self.bias = nn.Parameter(torch.empty(hidden_size).uniform_(-0.01, 0.01))

    def project(self, x: Tensor) -> Tensor:
        """Returns W x."""
        return self.inputs(x)

    def prepare(self) -> Step:
        """Returns the step with Q computed once."""
        transposed = self.recurrent().T

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            a = x + state[0] @ transposed
            h = torch.sign(a) * torch.relu(a.abs() + self.bias)
            return h, (h,)

        return step
