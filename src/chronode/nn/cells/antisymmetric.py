"""AntisymmetricRNN and Lipschitz RNN: recurrent matrices with a skew-symmetric part."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import flag, number
from .._cell import InputMapCell, State, Step
from .._registry import register
from .._solvers import Solver


@register("antisymmetric", paper="Chang et al. 2019, AntisymmetricRNN", time="native")
@register("gated-antisymmetric", paper="Chang et al. 2019, AntisymmetricRNN with gating", time="native", gated=True)
class AntisymmetricCell(InputMapCell):
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


@register("lipschitz", paper="Erichson et al. 2021, Lipschitz RNN", time="native")
class LipschitzCell(InputMapCell):
    """Lipschitz RNN: a linear and a nonlinear part, each with a symmetric and a skew-symmetric component.

        A = (1 - β)(M + Mᵀ) + β (M - Mᵀ) - γ I;   W likewise from its own M, β_w and γ_w
        dh/dt = A h + tanh(W h + U x + b);   y = h' = ODESolve(dh/dt, h, e),  e = min(ε dt, max_step)

    M is initialized as N(0, 0.1/H) (in the authors' code: N(0, (0.1/H)²)). The paper has a pair (β, γ) for A and
    another for W; the authors' code has one for both, the default here. A may have eigenvalues in the right
    half-plane, where the equation itself grows exponentially, and an Euler step is accurate for e below about 1:
    longer gaps count as `max_step`.

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        epsilon: ε > 0, the model time that corresponds to dt = 1. Choose it so that ε times a typical gap is between
            0.01 and 0.5.
        beta: β in [0, 1]: at 1 the matrices are skew-symmetric except for γ.
        gamma: γ >= 0, damping.
        beta_w: β of W; by default that of A.
        gamma_w: γ of W; by default that of A.
        max_step: Largest e; None means no limit.
        solver: "euler", "midpoint", "heun", "rk4" or "dopri5".
        steps: Number of sub-steps of a fixed-step solver in each dt.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        epsilon: float = 0.1,
        beta: float = 0.75,
        gamma: float = 0.001,
        beta_w: float | None = None,
        gamma_w: float | None = None,
        max_step: float | None = 1.0,
        solver: str = "euler",
        steps: int = 1,
    ):
        super().__init__(input_size, hidden_size)
        self.register_buffer("epsilon", self.constant("epsilon", number("epsilon", epsilon, above=0)))
        self.register_buffer("beta", self.constant("beta", _share("beta", beta)))
        self.register_buffer("gamma", self.constant("gamma", number("gamma", gamma, at_least=0)))
        self.beta_w = None if beta_w is None else _share("beta_w", beta_w)
        self.gamma_w = None if gamma_w is None else number("gamma_w", gamma_w, at_least=0)
        self.max_step = None if max_step is None else number("max_step", max_step, above=0)
        self.solve = Solver(solver, steps)
        self.inputs = nn.Linear(input_size, hidden_size)
        self.m = nn.Parameter(torch.randn(2, hidden_size, hidden_size) * (0.1 / hidden_size) ** 0.5)

    def matrices(self) -> Tensor:
        """Returns (A, W), `(2, H, H)`."""
        m, w = self.m
        beta_w = self.beta if self.beta_w is None else self.beta_w
        gamma_w = self.gamma if self.gamma_w is None else self.gamma_w
        return torch.stack([_split(m, self.beta, self.gamma), _split(w, beta_w, gamma_w)])

    def prepare(self) -> Step:
        """Returns the step with A and W computed once."""
        both = self.matrices().flatten(0, 1).T

        def field(h: Tensor, x: Tensor) -> Tensor:
            linear, inner = (h @ both).chunk(2, dim=-1)
            return linear + torch.tanh(inner + x)

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            e = self.epsilon * dt
            if self.max_step is not None:
                e = e.clamp(max=self.max_step)
            h = self.solve(field, state[0], e, x)
            return h, (h,)

        return step


def _share(name: str, value: float) -> float:
    if not 0 <= number(name, value) <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value}.")
    return float(value)


def _split(m: Tensor, beta: Tensor | float, gamma: Tensor | float) -> Tensor:
    """Returns (1 - β)(M + Mᵀ) + β (M - Mᵀ) - γ I."""
    return m + (1 - 2 * beta) * m.T - gamma * torch.eye(len(m), dtype=m.dtype, device=m.device)
