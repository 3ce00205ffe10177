"""Forecasts from windows with torch.export: the windows that end at each step are the rows of one batch."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ._pt2_part import Part
from ._window import WindowGraph


class WindowSequence(nn.Module):
    """Maps (x, observed, dt, lengths) to (y, last, state), like `Sequence`.

    Args:
        graph: The parts of a step.
        tensors: Parameters that replace those of the model, by the name of the part.
    """

    def __init__(self, graph: WindowGraph, tensors: dict[str, list[NDArray[Any]]] | None = None):
        super().__init__()
        own = tensors or dict.fromkeys(graph.parts)
        self.measure = Part(graph.measure, own["measure"])
        self.network = Part(graph.network, own["network"])
        self.decode = Part(graph.decode, own["decode"])
        self.window, self.outputs, self.hidden = graph.window, graph.outputs, graph.network.outputs
        self.view = graph.network.cell.input_size - 2 * graph.inputs

    def forward(self, x: Tensor, observed: Tensor, dt: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Runs the series."""
        batch, steps = x.shape[0], x.shape[1]
        size = self.window
        seen = observed.to(x.dtype)
        values, flags, gaps = (
            nn.functional.pad(part, (0, 0, size - 1, 0)).unfold(1, size, 1).transpose(2, 3).flatten(0, 1)
            for part in (torch.where(observed, x, torch.zeros_like(x)), seen, dt.unsqueeze(-1))
        )
        gaps = gaps.squeeze(-1)
        ages = nn.functional.pad(gaps[:, 1:], (0, 1)).flip(1).cumsum(1).flip(1)
        count = torch.arange(1, steps + 1, device=x.device).clamp(max=size).to(x.dtype)
        count = count.unsqueeze(0).expand(batch, steps).reshape(-1, 1)
        window = torch.cat([values.flatten(1), flags.flatten(1), gaps, ages, count], dim=1)
        y = self._decoded(window, values, flags, gaps, count).reshape(batch, steps, self.outputs)
        valid = (torch.arange(steps, device=x.device) < lengths.unsqueeze(1)).unsqueeze(-1)
        y = torch.where(valid, y, torch.zeros_like(y))
        at = (lengths - 1).reshape(-1, 1, 1)
        windows = window.reshape(batch, steps, window.shape[1])
        last, state = (part.gather(1, at.expand(-1, 1, part.shape[2])).squeeze(1) for part in (y, windows))
        return y, last, [state]

    def _decoded(self, window: Tensor, values: Tensor, flags: Tensor, gaps: Tensor, count: Tensor) -> Tensor:
        nothing = torch.zeros_like(count)
        measured = self.measure(window, nothing)[0]
        place = torch.arange(self.window, device=window.device).to(window.dtype)
        first = self.window - count
        valid, gaps = place >= first, torch.where(place > first, gaps, torch.zeros_like(gaps))
        view = measured[:, : self.view].unsqueeze(1).expand(-1, self.window, -1)
        rows = torch.cat([values, flags, view], dim=-1).transpose(0, 1)
        _, y, _ = self.network.over_time(rows, gaps.T.unsqueeze(-1), valid.T.unsqueeze(-1), self.hidden)
        return self.decode(torch.cat([y, measured], dim=1), nothing)[0]
