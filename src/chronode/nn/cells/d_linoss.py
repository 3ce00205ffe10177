"""D-LinOSS: damped linear oscillators."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...settings import one_of
from .._cell import State
from .._registry import register
from ._linear import Matrix, Recurrence
from ._oscillation import OscillatorCell


@register("d-linoss", paper="Boyer, Rusch & Rus 2025, D-LinOSS", time="native")
class DampedLinOSSCell(OscillatorCell):
    """D-LinOSS: damped linear oscillators x'' = -A x - G x' + B u, whose damping is learned.

        G = relu(g),  s = σ(ŝ),  e = s dt
        exact:  A = relu(a);  the motion for the time e with u held constant:
                (z', x') = exp(e [[-G, -A], [1, 0]]) (z, x) + ∫ exp(t [[-G, -A], [1, 0]]) (B u, 0) dt
        imex:   A = a within (2 + sG ± 2 √(1 + sG))/s²;  z' = (z - e A x + e B u)/(1 + e G);   x' = x + e z'
        y = Re(C x') + D u

    "imex" with dt = 1 is the paper's model, stable by its bounds on A; it diverges after gaps of several steps. With
    "exact", one gap of 2 is two gaps of 1, and every gap is stable.

    Initially the eigenvalues of a step with dt = 1 are r exp(± i θ),  r² ~ U(0.81, 1),  θ ~ U(0, π).

    State: (Re z, Im z, Re x, Im x).

    Args:
        input_size: Number of features D.
        hidden_size: Number of outputs H.
        state_size: Number of complex oscillators P; by default H.
        discretization: "exact" or "imex".
    """

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None = None, discretization: str = "exact"):
        super().__init__(input_size, hidden_size, state_size)
        self.discretization = one_of("discretization", discretization, ("exact", "imex"))
        nn.init.normal_(self.rate, std=0.5)
        s = torch.sigmoid(self.rate.detach())
        r2, angle = torch.empty_like(s).uniform_(0.81, 1), torch.empty_like(s).uniform_(0, math.pi)
        if discretization == "exact":
            damping = -r2.log() / s
            stiffness = (angle / s).square() + damping.square() / 4
        else:
            damping = (1 - r2) / (s * r2)
            stiffness = (1 + 1 / r2 - 2 * torch.cos(angle) * r2.rsqrt()) / s.square()
        self.damping = nn.Parameter(damping)
        with torch.no_grad():
            self.stiffness.copy_(stiffness)

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        G, s = torch.relu(self.damping), torch.sigmoid(self.rate)
        if self.discretization == "exact":
            A = torch.relu(self.stiffness)
            return lambda u, dt: self.exact(A, G, s * dt, u)
        middle, width = (2 + s * G) / s.square(), 2 * (1 + s * G).sqrt() / s.square()
        A = torch.minimum(torch.maximum(self.stiffness, middle - width), middle + width)

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            e = s * dt
            S = 1 / (1 + e * G)
            return self.forced(((S, -e * A * S), (e * S, 1 - e * e * A * S)), e * S, e * e * S, u)

        return at
