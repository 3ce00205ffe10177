"""Export with torch.export: whole sequences of any batch size and length, as plain torch operators."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..storage import replacing
from ._graph import StepGraph
from ._pt2_part import Part
from ._pt2_refusal import Refusing
from ._pt2_window import WindowSequence
from ._reference import Series
from ._window import Graph, WindowGraph

FILE = "sequence.pt2"
FACTS = "chronode.json"


class Sequence(nn.Module):
    """Maps (x, observed, dt, lengths) to (y, last, state), from the start of each series.

    `x (B, T, D)` raw values, `observed (B, T, D)` bool, `dt (B, T)`, `lengths (B,)`; `y (B, T, K)` after each step, 0
    at padding, `last (B, K)` after the last one, and the final state.

    Args:
        graph: One step.
    """

    def __init__(self, graph: StepGraph):
        super().__init__()
        self.part, self.outputs = Part(graph), graph.outputs

    def forward(self, x: Tensor, observed: Tensor, dt: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Runs the series."""
        seen = observed.to(x.dtype)
        rows = torch.cat([torch.where(observed, x, torch.zeros_like(x)), seen], dim=-1).transpose(0, 1)
        gaps = dt.transpose(0, 1).unsqueeze(-1)
        valid = (torch.arange(x.shape[1], device=x.device)[:, None] < lengths).unsqueeze(-1)
        outputs, last, state = self.part.over_time(rows, gaps, valid, self.outputs)
        return outputs.transpose(0, 1), last, state


def write_pt2(graph: Graph, folder: Path) -> tuple[str, ...]:
    """Writes the program; returns the names of the files."""
    batch, steps = torch.export.Dim("batch"), torch.export.Dim("steps")
    size = graph.inputs
    values = torch.zeros(3, 5, size)
    inputs = (values, torch.ones(3, 5, size, dtype=torch.bool), torch.ones(3, 5), torch.full((3,), 5))
    both = {0: batch, 1: steps}
    # A scan that ran before has left compiled code, whose guards would exclude its number of steps.
    torch.compiler.reset()
    with torch.no_grad():
        sequence = WindowSequence(graph) if isinstance(graph, WindowGraph) else Sequence(graph)
        program = torch.export.export(Refusing(sequence, graph), inputs, dynamic_shapes=(both, both, both, {0: batch}))
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
