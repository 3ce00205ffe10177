"""UnICORNN, coRNN and LEM: oscillators and memories with coupled time scales."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels import Kernel, unicornn
from ...settings import flag, number, one_of
from .._cell import InputMapCell, State
from .._registry import register


@register("unicornn", paper="Rusch & Mishra 2021, UnICORNN", time="native")
class UnICORNNCell(InputMapCell):
    """UnICORNN: each unit is an oscillator, integrated by symplectic Euler.

        u  = V x + b
        e  = Δt · σ(c) · dt
        z' = z - e ⊙ [tanh(w ⊙ y + u) + α y]
        y' = y + e ⊙ z'

    The step is stable while e √α < 2: after longer gaps the state grows without bound. The `max_gap` of the layer
    limits them; with the default Δt and α, 20 is safe.

    State: (y, z). With dt = 1 it is the paper's model. In a stack with `residual=S` the input matrix is (V, Λ).

    Args:
        input_size: Number of features D.
        hidden_size: Number of oscillators H.
        delta_t: Δt > 0, the largest time step; may be a list with one value per layer.
        alpha: α >= 0, the stiffness of the oscillators; may be a list with one value per layer.
        train_c: Whether the time scales c of the units are trained (False: the paper's single-scale ablation).
    """

    sequence_kernel = Kernel(unicornn.run, stack=unicornn.run_stack, bind=unicornn.bind)
    per_layer = ("delta_t", "alpha")
    state_parts = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        delta_t: float = 0.1,
        alpha: float = 1.0,
        train_c: bool = True,
    ):
        super().__init__(input_size, hidden_size)
        # Buffers, so that a state_dict contains them.
        self.register_buffer("delta_t", self.constant("delta_t", number("delta_t", delta_t, above=0)))
        self.register_buffer("alpha", self.constant("alpha", number("alpha", alpha, at_least=0)))
        self.inputs = nn.Linear(input_size, hidden_size)
        self.w = nn.Parameter(torch.empty(hidden_size).uniform_(0, 1))
        self.c = nn.Parameter(torch.empty(hidden_size).uniform_(-0.1, 0.1), requires_grad=flag("train_c", train_c))
        nn.init.kaiming_uniform_(self.inputs.weight, a=8, mode="fan_in")
        nn.init.zeros_(self.inputs.bias)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step; `x` is u."""
        y, z = state
        e = self.delta_t * torch.sigmoid(self.c) * dt
        z = z - e * (torch.tanh(self.w * y + x) + self.alpha * y)
        y = y + e * z
        return y, (y, z)

    def kernel_reads(self) -> unicornn.Reads:
        """Returns V, b, w, Δt σ(c) and α."""
        e = self.delta_t * torch.sigmoid(self.c)
        return unicornn.Reads(self.inputs.weight, self.inputs.bias, self.w, e, self.alpha)

    def inverse(self, x: Tensor, state: State, dt: Tensor) -> State:
        """Returns the state before a step with input `x` (from `project`) and result `state`."""
        y, z = state
        e = self.delta_t * torch.sigmoid(self.c) * dt
        y = y - e * z
        z = z + e * (torch.tanh(self.w * y + x) + self.alpha * y)
        return y, z


SOLVERS = ("exponential", "symplectic")


@register("cornn", paper="Rusch & Mishra 2021, coRNN", time="native")
class CoRNNCell(InputMapCell):
    """coRNN: coupled, damped, driven oscillators y'' = f - γ y - ε y',  f = tanh(W y + 𝒲 y' + V x + b).

        e  = Δt · dt;   f at the old (y, z)
        exponential:  the exact motion for the time e with f held constant, a damped oscillation about f/γ:
                      (y' - f/γ, z') = exp(e [[0, 1], [-γ, -ε]]) (y - f/γ, z)
        symplectic (the step of the paper):  z' = z + e (f - γ y - ε z);   y' = y + e z'

    The two differ by O(e²). The exponential step is bounded for every gap: after a long one, y = f/γ is at rest. The
    symplectic step with dt = 1 is the paper's model; it diverges if e exceeds about 2/√γ or 2/ε.

    State: (y, z).

    Args:
        input_size: Number of features D.
        hidden_size: Number of oscillators H.
        delta_t: Δt > 0, the model time that corresponds to dt = 1; may be a list with one value per layer.
            Choose it so that Δt times a typical gap is between 0.01 and 0.5.
        gamma: γ > 0, stiffness; may be a list with one value per layer.
        epsilon: ε > 0, damping; may be a list with one value per layer.
        solver: "exponential" or "symplectic".
    """

    per_layer = ("delta_t", "gamma", "epsilon")
    state_parts = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        delta_t: float = 0.1,
        gamma: float = 1.0,
        epsilon: float = 1.0,
        solver: str = "exponential",
    ):
        super().__init__(input_size, hidden_size)
        # Buffers, so that a state_dict contains them.
        self.register_buffer("delta_t", self.constant("delta_t", number("delta_t", delta_t, above=0)))
        self.register_buffer("gamma", self.constant("gamma", number("gamma", gamma, above=0)))
        self.register_buffer("epsilon", self.constant("epsilon", number("epsilon", epsilon, above=0)))
        self.solver = one_of("solver", solver, SOLVERS)
        self.inputs = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(2 * hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        y, z = state
        e = self.delta_t * dt
        force = torch.tanh(x + self.recurrent(torch.cat(state, dim=-1)))
        if self.solver == "symplectic":
            z = z + e * (force - self.gamma * y - self.epsilon * z)
            y = y + e * z
            return y, (y, z)
        c, s = self._oscillation(e)
        rest = force / self.gamma
        away, half = y - rest, 0.5 * self.epsilon
        y = rest + (c + half * s) * away + s * z
        z = (c - half * s) * z - self.gamma * s * away
        return y, (y, z)

    def _oscillation(self, e: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (c, s) with exp(e M) = c I + s (M + ε/2 I) for M = [[0, 1], [-γ, -ε]].

        With ω² = |γ - ε²/4| they are exp(-ε e/2) (cos ω e, sin(ω e)/ω) if γ > ε²/4, else the same with cosh and sinh.
        """
        half = 0.5 * self.epsilon
        square = self.gamma - half * half
        # At ω = 0, any sufficiently small ω gives the limit s = e exp(-ε e/2).
        omega = square.abs().sqrt().clamp(min=1e-8)
        fading = torch.exp(-half * e)
        swinging = fading * torch.cos(omega * e), fading * torch.sin(omega * e) / omega
        # exp(-ε e/2) cosh(ω e) without the overflow of cosh: (ε/2 - ω) = γ / (ε/2 + ω).
        slow, faster = torch.exp(-self.gamma / (half + omega) * e), torch.expm1(-2 * omega * e)
        creeping = slow * (1 + 0.5 * faster), -0.5 * slow * faster / omega
        c, s = (torch.where(square > 0, *pair) for pair in zip(swinging, creeping, strict=True))
        return c, s


@register("lem", paper="Rusch et al. 2022, LEM", time="native")
class LEMCell(InputMapCell):
    """LEM: two coupled memories, whose time scales depend on the input and the state.

        exponential:  a = 1 - exp(-Δt dt σ(W₁ y + V₁ x + b₁)),   b = 1 - exp(-Δt dt σ(W₂ y + V₂ x + b₂))
        euler:        a = Δt dt σ(W₁ y + V₁ x + b₁),             b = Δt dt σ(W₂ y + V₂ x + b₂)
        z' = (1 - b) ⊙ z + b ⊙ tanh(W₃ y + V₃ x + b₃)
        y' = (1 - a) ⊙ y + a ⊙ tanh(W₄ z' + V₄ x + b₄)

    "euler" with dt = 1 is the paper's model; it diverges if Δt dt exceeds 2. The exponential step is the same to first
    order in Δt dt, and bounded for every gap.

    State: (y, z).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        delta_t: Δt > 0, the largest time scale; may be a list with one value per layer.
        solver: "exponential" or "euler".
    """

    per_layer = ("delta_t",)
    state_parts = 2

    def __init__(self, input_size: int, hidden_size: int, delta_t: float = 1.0, solver: str = "exponential"):
        super().__init__(input_size, hidden_size)
        self.register_buffer("delta_t", self.constant("delta_t", number("delta_t", delta_t, above=0)))
        self.solver = one_of("solver", solver, ("exponential", "euler"))
        self.inputs = nn.Linear(input_size, 4 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.between = nn.Linear(hidden_size, hidden_size, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def share(self, gate: Tensor, dt: Tensor) -> Tensor:
        """Returns a or b from the pre-activation."""
        e = self.delta_t * dt * torch.sigmoid(gate)
        return e if self.solver == "euler" else -torch.expm1(-e)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        y, z = state
        for_y, x_4 = x.split([3 * self.hidden_size, self.hidden_size], dim=-1)
        a, b, c = (for_y + self.recurrent(y)).chunk(3, dim=-1)
        z = z + self.share(b, dt) * (torch.tanh(c) - z)
        y = y + self.share(a, dt) * (torch.tanh(x_4 + self.between(z)) - y)
        return y, (y, z)
