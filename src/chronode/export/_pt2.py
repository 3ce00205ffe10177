"""Export with torch.export: whole sequences of any batch size and length, as plain torch operators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from .._files import replacing
from ..compiler._trace import operator
from ._graph import StepGraph
from ._reference import Series

FILE = "sequence.pt2"
FACTS = "chronode.json"
_SHAPED = frozenset({"view", "_unsafe_view", "reshape", "expand", "zeros", "ones", "full", "empty"})
_SHAPED |= {f"new_{name}" for name in ("zeros", "ones", "full", "empty")}


class Sequence(nn.Module):
    """Maps (x, observed, dt, lengths) to (y, last, state), from the start of each series.

    `x (B, T, D)` raw values, `observed (B, T, D)` bool, `dt (B, T)`, `lengths (B,)`; `y (B, T, K)` after each step, 0
    at padding, `last (B, K)` after the last one, and the final state.

    Args:
        graph: One step.
    """

    def __init__(self, graph: StepGraph):
        super().__init__()
        self.step = _any_batch(graph)
        self.constants = [f"constant{i}" for i in range(len(graph.traced.tensors))]
        for name, tensor in zip(self.constants, graph.traced.tensors, strict=True):
            self.register_buffer(name, tensor.detach().clone())
        self.starts = [f"start{i}" for i in range(len(graph.initial_state))]
        for name, part in zip(self.starts, graph.initial_state, strict=True):
            self.register_buffer(name, torch.from_numpy(part.copy()))
        self.outputs = graph.cell.output_size

    def forward(self, x: Tensor, observed: Tensor, dt: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Runs the series."""
        from torch._higher_order_ops.scan import scan

        seen = observed.to(x.dtype)
        rows = torch.cat([torch.where(observed, x, torch.zeros_like(x)), seen], dim=-1).transpose(0, 1)
        gaps = dt.transpose(0, 1).unsqueeze(-1)
        valid = (torch.arange(x.shape[1], device=x.device)[:, None] < lengths).unsqueeze(-1)
        constants = [self.get_buffer(name) for name in self.constants]
        first = [self.get_buffer(name).expand(x.shape[0], -1).clone() for name in self.starts]
        first.append(x.new_zeros(x.shape[0], self.outputs))

        def advance(carried: list[Tensor], now: tuple[Tensor, ...]) -> tuple[list[Tensor], Tensor]:
            row, gap, is_valid = now
            y, *state = self.step(row, gap, *carried[:-1], *constants)
            kept = [torch.where(is_valid, new, old) for new, old in zip([*state, y], carried, strict=True)]
            return kept, torch.where(is_valid, y, torch.zeros_like(y))

        (*state, last), outputs = scan(advance, first, (rows, gaps, valid))
        return outputs.transpose(0, 1), last, state


def _any_batch(graph: StepGraph) -> fx.GraphModule:
    """Returns the traced step for any number of rows: the traced number of rows is replaced by that of x."""
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


def write_pt2(graph: StepGraph, folder: Path) -> tuple[str, ...]:
    """Writes the program; returns the names of the files."""
    batch, steps = torch.export.Dim("batch"), torch.export.Dim("steps")
    size = graph.inputs
    values = torch.zeros(3, 5, size)
    inputs = (values, torch.ones(3, 5, size, dtype=torch.bool), torch.ones(3, 5), torch.full((3,), 5))
    both = {0: batch, 1: steps}
    with torch.no_grad():
        program = torch.export.export(Sequence(graph), inputs, dynamic_shapes=(both, both, both, {0: batch}))
    with replacing(folder / FILE) as draft:
        torch.export.save(program, draft, extra_files={FACTS: json.dumps(graph.facts())})
    return (FILE,)


class Pt2Runner:
    """An exported folder run by torch, without the model's own code."""

    def __init__(self, folder: Path):
        self._run = torch.export.load(folder / FILE).module()

    def run(self, graph: StepGraph, series: Series) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step."""
        x, observed, dt = map(torch.from_numpy, series)
        with torch.no_grad():
            return self._run(x, observed, dt, torch.full((len(x),), x.shape[1]))[0].numpy()
