"""S4D: a diagonal state-space model for each channel."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...settings import one_of, whole
from .._cell import State
from .._registry import register
from ._diagonal import DISCRETIZATIONS, discretized, log_steps
from ._linear import LinearCell, Matrix, Recurrence, StateSpaceCell


@register("s4d", paper="Gu et al. 2022, S4D", time="native")
class S4DCell(LinearCell):
    """S4D: a diagonal state-space model of its own for each of H channels.

        v = u if D = H, else W u
        h' = exp(Λ Δ dt) h + Λ⁻¹ (exp(Λ Δ dt) - 1) v    (or bilinear, see S5),   P complex units for each channel
        y = 2 Re(sum of C h' over the P units) + D v

    Λ = -e^ρ + i ω, initially -1/2 + i π n (S4D-Lin); each channel has its own Δ.

    State: (Re h, Im h), `H P` numbers each: the units of the first channel, then those of the second.

    Args:
        input_size: Number of features D.
        hidden_size: Number of channels H.
        state_size: Number of complex units P of each channel.
        discretization: "zoh" (zero-order hold, exact for an input held constant) or "bilinear".
        step_min: Smallest initial Δ.
        step_max: Largest initial Δ.
    """

    state_parts = 2
    for_data = StateSpaceCell.for_data

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        state_size: int = 16,
        discretization: str = "zoh",
        step_min: float = 0.001,
        step_max: float = 0.1,
    ):
        whole("state_size", state_size, at_least=1)
        super().__init__(input_size, hidden_size)
        self.state_size, self.units = state_size, self.hidden_size * state_size
        self.discretization = one_of("discretization", discretization, DISCRETIZATIONS)
        self.mix = nn.Linear(input_size, hidden_size, bias=False) if input_size != hidden_size else nn.Identity()
        self.log_decay = nn.Parameter(torch.full((self.units,), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(state_size).repeat(hidden_size).to(self.log_decay))
        self.log_step = nn.Parameter(log_steps(hidden_size, step_min, step_max))
        self.C = nn.Parameter(torch.randn(2, self.units) * 0.5**0.5)
        self.D = nn.Parameter(torch.randn(hidden_size))

    def project(self, x: Tensor) -> Tensor:
        """Returns v."""
        return self.mix(x)

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        decay = torch.exp(self.log_decay)
        step = torch.exp(self.log_step).repeat_interleave(self.state_size)

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            matrix, factor = discretized(decay, self.frequency, step * dt, self.discretization)
            v = u.repeat_interleave(self.state_size, dim=-1)
            return matrix, (factor[0] * v, factor[1] * v)

        return at

    def readout(self, state: State, u: Tensor) -> Tensor:
        """Returns 2 Re(sum of C h) + D v."""
        real, imaginary = state
        C_real, C_imaginary = self.C
        terms = 2 * (C_real * real - C_imaginary * imaginary)
        return terms.unflatten(-1, (self.hidden_size, self.state_size)).sum(-1) + self.D * u
