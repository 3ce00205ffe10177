"""Margins of forecasts by confidence level, from residuals of windows that were not used for fitting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor, nn

LEVELS = tuple(percent / 100 for percent in range(1, 100))
"""Confidence levels of the stored margins, from 0.01 to 0.99."""


class Margins(nn.Module):
    """Half-widths of the prediction intervals of every output, in units of a window's own scale.

    They are quantiles of absolute residuals with the correction of split conformal prediction: with `n` residuals, the
    interval of level `p` reaches to the `ceil((n + 1) p)`-th smallest one.

    Args:
        outputs: Number of outputs: steps ahead times channels.

    Example:
        >>> margins = Margins(1)
        >>> margins.fit(torch.arange(1.0, 100.0)[:, None])
        >>> margins.at([80, 95]).tolist()
        [[80.0], [95.0]]
    """

    def __init__(self, outputs: int):
        super().__init__()
        self.register_buffer("table", torch.full((len(LEVELS), outputs), torch.nan, dtype=torch.float64))
        self.register_load_state_dict_pre_hook(_allow_none)

    @property
    def known(self) -> bool:
        """Whether the margins have been fitted."""
        return not bool(self.get_buffer("table").isnan().all())

    def fit(self, residuals: Tensor) -> None:
        """Computes the margins from residuals `(n, outputs)`, NaN where unknown."""
        table = torch.stack([_quantiles(column[~column.isnan()]) for column in residuals.abs().double().T], dim=1)
        self.get_buffer("table").copy_(table)

    def at(self, levels: Sequence[float]) -> Tensor:
        """Returns margins `(levels, outputs)` of levels from 1 to 99 percent; fractions are interpolated linearly."""
        table, found = self.get_buffer("table"), []
        for level in levels:
            place = min(max(level - 1, 0), len(LEVELS) - 1)
            low = min(int(place), len(LEVELS) - 2)
            found.append(torch.lerp(table[low], table[low + 1], place - low))
        return torch.stack(found)


def _allow_none(module: nn.Module, tensors: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Accepts models of earlier versions, which have no margins."""
    tensors.setdefault(f"{prefix}table", torch.full_like(module.get_buffer("table"), torch.nan))


def _quantiles(residuals: Tensor) -> Tensor:
    """Returns the margins of all levels from `(n,)` residuals; beyond the largest, as for normal errors."""
    count = len(residuals)
    if not count:
        return torch.full((len(LEVELS),), torch.nan, dtype=torch.float64)
    ordered, found = residuals.sort().values, []
    for level in LEVELS:
        rank = math.ceil((count + 1) * level - 1e-9)
        if rank <= count:
            found.append(float(ordered[rank - 1]))
        else:
            reached = NormalDist().inv_cdf((1 + count / (count + 1)) / 2)
            found.append(float(ordered[-1]) * NormalDist().inv_cdf((1 + level) / 2) / reached)
    return torch.tensor(found, dtype=torch.float64)
