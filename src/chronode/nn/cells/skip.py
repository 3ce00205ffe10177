"""Skip RNNs: a binary gate decides at each step whether the state is updated or copied."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ...settings import number, one_of
from .._cell import Cell, State, counter
from .._registry import register
from .textbook import GRUCell, LSTMCell

PAPER = "Campos et al. 2018, Skip RNN"


class SkipCell(Cell):
    """Base class: recurrent cell S that updates its state at some steps and copies it at the others.

        u = round(ũ), with the gradient of the identity ("straight through")
        s' = u S(s, x) + (1 - u) s;   Δ = σ(w·q + b),  q = s' or, for an LSTM with s' = (h, c), c alone
        ũ' = u Δ + (1 - u) (ũ + min(Δ, 1 - ũ)),  initially ũ = 1
        y  = h'

    State: (s, ũ, number of updates so far).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        update_bias: Initial b; the larger it is, the fewer steps are skipped at first.
        gate: Definition of q: "memory" (c of an LSTM, as in the authors' code; h of a GRU) or "state" (all of s', as in
            the equation of the paper).
    """

    inner: ClassVar[type[Cell]]

    def __init__(self, input_size: int, hidden_size: int, update_bias: float = 1.0, gate: str = "memory"):
        super().__init__(input_size, hidden_size)
        self.cell = self.inner(input_size, hidden_size)
        self.gate = one_of("gate", gate, ("memory", "state"))
        self.pace = nn.Linear(hidden_size * (self.inner.state_parts if gate == "state" else 1), 1)
        nn.init.constant_(self.pace.bias, number("update_bias", update_bias))

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a zero state whose first step is an update."""
        return (*self.cell.initial_state(batch, like), like.new_ones(batch, 1), counter(like, batch))

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the gates."""
        return self.cell.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        *old, probability, updates = state
        update = probability + (torch.round(probability) - probability).detach()
        _, new = self.cell(x, tuple(old), dt)
        kept = tuple(before + update * (after - before) for before, after in zip(old, new, strict=True))
        gate_input = torch.cat(kept, dim=-1) if self.gate == "state" else kept[-1]
        change = torch.sigmoid(self.pace(gate_input))
        probability = update * change + (1 - update) * (probability + torch.minimum(change, 1 - probability))
        return kept[0], (*kept, probability, updates + update)

    @staticmethod
    def updates(state: State) -> Tensor:
        """Returns the number of updates of each sequence, `(B, 1)`; λ times it is the budget loss of the paper."""
        return state[-1]


@register("skip-gru", paper=PAPER, time="none")
class SkipGRUCell(SkipCell):
    """Skip GRU: a GRU that skips steps.

    State: (h, ũ, updates). Equations and arguments: see `SkipCell`.
    """

    inner = GRUCell


@register("skip-lstm", paper=PAPER, time="none")
class SkipLSTMCell(SkipCell):
    """Skip LSTM: an LSTM that skips steps.

    State: (h, c, ũ, updates). Equations and arguments: see `SkipCell`.
    """

    inner = LSTMCell
