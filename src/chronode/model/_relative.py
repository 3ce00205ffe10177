"""Values relative to a window's own level and scale, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..data import Sequences

_PENALTY = 1e-3
_FLOOR = 0.25
_MOST_SERIES = 1_000


class View(NamedTuple):
    """Windows relative to their own level and scale: `x (B, T, D)`, `level (B, C)` and `scale (B, C)`; `shift
    (B, horizon * C)` is the effect of known inputs on what follows, None if there are none.
    """

    x: Tensor
    level: Tensor
    scale: Tensor
    shift: Tensor | None = None


class Relative(nn.Module):
    """Transforms channels to `(x - level) / scale`, where the level is a window's last value and the scale its spread.

    Trends, drifting levels and series of different scales then look alike to the model. The linear effect of inputs
    that are known over the horizon is subtracted before, and added to the forecast.

    Args:
        channels: The channels to forecast, by number.
        known: The channels whose values are known over the horizon.
        horizon: Number of steps ahead, with `known`: the last `horizon * K` static values are those of these channels,
            step by step.

    Attributes:
        effects: `(K, C)` what a known input adds to each channel, set by `fit_effects`; only with `known`.
        kept: `(K,)` which known inputs the model sees, set by `keep`; only with `known`.
        floor: `(C,)` the smallest scale, set by `fit_floor`: nearly constant windows would make errors look huge.

    Example:
        >>> relative = Relative([0])
        >>> view = relative.view(torch.tensor([[[10.0], [12.0], [14.0]]]))
        >>> [round(value, 2) for value in view.x.flatten().tolist()]
        [-2.45, -1.22, 0.0]
        >>> relative.back(torch.tensor([[0.0, 1.0]]), view).round().tolist()
        [[14.0, 16.0]]
    """

    def __init__(self, channels: Sequence[int], known: Sequence[int] = (), horizon: int = 0):
        super().__init__()
        self.channels, self.known, self.horizon = list(channels), list(known), horizon
        if self.known:
            self.register_buffer("effects", torch.zeros(len(self.known), len(self.channels), dtype=torch.float64))
            self.register_buffer("kept", torch.ones(len(self.known), dtype=torch.bool))
            self.register_load_state_dict_pre_hook(_keep_all)
        self.register_buffer("floor", torch.full((len(self.channels),), 1e-6))

    def view(
        self, x: Tensor, lengths: Tensor | None = None, observed: Tensor | None = None, static: Tensor | None = None
    ) -> View:
        """Returns windows `x (B, T, D)` relative to their own level; channels that are not forecast do not change."""
        shift = None
        if self.known:
            x, effects = self._hidden(x, self.known), self.get_buffer("effects").to(x)
            x = x.index_add(2, torch.tensor(self.channels, device=x.device), -(x[..., self.known] @ effects))
            shift = None if static is None else (self._ahead(static).to(x) @ effects).flatten(1)
        valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        if lengths is not None:
            valid = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
        is_observed = valid[..., None].expand_as(x) if observed is None else observed & valid[..., None]
        level, scale = self.measure(x, is_observed)
        return View(self.seen_from(x, is_observed, level, scale), level, scale, shift)

    def keep(self, channels: Collection[int]) -> None:
        """Chooses the known inputs that the model sees, by the numbers of their channels; the others become 0."""
        self.get_buffer("kept").copy_(torch.tensor([channel in channels for channel in self.known]))

    def shown(self, **times: Tensor | None) -> dict[str, Tensor | None]:
        """Returns the other inputs of a model without what belongs to known inputs that it does not see."""
        static, observed = times.get("static"), times.get("observed")
        if self.known and static is not None:
            ahead = range(static.shape[1] - self.horizon * len(self.known), static.shape[1])
            times["static"] = self._hidden(static, ahead)
        if self.known and observed is not None:
            times["observed"] = ~self._hidden(~observed, self.known)
        return times

    def _hidden(self, values: Tensor, columns: Sequence[int]) -> Tensor:
        """Returns values `(..., P)` with 0 at those places, one for each known input again and again, not kept."""
        kept = self.get_buffer("kept").to(values.device)
        if bool(kept.all()):
            return values
        gone = [column for number, column in enumerate(columns) if not kept[number % len(kept)]]
        return values.index_fill(-1, torch.tensor(gone, device=values.device), 0)

    def _ahead(self, static: Tensor) -> Tensor:
        """Returns the known inputs `(B, horizon, K)` among static values; unknown ones count as their mean."""
        return static[:, -self.horizon * len(self.known) :].reshape(len(static), self.horizon, -1).nan_to_num()

    # These three also run step by step, in exported models: their operations are those that the compiler has rules for.

    def measure(self, x: Tensor, is_observed: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the level and the scale `(B, C)` of windows `x (B, T, D)`, of which some values were seen."""
        nothing = torch.zeros_like(x)
        step = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[None, :, None]
        last = torch.where(is_observed, step, nothing - 1).amax(1, keepdim=True)
        level = torch.where(is_observed & (step == last), x, nothing).sum(1)
        count = torch.where(is_observed, nothing + 1, nothing).sum(1).clamp(min=1)
        moves = torch.where(is_observed, x - level[:, None], nothing)
        mean = moves.sum(1) / count
        spread = (moves.square().sum(1) / count - mean.square()).clamp(min=0).sqrt()
        level, spread = (torch.cat([v[:, c : c + 1] for c in self.channels], dim=1) for v in (level, spread))
        return level, torch.maximum(spread, self.get_buffer("floor").to(spread))

    def seen_from(self, x: Tensor, is_observed: Tensor, level: Tensor, scale: Tensor) -> Tensor:
        """Returns `x (B, T, D)` relative to a level and a scale, 0 where nothing was seen."""
        columns = [self.channels.index(c) if c in self.channels else None for c in range(x.shape[2])]
        levels, scales = (
            torch.cat([other if c is None else v[:, c : c + 1] for c in columns], dim=1)[:, None]
            for v, other in ((level, torch.zeros_like(level[:, :1])), (scale, torch.ones_like(scale[:, :1])))
        )
        return torch.where(is_observed, (x - levels) / scales, torch.zeros_like(x))

    def at(self, output: Tensor, level: Tensor, scale: Tensor) -> Tensor:
        """Returns outputs `(B, horizon * C)`, step by step, at a level and a scale `(B, C)`."""
        steps = output.reshape(len(output), -1, len(self.channels))
        return (steps * scale[:, None] + level[:, None]).reshape(output.shape)

    def back(self, output: Tensor, view: View) -> Tensor:
        """Converts outputs `(B, horizon * C)`, step by step, to the units of x."""
        values = self.at(output, view.level.to(output), view.scale.to(output))
        return values if view.shift is None else values + view.shift.to(output)

    def there(self, target: Tensor, view: View) -> Tensor:
        """Converts targets `(B, horizon * C)` from the units of x to those of the model: the inverse of `back`."""
        ahead = target.shape[-1] // len(self.channels)
        target = target if view.shift is None else target - view.shift.to(target)
        return (target - view.level.to(target).repeat(1, ahead)) / view.scale.to(target).repeat(1, ahead)

    def fit_floor(self, windows: Sequences) -> None:
        """Sets the smallest scale from these windows.

        It is a third of the 10% quantile of all scales, but at least 5% of the median, and at least a quarter
        of the usual scale of a series, its median (of many series, of those with a small one).
        """
        rows = _some(windows)
        batch = windows.batch(rows)
        scale = self.view(batch.x, batch.lengths, batch.observed).scale.double()
        tenth, median = _quantiles(scale, 0.1, 0.5)
        series = torch.tensor(np.unique(windows.groups[rows], return_inverse=True)[1])
        each = [scale[series == one] for one in series.unique().tolist()[:_MOST_SERIES]]
        usual = torch.cat([_quantiles(scales, 0.5) for scales in each])
        small = _quantiles(usual, 0.1)[0] * _FLOOR
        self.get_buffer("floor").copy_(torch.stack([tenth / 3, median / 20, small]).amax(0).clamp(min=1e-6))

    def fit_effects(self, windows: Sequences) -> None:
        """Sets the effects of known inputs, by ridge regression of how far values move on how far these inputs move.

        Both are differences from the last step of a window, and their means at each step ahead are subtracted, so that
        trends and seasons are not ascribed to the known inputs.
        """
        if not self.known:
            return
        batch = windows.batch(_some(windows))
        assert batch.target is not None and batch.static is not None
        self.get_buffer("effects").zero_()
        kept = self.get_buffer("kept")
        if not kept.any():
            return
        view = self.view(batch.x, batch.lengths, batch.observed)
        last = batch.x[torch.arange(len(batch.x)), batch.lengths - 1][:, self.known].double()
        moved = self._ahead(batch.static).double() - last[:, None]
        target = batch.target.double().reshape(len(moved), self.horizon, -1) - view.level.double()[:, None]
        moved = (moved - moved.mean(0)).flatten(0, 1)[:, kept]
        target = (target - target.nanmean(0)).flatten(0, 1)
        for channel in range(target.shape[1]):
            rows = ~target[:, channel].isnan()
            inputs = moved[rows]
            squares = inputs.T @ inputs
            squares += _PENALTY * squares.diagonal().mean().clamp(min=1e-12) * torch.eye(len(squares)).to(squares)
            self.get_buffer("effects")[kept, channel] = torch.linalg.solve(squares, inputs.T @ target[rows, channel])


def _keep_all(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Adds what models of earlier versions, which see all known inputs, do not have."""
    state.setdefault(f"{prefix}kept", torch.ones_like(module.get_buffer("kept")))


def _some(windows: Sequences) -> slice:
    """Returns at most about 5,000 windows, evenly spaced."""
    return slice(0, None, max(1, len(windows) // 5_000))


def _quantiles(values: Tensor, *levels: float) -> Tensor:
    """Returns quantiles `(levels, C)` of values `(N, C)`."""
    return torch.quantile(values, values.new_tensor(levels), dim=0)
