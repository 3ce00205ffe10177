"""Features of a series for a linear model: summaries, all values, or how often patterns occur."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...settings import number, whole
from ._grid import Recent, clock, extended_back, nearest, on_grid, recent_readings, recent_values
from ._summaries import OVERALL, PER_CHANNEL, RunningSummaries, summaries

_TAPS = 9
_PATTERNS = torch.tensor([[2.0 if i in high else -1.0 for i in range(_TAPS)] for high in combinations(range(_TAPS), 3)])
_MOST_DILATIONS = 6
_QUANTILES = 9
# The fractional parts of its multiples are spread evenly.
_GOLDEN = 0.6180339887498949


class Features(nn.Module):
    """Base class of features; by default they learn nothing from the training series.

    Attributes:
        clip: Whether outliers among them are clipped.
        few: Whether there are so few that a logistic regression takes little time; ridge is as good for many correlated
            ones, and much faster.
        learns_from: Most series that `fit` needs.
    """

    clip = False
    few = False
    learns_from = 200

    def fit(self, x: Tensor, **times: Tensor | None) -> None:
        """Learns from these series."""


class Summaries(Features):
    """Summaries of each channel and of the times; for a target per step, they cover all steps so far.

    Args:
        channels: Number of channels.
        every_step: Whether to return the summaries at every step.
        newest: Whether only the last readings count, which do not depend on how long a series has lasted; the other
            summaries are unknown, so that their weights are 0.
    """

    kind = "summaries"
    clip = few = True

    def __init__(self, channels: int, *, every_step: bool = False, newest: bool = False):
        super().__init__()
        self.every_step, self.newest, self.running = every_step, newest, RunningSummaries(channels)
        self.size = len(PER_CHANNEL) * channels + len(OVERALL)

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns `(B, F)`, or `(B, T, F)`."""
        columns = summaries(x, **times, every_step=self.every_step)
        if not self.newest:
            return columns
        shown = [name == "last" for name in PER_CHANNEL for _ in range(x.shape[-1])] + [False] * len(OVERALL)
        return columns.masked_fill(~torch.tensor(shown, device=x.device), torch.nan)


class RankedSummaries(Features):
    """Ranks of summaries among those of the training series, their squares, and whether each is known.

    A rank r is between -0.5 (the lowest training series) and 0.5, linear between nine quantiles. A linear model of r
    and r^2 is not affected by outliers, and a risk can rise with high and with low values.
    """

    kind = "ranked summaries"
    clip = few = True
    learns_from = 1_000

    def __init__(self, channels: int):
        super().__init__()
        self.summaries = Summaries(channels)
        self.size = 3 * self.summaries.size
        self.register_buffer("quantiles", torch.zeros(_QUANTILES, self.summaries.size, dtype=torch.float64))

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns `(B, F)`."""
        columns = self.summaries(x, **times)
        ranks = self._ranks(columns).masked_fill(columns.isnan(), torch.nan)
        return torch.cat([ranks, ranks.square(), (~columns.isnan()).double()], dim=1)

    def fit(self, x: Tensor, **times: Tensor | None) -> None:
        """Takes the quantiles of these series."""
        columns = self.summaries(x, **times)
        shares = torch.linspace(0, 1, _QUANTILES, dtype=columns.dtype)
        self.get_buffer("quantiles").copy_(torch.nanquantile(columns, shares, dim=0).nan_to_num(nan=0.0))

    def _ranks(self, columns: Tensor) -> Tensor:
        """Each interval between two quantiles adds its share; one without width adds half of it to its own value."""
        quantiles = self.get_buffer("quantiles")
        low, width = quantiles[:-1, None], quantiles.diff(dim=0)[:, None]
        above = ((columns - low) / width.clamp(min=torch.finfo(columns.dtype).tiny)).clamp(0, 1)
        level = torch.where(width > 0, above, 0.5 * ((columns > low).double() + (columns >= low).double()))
        return level.mean(0) - 0.5


class Values(Features):
    """All values of series of equal length, step by step; on a regular grid if some are missing.

    With a season, its first cycle (1: the first value) is repeated before the start of shorter series.
    """

    kind = "values"

    def __init__(self, channels: int, steps: int, gap: float = 1.0, season: int = 0):
        super().__init__()
        self.channels, self.steps, self.gap, self.season = channels, steps, gap, season
        self.size = channels * steps

    def of_window(self, recent: Recent, *, regular: bool) -> tuple[Tensor, Tensor]:
        """Returns the features of the last steps, and whether each is known."""
        values, mask = recent_values(recent, self.steps, self.gap, regular=regular)
        if not self.season:
            return values, mask
        shape = (-1, self.steps, self.channels)
        values, mask = extended_back(values.reshape(shape), mask.reshape(shape), self.season)
        return values.flatten(1), mask.flatten(1)

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns `(B, F)`; the last `steps` of longer series, NaN before the start of shorter ones."""
        values = self.last_steps(x, **times)
        return self.extended(values).flatten(1)

    def last_steps(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns `(B, steps, channels)`, NaN before the start of shorter series."""
        values, lengths = on_grid(x, **times, gap=self.gap)
        return last_steps(values.double(), lengths, self.steps)

    def extended(self, values: Tensor) -> Tensor:
        """Returns windows `(B, steps, channels)` with the season repeated before their start."""
        return extended_back(values, ~values.isnan(), self.season)[0] if self.season else values


class Readings(Features):
    """The last readings of a series, step by step, with the gaps between them and without interpolation."""

    kind = "readings"

    def __init__(self, channels: int, steps: int, gap: float = 1.0):
        super().__init__()
        self.channels, self.steps, self.gap = channels, steps, gap
        self.size = (channels + 1) * steps

    def of_window(self, recent: Recent, *, regular: bool) -> tuple[Tensor, Tensor]:
        """Returns the features of the last steps, and whether each is known."""
        return recent_readings(recent, self.steps, self.gap)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, dt: Tensor | None = None, observed: Tensor | None = None
    ) -> Tensor:
        """Returns `(B, F)`; NaN where a value is missing and before the start."""
        lengths, _, _ = clock(x, lengths, dt)
        values = x.double() if observed is None else x.double().masked_fill(~observed, torch.nan)
        gaps = torch.ones_like(values[..., 0]) if dt is None else (dt.squeeze(-1) if dt.dim() == 3 else dt).double()
        rows = torch.cat([values, (gaps / self.gap).log1p()[..., None]], dim=-1)
        return last_steps(rows, lengths, self.steps).flatten(1)


class Positions(Features):
    """Readings by their time since the first step and by their time before the last one, without interpolation.

    Both times are rounded to multiples of `gap`; readings of a channel at the same place are averaged. A series that
    lost its first steps is still in place from its end.
    """

    kind = "positions"
    clip = few = True

    def __init__(self, channels: int, steps: int, gap: float = 1.0):
        super().__init__()
        self.channels, self.steps, self.gap = channels, steps, gap
        self.size = 2 * channels * steps

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, dt: Tensor | None = None, observed: Tensor | None = None
    ) -> Tensor:
        """Returns `(B, F)`; NaN where nothing was read."""
        _, valid, times = clock(x, lengths, dt, self.gap)
        is_observed = valid[..., None].expand_as(x) if observed is None else observed & valid[..., None]
        ages = times[:, -1:] - times
        return torch.cat([self._placed(x.double(), is_observed, time) for time in (times, ages)], dim=1)

    def _placed(self, x: Tensor, observed: Tensor, time: Tensor) -> Tensor:
        at = nearest(time).long()[..., None].expand_as(x).masked_fill(~observed, self.steps).clamp(max=self.steps)
        sums = x.new_zeros(len(x), self.steps + 1, self.channels)
        count = sums.scatter_add(1, at, torch.ones_like(x))[:, : self.steps]
        return (sums.scatter_add(1, at, x.masked_fill(~observed, 0.0))[:, : self.steps] / count).flatten(1)


class Patterns(Features):
    """Frequencies of short patterns: 84 fixed, dilated patterns of nine values, compared with learned levels.

    A pattern's response is a sum over nine values `dilation` steps apart, weighted by 2 (three of them) and -1; the
    feature is the share of steps where it exceeds a level. With several channels, each pattern uses the sum of some
    of them. The patterns are those of MiniRocket (Dempster et al. 2021).

    Args:
        channels: Number of channels.
        dilations: Steps between the values of a pattern.
        gap: Time between two steps.
        levels: Number of levels of each pattern.
    """

    kind = "patterns"

    def __init__(self, channels: int, dilations: tuple[int, ...], gap: float = 1.0, levels: int = 2):
        super().__init__()
        self.channels, self.dilations, self.gap = channels, tuple(dilations), gap
        self.size = len(self.dilations) * len(_PATTERNS) * levels
        self.register_buffer("mix", torch.ones(len(self.dilations), len(_PATTERNS), channels))
        self.register_buffer("levels", torch.zeros(len(self.dilations), len(_PATTERNS), levels))

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns the shares `(B, F)`."""
        values, lengths = self._regular(x, **times)
        padding = torch.arange(values.shape[2], device=x.device) >= lengths[:, None]
        shares = []
        for response, levels in zip(self._responses(values), self._buffer("levels"), strict=True):
            response.masked_fill_(padding[:, None], -torch.inf)
            above = response[:, :, None] > levels[..., None]
            # As bytes: the sum of a bool tensor converts every element to 64 bits first.
            shares.append(above.view(torch.uint8).sum(-1, dtype=torch.int32).flatten(1))
        return torch.cat(shares, dim=1).double() / lengths[:, None]

    def fit(self, x: Tensor, **times: Tensor | None) -> None:
        """Draws the channels of each pattern and takes its levels from the responses to these series."""
        rng = np.random.default_rng(0)
        if self.channels > 1:
            self._buffer("mix").copy_(torch.tensor(_draw_mix(rng, self.channels, len(self.dilations))))
        values, lengths = self._regular(x, **times)
        valid = torch.arange(values.shape[2]) < lengths[:, None]
        for index, response in enumerate(self._responses(values)):
            responses = response.transpose(1, 2)[valid]
            responses = responses[:: max(1, len(responses) // 20_000)].sort(dim=0).values
            levels = self._buffer("levels")[index]
            numbers = torch.arange(1, levels.numel() + 1).reshape(levels.shape)
            rows = ((numbers + index) * _GOLDEN % 1 * (len(responses) - 1)).round().long()
            levels.copy_(responses.gather(0, rows.T).T)

    def _regular(self, x: Tensor, **times: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns values `(B, D, G)` on a regular grid, and lengths."""
        values, lengths = on_grid(x, **times, gap=self.gap)
        return values.float().nan_to_num(nan=0.0).transpose(1, 2), lengths

    def _responses(self, values: Tensor) -> list[Tensor]:
        """Returns `(B, 84, G)` for each dilation; series are padded with zeros on both sides."""
        return [self._response(values, d, mix) for d, mix in zip(self.dilations, self._buffer("mix"), strict=True)]

    def _response(self, values: Tensor, dilation: int, mix: Tensor) -> Tensor:
        reach, steps = dilation * (_TAPS // 2), values.shape[2]
        padded = nn.functional.pad(values, (reach, reach))
        shifted = torch.stack([padded[..., i * dilation : i * dilation + steps] for i in range(_TAPS)], dim=1)
        patterns = _PATTERNS.to(values)
        if self.channels == 1:
            return torch.einsum("pi,bit->bpt", patterns, shifted[:, :, 0])
        mixed = torch.einsum("pd,bidt->bpit", mix, shifted)
        return torch.einsum("pi,bpit->bpt", patterns, mixed)

    def _buffer(self, name: str) -> Tensor:
        buffer = getattr(self, name)
        assert isinstance(buffer, Tensor)
        return buffer


class ChangePatterns(Patterns):
    """Frequencies of patterns in the changes from step to step."""

    kind = "patterns of changes"

    def _regular(self, x: Tensor, **times: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns changes `(B, D, G)` on a regular grid, and their number; a single step has one change, 0."""
        values, lengths = super()._regular(x, **times)
        if values.shape[2] < 2:
            return torch.zeros_like(values), lengths
        after = torch.arange(values.shape[2] - 1, device=x.device) >= lengths[:, None] - 1
        return values.diff(dim=2).masked_fill(after[:, None], 0.0), (lengths - 1).clamp(min=1)


def last_steps(values: Tensor, lengths: Tensor, steps: int) -> Tensor:
    """Returns the last steps `(B, steps, D)` of padded series `(B, T, D)`; NaN before the start of shorter ones."""
    at = lengths[:, None] - torch.arange(steps, 0, -1, device=values.device)
    index = at.clamp(min=0)[..., None].expand(*at.shape, values.shape[2])
    return values.gather(1, index).masked_fill((at < 0)[..., None], torch.nan)


def dilations_for(steps: int) -> tuple[int, ...]:
    """Returns powers of two at which a pattern fits into `steps` steps, spread over the range if there are many.

    Example:
        >>> dilations_for(24), dilations_for(250), dilations_for(5)
        ((1, 2), (1, 2, 4, 8, 16), (1,))
    """
    most = max(1, (steps - 1) // (_TAPS - 1))
    powers = [2**i for i in range(most.bit_length()) if 2**i <= most]
    if len(powers) <= _MOST_DILATIONS:
        return tuple(powers)
    return tuple(powers[i] for i in np.linspace(0, len(powers) - 1, _MOST_DILATIONS).round().astype(int))


def build_features(
    description: dict[str, Any],
) -> Summaries | RankedSummaries | Values | Readings | Positions | Patterns:
    """Builds features from their stored description: kind, channels and the sizes of that kind.

    Example:
        >>> build_features({"kind": "values", "channels": 2, "steps": 5}).size
        10
    """
    sizes = {name: value for name, value in description.items() if name != "kind"}
    if "gap" in sizes:
        sizes["gap"] = number("start.gap", sizes["gap"], above=0)
    for name in sizes.keys() & {"channels", "steps", "levels", "season"}:
        sizes[name] = whole(f"start.{name}", sizes[name], at_least=0 if name == "season" else 1)
    if "dilations" in sizes:
        sizes["dilations"] = tuple(whole("start.dilations", dilation, at_least=1) for dilation in sizes["dilations"])
    every = (Summaries, RankedSummaries, Values, Readings, Positions, Patterns, ChangePatterns)
    return {kind.kind: kind for kind in every}[description["kind"]](**sizes)


def _draw_mix(rng: np.random.Generator, channels: int, dilations: int) -> np.ndarray:
    """Draws the channels of each pattern; small numbers of channels are more likely."""
    mix = np.zeros((dilations, len(_PATTERNS), channels), dtype=np.float32)
    most = np.log2(min(channels, _TAPS) + 1)
    for row in mix.reshape(-1, channels):
        count = min(channels, int(2 ** rng.uniform(0, most)))
        row[rng.choice(channels, count, replace=False)] = 1
    return mix
