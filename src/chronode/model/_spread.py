"""Prediction of the error of a window from its values: the scale of a quantile head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data import Batch
from ._relative import View

BUFFERS = ("weight", "mean", "low", "high")
_PENALTY = 0.01
_KEPT = 0.7  # share of the weight of a move that the one before it has
# Power of the scale of a window that is left in the unit of errors of a short series; it has the lowest mean interval
# score (90%) on the ends of the training parts of 176 series of M3. benchmarks/intervals.md has series that did not
# choose it.
_KEPT_SCALE = 2 / 3
_NO_LIMIT = 1e30
_MOST = 3.0
"""No window counts as more than exp(3) = 20 times as uncertain as another."""


class Spread(nn.Module):
    """Size of the errors of a window relative to the usual ones, `exp(weight^T (traits - mean))`.

    The quantiles of a forecast are its value plus or minus a margin times this factor. The weights are those of a ridge
    regression of log sizes of errors on traits of a window, one for all steps ahead; traits beyond those of the windows
    that were learned from count as the nearest of these. Without `fit` the factor is 1.

    Args:
        channels: Number of channels that are forecast.

    Example:
        >>> spread = Spread(1)
        >>> traits = torch.tensor([[[float(i % 2), 0.0, 0.0]] for i in range(200)])
        >>> spread.fit(traits, 1.0 + 9.0 * traits[:, :, 0])
        >>> small, large = spread(traits[:2], 1).flatten().tolist()
        >>> 8 < large / small < 10
        True
    """

    traits = 3

    def __init__(self, channels: int):
        super().__init__()
        self.channels = channels
        for name in BUFFERS:
            self.register_buffer(name, torch.zeros(channels, self.traits, dtype=torch.float64))

    def fit(self, traits: Tensor, sizes: Tensor) -> None:
        """Learns from traits `(n, channels, 3)` and sizes of errors `(n, steps * channels)`, NaN where unknown."""
        buffers = [self.get_buffer(name) for name in BUFFERS]
        for channel, (weight, *range_of) in enumerate(zip(*buffers, strict=True)):
            inputs, size = traits[:, channel].double(), sizes[:, channel :: self.channels].double()
            for buffer, value in zip(range_of, (inputs.mean(0), inputs.amin(0), inputs.amax(0)), strict=True):
                buffer.copy_(value)
            typical = size.nanmedian().clamp(min=1e-12)
            logs = (size + 0.02 * typical).log()  # a forecast that is exact by chance says little
            goal = (logs - logs.nanmean(0)).nanmean(1)
            has_goal = ~goal.isnan()
            moved, std = inputs[has_goal] - inputs.mean(0), inputs[has_goal].std(0).clamp(min=1e-9)
            moved = moved / std
            squares = moved.T @ moved + _PENALTY * len(moved) * torch.eye(self.traits, dtype=torch.float64)
            weight.copy_(torch.linalg.solve(squares, moved.T @ goal[has_goal]) / std)

    def shrink(self, traits: Tensor, sizes: Tensor) -> None:
        """Shrinks the unit of errors from the scale of a window towards the usual one of these windows."""
        weight, mean, low, high = (self.get_buffer(name) for name in BUFFERS)
        weight.zero_()[:, 0] = _KEPT_SCALE - 1
        mean.copy_(traits.double().mean(0))
        low.fill_(-_NO_LIMIT)
        high.fill_(_NO_LIMIT)

    def forward(self, traits: Tensor, outputs: int) -> Tensor:
        """Returns the factors `(n, outputs)` of windows with these traits."""
        weight, mean, low, high = (self.get_buffer(name).to(traits.device) for name in BUFFERS)
        inside = torch.minimum(torch.maximum(traits.double(), low), high)
        logs = ((inside - mean) * weight).sum(-1).clamp(-_MOST, _MOST)
        return logs.exp().repeat(1, outputs // self.channels)


def traits_of(view: View, channels: list[int], batch: Batch) -> Tensor:
    """Returns what the errors of windows may depend on, `(B, C, 3)`: log scale, level, and log size of the last moves.

    Args:
        view: The windows, relative to their own level and scale.
        channels: The channels that are forecast.
        batch: The windows.
    """
    moves = view.x[..., channels].diff(dim=1).abs()
    age = batch.lengths[:, None] - 2 - torch.arange(moves.shape[1])  # in steps; negative in the padding
    weight = torch.where(age >= 0, _KEPT ** age.clamp(min=0), 0.0)[..., None].expand_as(moves)
    if batch.observed is not None:
        is_observed = batch.observed[..., channels]
        weight = weight * (is_observed[:, 1:] & is_observed[:, :-1])
    recent = (moves * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
    return torch.stack([view.scale.log(), view.level, (recent + 1e-3).log()], dim=-1).double()
