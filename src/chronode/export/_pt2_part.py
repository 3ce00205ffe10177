"""A traced cell as a torch module for any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from ..compiler import operator
from ._graph import StepGraph

_SHAPED = frozenset({"view", "_unsafe_view", "reshape", "expand", "zeros", "ones", "full", "empty"})
_SHAPED |= {f"new_{name}" for name in ("zeros", "ones", "full", "empty")}


class Part(nn.Module):
    """A traced cell for any number of rows: (x, dt, state...) to [y, state...].

    Args:
        graph: The cell.
        tensors: Other parameters than the model's.
    """

    def __init__(self, graph: StepGraph, tensors: list[NDArray[Any]] | None = None):
        super().__init__()
        self.step = _any_batch(graph)
        found = graph.traced.tensors if tensors is None else [torch.from_numpy(np.array(t)) for t in tensors]
        self.constants = [f"constant{i}" for i in range(len(found))]
        for name, tensor in zip(self.constants, found, strict=True):
            self.register_buffer(name, tensor.detach().clone())
        self.starts = [f"start{i}" for i in range(len(graph.initial_state))]
        for name, part in zip(self.starts, graph.initial_state, strict=True):
            self.register_buffer(name, torch.from_numpy(part.copy()))

    def values(self) -> list[Tensor]:
        """Returns the constants, which follow the state as arguments of `step`."""
        return [self.get_buffer(name) for name in self.constants]

    def initial_state(self, rows: int) -> list[Tensor]:
        """Returns the state before the first step."""
        return [self.get_buffer(name).expand(rows, -1).clone() for name in self.starts]

    def forward(self, x: Tensor, dt: Tensor, *state: Tensor) -> list[Tensor]:
        """Performs one step."""
        return self.step(x, dt, *state, *self.values())

    def over_time(self, rows: Tensor, gaps: Tensor, valid: Tensor, outputs: int) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Performs the steps `rows (T, B, D)`, `gaps (T, B, 1)` from the initial state; steps that are not
        `valid (T, B, 1)` change nothing.

        Returns:
            The outputs `(T, B, outputs)`, 0 where not valid, the last valid ones `(B, outputs)`, and the last state.
        """
        from torch._higher_order_ops.scan import scan

        step, constants = self.step, self.values()
        first = [*self.initial_state(rows.shape[1]), rows.new_zeros(rows.shape[1], outputs)]

        def advance(carried: list[Tensor], now: tuple[Tensor, ...]) -> tuple[list[Tensor], Tensor]:
            row, gap, is_valid = now
            y, *state = step(row, gap, *carried[:-1], *constants)
            kept = [torch.where(is_valid, new, old) for new, old in zip([*state, y], carried, strict=True)]
            return kept, torch.where(is_valid, y, torch.zeros_like(y))

        (*state, last), found = scan(advance, first, (rows, gaps, valid))
        return found, last, state


def _any_batch(graph: StepGraph) -> fx.GraphModule:
    """Returns the traced step for any number of rows: where it names the number that it was traced with, that of x."""
    traced, made = graph.traced, fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    nodes = list(traced.joint.graph.nodes)
    for i, node in enumerate(node for node in nodes if node.op == "placeholder"):
        copies[node] = made.placeholder(f"value{i}")
    rows = made.call_function(torch.ops.aten.sym_size.int, (next(iter(copies.values())), 0))
    for node in nodes:
        if node.op == "output":
            made.output(fx.node.map_arg(list(node.args[0]), copies.__getitem__))
        elif node.op != "placeholder":
            copies[node] = made.node_copy(node, copies.__getitem__)
            if node.op == "call_function" and operator(node) in _SHAPED:
                copies[node].args = tuple(_with_rows(arg, traced.batch, rows) for arg in copies[node].args)
    return fx.GraphModule(traced.joint, made)


def _with_rows(arg: Any, batch: int, rows: fx.Node) -> Any:
    return [rows if size == batch else size for size in arg] if isinstance(arg, (list, tuple)) else arg
