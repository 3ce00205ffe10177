"""Export with torch.export: whole sequences of any batch size and length, as plain torch operators."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from ..compiler import operator
from ..storage import replacing
from ._deployment import Graph, Part, Series

FILE = "sequence.pt2"
FACTS = "chronode.json"
_SHAPED = frozenset({"view", "_unsafe_view", "reshape", "expand", "zeros", "ones", "full", "empty"})
_SHAPED |= {f"new_{name}" for name in ("zeros", "ones", "full", "empty")}
Results = tuple[Tensor, Tensor, list[Tensor]]
Tensors = Mapping[str, Sequence[NDArray[Any]]]


def write_pt2(graph: Graph, folder: Path) -> tuple[str, ...]:
    """Writes the program; returns the names of the files."""
    batch, steps = torch.export.Dim("batch"), torch.export.Dim("steps")
    values = torch.zeros(3, 5, graph.inputs)
    inputs = (values, torch.ones_like(values, dtype=torch.bool), torch.ones(3, 5), torch.full((3,), 5))
    both = {0: batch, 1: steps}
    # A scan that ran before has left compiled code, whose guards would exclude its number of steps.
    torch.compiler.reset()
    with torch.no_grad():
        sequence = Refusing(sequence_of(graph), graph)
        program = torch.export.export(sequence, inputs, dynamic_shapes=(both, both, both, {0: batch}))
    with replacing(folder / FILE) as draft:
        torch.export.save(program, draft, extra_files={FACTS: json.dumps(graph.facts())})
    return (FILE,)


class Pt2Runner:
    """An exported folder run by torch, without the model's own code."""

    def __init__(self, folder: Path):
        self._run = torch.export.load(folder / FILE).module()

    def run(self, graph: Graph, series: Series) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step."""
        x, observed, dt = map(torch.from_numpy, series)
        with torch.no_grad():
            return self._run(x, observed, dt, torch.full((len(x),), x.shape[1]))[0].numpy()


class Refusing(nn.Module):
    """Whole series, whose outputs are NaN from a refused observation on: a value that is not finite or that has no
    logarithm, or a time that is negative or not finite.
    """

    def __init__(self, sequence: nn.Module, graph: Graph):
        super().__init__()
        self.sequence, self.missing = sequence, graph.deployment.missing
        self.register_buffer("no_logarithm", torch.tensor(graph.deployment.no_logarithm, dtype=torch.float32))

    def forward(self, x: Tensor, observed: Tensor, dt: Tensor, lengths: Tensor) -> Results:
        """Runs the series."""
        y, last, state = self.sequence(x, observed, dt, lengths)
        wrong = ~x.isfinite() | (x <= self.get_buffer("no_logarithm"))
        wrong = observed & wrong if self.missing else wrong | ~observed
        valid = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)
        refused = valid & (wrong.any(-1) | ~(dt.isfinite() & (dt >= 0)))
        since = (refused.to(x.dtype).cumsum(1) > 0) & valid
        ever = refused.any(1, keepdim=True)
        nan = x.new_full((), torch.nan)
        later = [torch.where(ever, nan, part) for part in (last, *state)]
        return torch.where(since.unsqueeze(-1), nan, y), later[0], later[1:]


def sequence_of(graph: Graph, tensors: Tensors | None = None) -> nn.Module:
    """Returns a module that maps (x, observed, dt, lengths) to (y, last, state), from the start of each series.

    `x (B, T, D)` raw values, `observed (B, T, D)` bool, `dt (B, T)`, `lengths (B,)`; `y (B, T, K)` after each step, 0
    at padding, `last (B, K)` after the last one, and the final state.
    """
    parts = {name: _Part(part, None if tensors is None else tensors[name]) for name, part in graph.parts.items()}
    return _Windows(parts, graph.window) if graph.window else _Sequence(parts["step"])


class _Sequence(nn.Module):
    """A model with a state."""

    def __init__(self, step: _Part):
        super().__init__()
        self.step = step

    def forward(self, x: Tensor, observed: Tensor, dt: Tensor, lengths: Tensor) -> Results:
        """Runs the series."""
        flags = observed.to(x.dtype)
        rows = torch.cat([torch.where(observed, x, torch.zeros_like(x)), flags], dim=-1).transpose(0, 1)
        valid = (torch.arange(x.shape[1], device=x.device)[:, None] < lengths).unsqueeze(-1)
        outputs, last, state = self.step.over_time(rows, dt.transpose(0, 1).unsqueeze(-1), valid)
        return outputs.transpose(0, 1), last, state


class _Windows(nn.Module):
    """Forecasts from windows: the windows that end at each step are the rows of one batch."""

    def __init__(self, parts: dict[str, _Part], size: int):
        super().__init__()
        self.windows = _Sequence(parts["window"])
        self.measure, self.network, self.decode = (parts[name] for name in ("measure", "network", "decode"))
        self.size = size

    def forward(self, x: Tensor, observed: Tensor, dt: Tensor, lengths: Tensor) -> Results:
        """Runs the series."""
        windows, _, state = self.windows(x, observed, dt, lengths)
        # Padding has no observations; its forecasts are not read.
        valid = (torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)).unsqueeze(-1)
        y = self._forecasts(windows.flatten(0, 1), x.shape[2]).unflatten(0, x.shape[:2])
        y = torch.where(valid, y, torch.zeros_like(y))
        at = (lengths - 1).reshape(-1, 1, 1).expand(-1, 1, y.shape[2])
        return y, y.gather(1, at).squeeze(1), state

    def _forecasts(self, window: Tensor, channels: int) -> Tensor:
        size = self.size
        values, flags, gaps, _, count = window.split([size * channels] * 2 + [size] * 2 + [1], dim=1)
        nothing = torch.zeros_like(count)
        measured = self.measure(window, nothing)[0]
        position, first = torch.arange(size, device=window.device).to(window.dtype), size - count
        valid, gaps = position >= first, torch.where(position > first, gaps, torch.zeros_like(gaps))
        view = measured[:, : self.network.inputs - 2 * channels].unsqueeze(1).expand(-1, size, -1)
        rows = torch.cat([part.reshape(-1, size, channels) for part in (values, flags)] + [view], dim=-1)
        _, y, _ = self.network.over_time(rows.transpose(0, 1), gaps.T.unsqueeze(-1), valid.T.unsqueeze(-1))
        return self.decode(torch.cat([y, measured], dim=1), nothing)[0]


class _Part(nn.Module):
    """A traced cell for any number of rows: (x, dt, state...) to [y, state...]."""

    def __init__(self, part: Part, tensors: Sequence[NDArray[Any]] | None):
        super().__init__()
        self.step, self.inputs, self.outputs = _any_batch(part), part.cell.input_size, part.outputs
        values = part.traced.tensors if tensors is None else [torch.from_numpy(np.array(t)) for t in tensors]
        self.constants = [f"constant{i}" for i in range(len(values))]
        self.starts = [f"start{i}" for i in range(len(part.initial_state))]
        for name, tensor in zip(self.constants, values, strict=True):
            self.register_buffer(name, tensor.detach().clone())
        for name, start in zip(self.starts, part.initial_state, strict=True):
            self.register_buffer(name, torch.from_numpy(start.copy()))

    def forward(self, x: Tensor, dt: Tensor, *state: Tensor) -> list[Tensor]:
        """Performs one step."""
        return self.step(x, dt, *state, *map(self.get_buffer, self.constants))

    def over_time(self, rows: Tensor, gaps: Tensor, valid: Tensor) -> Results:
        """Performs the steps `rows (T, B, D)`, `gaps (T, B, 1)` from the initial state; steps that are not
        `valid (T, B, 1)` change nothing.

        Returns:
            The outputs `(T, B, K)`, 0 where not valid, the last valid ones `(B, K)`, and the last state.
        """
        step, constants, batch = self.step, [*map(self.get_buffer, self.constants)], rows.shape[1]
        first = [self.get_buffer(name).expand(batch, -1).clone() for name in self.starts]
        first.append(rows.new_zeros(batch, self.outputs))

        def advance(carried: list[Tensor], now: tuple[Tensor, ...]) -> tuple[list[Tensor], Tensor]:
            row, gap, is_valid = now
            y, *state = step(row, gap, *carried[:-1], *constants)
            kept = [torch.where(is_valid, new, old) for new, old in zip([*state, y], carried, strict=True)]
            return kept, torch.where(is_valid, y, torch.zeros_like(y))

        if torch.compiler.is_exporting():
            from torch._higher_order_ops.scan import scan

            (*state, last), outputs = scan(advance, first, (rows, gaps, valid))
            return outputs, last, state
        carried, steps = first, []
        for now in zip(rows, gaps, valid, strict=True):
            carried, y = advance(carried, now)
            steps.append(y)
        return torch.stack(steps), carried[-1], carried[:-1]


def _any_batch(part: Part) -> fx.GraphModule:
    """Returns the traced step for any number of rows: where it names the number that it was traced with, that of x."""
    traced, graph = part.traced, fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    nodes = list(traced.joint.graph.nodes)
    for i, node in enumerate(node for node in nodes if node.op == "placeholder"):
        copies[node] = graph.placeholder(f"value{i}")
    rows = graph.call_function(torch.ops.aten.sym_size.int, (next(iter(copies.values())), 0))

    def with_rows(arg: Any) -> Any:
        return [rows if size == traced.batch else size for size in arg] if isinstance(arg, (list, tuple)) else arg

    for node in nodes:
        if node.op == "output":
            graph.output(fx.node.map_arg(list(node.args[0]), copies.__getitem__))
        elif node.op != "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.op == "call_function" and operator(node) in _SHAPED:
                copies[node].args = tuple(map(with_rows, copies[node].args))
    return fx.GraphModule(traced.joint, graph)
