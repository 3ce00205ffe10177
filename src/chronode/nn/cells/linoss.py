"""LinOSS: linear oscillators."""

from __future__ import annotations

import torch
from torch import Tensor

from ...settings import one_of
from .._cell import State
from .._registry import register
from ._linear import Matrix, Recurrence
from ._oscillation import OscillatorCell


@register("linoss", paper="Rusch & Rus 2025, LinOSS", time="native")
class LinOSSCell(OscillatorCell):
    """LinOSS: undamped linear oscillators x'' = -A x + B u, one per unit, read out linearly.

        A = relu(a),  e = σ(ŝ) dt
        exact:  the motion for the time e with u held constant:
                (z', x') = exp(e [[0, -A], [1, 0]]) (z, x) + ∫ exp(t [[0, -A], [1, 0]]) (B u, 0) dt
        im:     S = 1/(1 + e² A);  z' = S (z - e A x + e B u);   x' = S (e z + x + e² B u)
        imex:   z' = z - e A x + e B u;                          x' = x + e z'
        y = Re(C x') + D u

    "im" and "imex" with dt = 1 are the paper's models. "im" dissipates energy, the more the longer the steps; "imex"
    keeps the volume of the state, and diverges if e² A exceeds 4. With "exact", one gap of 2 is two gaps of 1.

    State: (Re z, Im z, Re x, Im x).

    Args:
        input_size: Number of features D.
        hidden_size: Number of outputs H.
        state_size: Number of complex oscillators P; by default H.
        discretization: "exact", "im" or "imex".
    """

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None = None, discretization: str = "exact"):
        super().__init__(input_size, hidden_size, state_size)
        self.discretization = one_of("discretization", discretization, ("exact", "im", "imex"))

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        A, s = torch.relu(self.stiffness), torch.sigmoid(self.rate)

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            e = s * dt
            if self.discretization == "exact":
                return self.exact(A, None, e, u)
            if self.discretization == "im":
                S = 1 / (1 + e * e * A)
                return self.forced(((S, -e * A * S), (e * S, S)), e * S, e * e * S, u)
            return self.forced(((1.0, -e * A), (e, 1 - e * e * A)), e, e * e, u)

        return at
