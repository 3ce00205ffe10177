"""Skip RNNs: a binary gate decides at each step whether the state is updated or copied."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ..._checks import number, one_of
from .._cell import Cell, State, counter

PAPER = "Campos et al. 2018, Skip RNN"


class SkipCell(Cell):
    """A recurrent cell S that updates at some steps and copies its state at the others.

        u = round(ũ), with the gradient of the identity ("straight through")
        s' = u S(s, x) + (1 - u) s;   Δ = σ(w·q + b),  q = s' or, of an LSTM's s' = (h, c), c alone
        ũ' = u Δ + (1 - u) (ũ + min(Δ, 1 - ũ)),  ũ = 1 at the start
        y  = h of s'

    State: (s, ũ, number of updates so far).

    Args:
        input_size: features D.
        hidden_size: units H.
        update_bias: initial b; the larger, the fewer steps are skipped at the start.
        gate: what q is: "memory" (c of an LSTM, as in the authors' program; h of a GRU) or "state" (all of s', as the
            paper's equation reads).
    """

    inner: ClassVar[type[Cell]]

    def __init__(self, input_size: int, hidden_size: int, update_bias: float = 1.0, gate: str = "memory"):
        super().__init__(input_size, hidden_size)
        self.cell = self.inner(input_size, hidden_size)
        self.gate = one_of("gate", gate, ("memory", "state"))
        self.pace = nn.Linear(hidden_size * (self.inner.state_parts if gate == "state" else 1), 1)
        nn.init.constant_(self.pace.bias, number("update_bias", update_bias))

    def initial_state(self, batch: int, like: Tensor) -> State:
        """At rest; the first step is an update."""
        return (*self.cell.initial_state(batch, like), like.new_ones(batch, 1), counter(like, batch))

    def project(self, x: Tensor) -> Tensor:
        """The gates' share of the input."""
        return self.cell.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        *old, wish, updates = state
        update = wish + (torch.round(wish) - wish).detach()
        _, new = self.cell(x, tuple(old), dt)
        kept = tuple(before + update * (after - before) for before, after in zip(old, new, strict=True))
        seen = torch.cat(kept, dim=-1) if self.gate == "state" else kept[-1]
        change = torch.sigmoid(self.pace(seen))
        wish = update * change + (1 - update) * (wish + torch.minimum(change, 1 - wish))
        return kept[0], (*kept, wish, updates + update)

    @staticmethod
    def updates(state: State) -> Tensor:
        """How many updates each sequence has made, `(B, 1)`; their cost, times λ, is the paper's budget loss."""
        return state[-1]
