"""UnICORNN: stacks of independent undamped oscillators, an invertible (symplectic) recurrence."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels import Kernel, unicornn
from ...settings import flag, number
from .._cell import Cell, State
from .._registry import register


@register("unicornn", paper="Rusch & Mishra 2021, UnICORNN", time="native")
class UnICORNNCell(Cell):
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

    def project(self, x: Tensor) -> Tensor:
        """Returns u of the whole sequence in one matrix product."""
        return self.inputs(x)

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
