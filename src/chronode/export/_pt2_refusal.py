"""Refuses the observations that chronode rejects, in a program of torch.export."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._window import Graph


class Refusing(nn.Module):
    """Whole series, whose outputs are NaN from a refused observation on: a value that is not finite or that has no
    logarithm, or a time that is negative or not finite.

    Args:
        sequence: Maps (x, observed, dt, lengths) to (y, last, state).
        graph: One step.
    """

    def __init__(self, sequence: nn.Module, graph: Graph):
        super().__init__()
        self.sequence, self.missing = sequence, graph.deployment.missing
        self.register_buffer("no_logarithm", torch.tensor(graph.deployment.no_logarithm, dtype=torch.float32))

    def forward(self, x: Tensor, observed: Tensor, dt: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
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
