"""Cells that are linear in their state, h' = M h + F: base classes, minGRU and minLSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...settings import whole
from .._cell import Cell, State, Step
from .._registry import register

Matrix = tuple[tuple[Tensor | float, ...], ...]
"""The rows of M, 1 x 1 or 2 x 2 per unit: each entry is a number or a tensor `(units,)` or `(B, units)`."""
Recurrence = Callable[[Tensor, Tensor], tuple[Matrix, State]]
"""M and F of a step: `(u, dt) -> (M, F)` for `u (B, ...)` from `project` and `dt (B, 1)`."""


class LinearCell(Cell):
    """Base class of cells whose state is linear in the previous one: h' = M h + F,  y = readout(h', u).

    M acts on each unit alone. A unit has one number (M is 1 x 1) or two (M is 2 x 2; a complex number λ is
    ((Re λ, -Im λ), (Im λ, Re λ))), and M and F may depend on dt and on the input, but not on the state.

    Subclasses define `recurrence` and, if y is not the first part of the state, `readout`; `project` as for every cell.

    Attributes:
        units: Number of units P: every part of the state is `(B, units)`.
        copies: Number of states that M acts on in the same way; 2 for a complex state with a real M. The parts of the
            state and of F are then ordered by row of M, then by copy: (Re z, Im z, Re x, Im x).
    """

    copies = 1

    def __init__(self, input_size: int, hidden_size: int, units: int | None = None):
        super().__init__(input_size, hidden_size)
        self.units = hidden_size if units is None else units

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns zeros."""
        return (like.new_zeros(batch, self.units),) * self.state_parts

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F of a step; what depends on the parameters alone is done here."""
        raise NotImplementedError(f"{type(self).__name__} must define recurrence()")

    def readout(self, state: State, u: Tensor) -> Tensor:
        """Returns y from the new state and `u`, the result of `project`."""
        return state[0]

    def prepare(self) -> Step:
        """Returns the step."""
        recurrence = self.recurrence()

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            matrix, forcing = recurrence(x, dt)
            new = []
            for index, force in enumerate(forcing):
                row, copy = divmod(index, self.copies)
                for entry, part in zip(matrix[row], state[copy :: self.copies], strict=True):
                    force = force + entry * part
                new.append(force)
            return self.readout(tuple(new), x), tuple(new)

        return step


class StateSpaceCell(LinearCell):
    """Base class of state-space models with P complex units: h' = M h + N B u,  y = Re(C h) + D u.

    B and C are complex and kept as real matrices: B u is (Re B u, Im B u), and y = C (Re h, Im h). D is a vector if
    input and output have the same size, a matrix otherwise.
    """

    state_parts = 2
    for_data: ClassVar[dict[str, Any]] = {"block": "residual"}  # without it, a stack of them is a linear model

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None = None):
        units = hidden_size if state_size is None else whole("state_size", state_size, at_least=1)
        super().__init__(input_size, hidden_size, units)
        self.B = nn.Parameter(torch.empty(2 * units, input_size))
        self.C = nn.Parameter(torch.empty(hidden_size, 2 * units))
        is_vector = input_size == hidden_size
        self.D = nn.Parameter(torch.empty(hidden_size) if is_vector else torch.empty(hidden_size, input_size))
        nn.init.normal_(self.D, std=1.0 if is_vector else input_size**-0.5)

    def project(self, x: Tensor) -> Tensor:
        """Returns (Re B x, Im B x, D x)."""
        skip = self.D * x if self.D.dim() == 1 else F.linear(x, self.D)
        return torch.cat([F.linear(x, self.B), skip], dim=-1)

    def driven(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Returns Re B x and Im B x from the result of `project`."""
        real, imaginary, _ = u.split([self.units, self.units, self.hidden_size], dim=-1)
        return real, imaginary

    def readout(self, state: State, u: Tensor) -> Tensor:
        """Returns Re(C h) + D x; h is the last pair of the state."""
        return F.linear(torch.cat(state[-2:], dim=-1), self.C) + u[..., 2 * self.units :]


class GatedLinearCell(LinearCell):
    """Base class of minGRU and minLSTM: h' = h e^(-r dt) + c (1 - e^(-r dt)), r and c from the input."""

    def __init__(self, input_size: int, hidden_size: int, gates: int):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, (gates + 1) * hidden_size)

    def project(self, x: Tensor) -> Tensor:
        """Returns (r, c)."""
        *gates, candidate = self.inputs(x).split(self.hidden_size, dim=-1)
        return torch.cat([self.forgetting(*gates), candidate], dim=-1)

    def forgetting(self, *gates: Tensor) -> Tensor:
        """Returns r from the pre-activations of the gates."""
        raise NotImplementedError

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            rate, candidate = u.chunk(2, dim=-1)
            kept = -rate * dt
            return ((torch.exp(kept),),), (-torch.expm1(kept) * candidate,)

        return at


@register("mingru", paper="Feng et al. 2024, minGRU", time="native")
class MinGRUCell(GatedLinearCell):
    """minGRU: a GRU whose gate and candidate depend on the input alone.

        r = softplus(W_z x + b_z),   z = 1 - exp(-r dt)
        y = h' = (1 - z) ⊙ h + z ⊙ (W_c x + b_c)

    With dt = 1, z = σ(W_z x + b_z), the paper's model.

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size, gates=1)

    def forgetting(self, *gates: Tensor) -> Tensor:
        """Returns r."""
        return F.softplus(gates[0])


@register("minlstm", paper="Feng et al. 2024, minLSTM", time="native")
class MinLSTMCell(GatedLinearCell):
    """minLSTM: an LSTM without output gate whose gates and candidate depend on the input alone.

        f, i = σ(W_f x + b_f), σ(W_i x + b_i),   z = 1 - (f/(f + i))^dt
        y = h' = (1 - z) ⊙ h + z ⊙ (W_c x + b_c)

    With dt = 1, h' = f/(f + i) ⊙ h + i/(f + i) ⊙ c, the paper's model.

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size, gates=2)

    def forgetting(self, *gates: Tensor) -> Tensor:
        """Returns -log(f/(f + i)) = softplus(log i - log f)."""
        f, i = gates
        return F.softplus(F.softplus(-f) - F.softplus(-i))
