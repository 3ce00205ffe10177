"""LRU: the linear recurrent unit."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...settings import SettingError, number
from .._cell import State
from .._registry import register
from ._linear import Matrix, Recurrence, StateSpaceCell


@register("lru", paper="Orvieto et al. 2023, LRU", time="native")
class LRUCell(StateSpaceCell):
    """LRU: a complex diagonal recurrence on a ring of eigenvalues, with normalized input.

        λ(dt) = exp((-e^ν + i e^θ) dt),   γ(dt) = e^γ̂ √((1 - |λ|^2dt) / (1 - |λ|²)),   |λ| = exp(-e^ν)
        h' = λ(dt) ⊙ h + γ(dt) ⊙ B u;     y = Re(C h') + D u

    With dt = 1 it is the paper's model. Initially |λ|² is uniform between r_min² and r_max², the phase e^θ between 0
    and `max_phase`, and e^γ̂ = √(1 - |λ|²).

    State: (Re h, Im h).

    Args:
        input_size: Number of features D.
        hidden_size: Number of outputs H.
        state_size: Number of complex units P; by default H.
        r_min: Smallest initial |λ|.
        r_max: Largest initial |λ|, at most 1.
        max_phase: Largest initial phase of λ.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        state_size: int | None = None,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
    ):
        super().__init__(input_size, hidden_size, state_size)
        number("r_min", r_min, at_least=0, below=1)
        number("r_max", r_max, above=0)
        number("max_phase", max_phase, above=0)
        if not r_min < r_max <= 1:
            raise SettingError(
                f"r_min={r_min} and r_max={r_max} do not enclose a ring within the unit circle",
                argument="r_max",
                cure="choose 0 <= r_min < r_max <= 1",
            )
        nn.init.normal_(self.B, std=(2 * input_size) ** -0.5)
        nn.init.normal_(self.C, std=self.units**-0.5)
        tiny = torch.finfo(self.B.dtype).eps
        square = torch.empty(self.units).uniform_(r_min**2, r_max**2).clamp(tiny, 1 - tiny)
        self.nu = nn.Parameter((-0.5 * square.log()).log())
        self.theta = nn.Parameter(torch.empty(self.units).uniform_(0, max_phase).clamp(min=tiny).log())
        self.log_gamma = nn.Parameter(0.5 * (1 - square).log())

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        decay, frequency = torch.exp(self.nu), torch.exp(self.theta)
        gain = torch.exp(self.log_gamma) * torch.rsqrt(-torch.expm1(-2 * decay))

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            angle = frequency * dt
            size = torch.exp(-decay * dt)
            real, imaginary = size * torch.cos(angle), size * torch.sin(angle)
            passed = -torch.expm1(-2 * decay * dt)
            # The slope of the root is infinite at dt = 0.
            moves = passed > 1e-12
            gamma = torch.where(moves, gain * torch.where(moves, passed, torch.ones_like(passed)).sqrt(), 0.0)
            u_real, u_imaginary = self.driven(u)
            return ((real, -imaginary), (imaginary, real)), (gamma * u_real, gamma * u_imaginary)

        return at
