"""Values relative to a window's own level and scale, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class View(NamedTuple):
    """Windows relative to their own level and scale: `x (B, T, D)`, `level (B, C)` and `scale (B, C)`."""

    x: Tensor
    level: Tensor
    scale: Tensor


class Relative(nn.Module):
    """Transforms channels to `(x - level) / scale`, where the level is a window's last value and the scale its spread.

    Trends, drifting levels and series of different scales then look alike to the model.

    Args:
        channels: The channels to forecast, by number.

    Attributes:
        floor: `(C,)` the smallest scale, set by `fit`: nearly constant windows would make errors look huge.

    Example:
        >>> relative = Relative([0])
        >>> view = relative.view(torch.tensor([[[10.0], [12.0], [14.0]]]))
        >>> [round(value, 2) for value in view.x.flatten().tolist()]
        [-2.45, -1.22, 0.0]
        >>> relative.back(torch.tensor([[0.0, 1.0]]), view).round().tolist()
        [[14.0, 16.0]]
    """

    def __init__(self, channels: Sequence[int]):
        super().__init__()
        self.channels = list(channels)
        self.register_buffer("floor", torch.full((len(self.channels),), 1e-6))

    def view(self, x: Tensor, lengths: Tensor | None = None, observed: Tensor | None = None) -> View:
        """Returns windows `x (B, T, D)` relative to their own level; channels that are not forecast do not change."""
        valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        if lengths is not None:
            valid = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
        own = x[..., self.channels]
        seen = valid[..., None].expand_as(own)
        if observed is not None:
            seen = seen & observed[..., self.channels]
        place = torch.arange(x.shape[1], device=x.device)[None, :, None].expand_as(own)
        last = place.masked_fill(~seen, 0).amax(1, keepdim=True)
        count = seen.sum(1).clamp(min=1)
        level = torch.where(seen.any(1), own.gather(1, last)[:, 0], torch.zeros_like(own[:, 0]))
        moves = torch.where(seen, own - level[:, None], torch.zeros_like(own))
        mean = moves.sum(1) / count
        spread = (moves.square().sum(1) / count - mean.square()).clamp(min=0).sqrt()
        scale = torch.maximum(spread, self.get_buffer("floor").to(spread))
        x = x.clone()
        x[..., self.channels] = moves / scale[:, None]
        return View(x, level, scale)

    def back(self, output: Tensor, view: View) -> Tensor:
        """Converts outputs `(B, horizon * C)`, step by step, to the units of x."""
        ahead = output.shape[-1] // len(self.channels)
        return output * view.scale.to(output).repeat(1, ahead) + view.level.to(output).repeat(1, ahead)

    def there(self, target: Tensor, view: View) -> Tensor:
        """Converts targets `(B, horizon * C)` from the units of x to those of the model: the inverse of `back`."""
        ahead = target.shape[-1] // len(self.channels)
        return (target - view.level.to(target).repeat(1, ahead)) / view.scale.to(target).repeat(1, ahead)

    def fit(self, x: Tensor, lengths: Tensor | None = None, observed: Tensor | None = None) -> None:
        """Sets the smallest scale from these windows: a third of the 10% quantile."""
        scale = self.view(x, lengths, observed).scale
        tenth = torch.quantile(scale[:: max(1, len(scale) // 10_000)].double(), 0.1, dim=0)
        self.get_buffer("floor").copy_((tenth / 3).clamp(min=1e-6))
