"""Clipping and logarithms, applied before scaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named, one_of
from ._names import known_column
from ._sequences import Sequences
from ._settings import CLIP, GAPS

if TYPE_CHECKING:
    from torch import Tensor

ALL, NONE = "all", "none"
_TAILS = (0.005, 0.995)
_IMPOSSIBLE = 20.0
"""A value this many ranges beyond the range of nearly all others is an error of measurement."""
_LARGEST_LOG = 80.0  # float32 cannot represent the exponential of more


@dataclass(frozen=True)
class Shape:
    """Clipping of a channel and then its logarithm, applied before scaling.

    Attributes:
        low: Smallest value; None for no bound.
        high: Largest value; None for no bound.
        offset: Number that is added before taking the logarithm; None: no logarithm.

    Example:
        >>> shape = Shape(high=100.0, offset=1.0)
        >>> shape.apply(np.array([0.0, 1e9])).round(3).tolist()
        [0.0, 4.615]
        >>> shape.invert(shape.apply(np.array([0.0, 50.0]))).round(6).tolist()
        [0.0, 50.0]
    """

    low: float | None = None
    high: float | None = None
    offset: float | None = None

    def __post_init__(self) -> None:
        given = [number for number in (self.low, self.high, self.offset) if number is not None]
        if not all(map(math.isfinite, given)) or (self.offset is not None and self.offset < 0):
            raise ValueError("low, high and offset must be finite, and offset must not be negative.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low={self.low} is greater than high={self.high}.")

    def clip(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns the values within the bounds; NaN stays NaN."""
        return values if self.low is None and self.high is None else np.clip(values, self.low, self.high)

    def apply(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Returns values as they are scaled; values without a logarithm become -inf or NaN."""
        values = self.clip(np.asarray(values, dtype=np.float64))
        if self.offset is None:
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(values + self.offset)

    def invert(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns values in their own units; a logarithm of values + 1 never gives negative ones."""
        if self.offset is None:
            return values
        return np.maximum(np.exp(np.minimum(values, _LARGEST_LOG)) - self.offset, 0)


def logarithms(values: Tensor, shapes: Sequence[Shape]) -> Tensor:
    """Returns tensors `(..., D)` with the logarithms that `Shape.apply` takes of arrays, column by column."""
    # A missing value may be any number, which is not read.
    return _where_logarithmic(values, shapes, lambda offsets: (values + offsets).clamp(min=1e-30).log())


def invert_columns(values: Tensor, shapes: Sequence[Shape]) -> Tensor:
    """Returns tensors `(..., K)` in their own units, as `Shape.invert` does with arrays, column by column."""
    return _where_logarithmic(
        values, shapes, lambda offsets: (values.clamp(max=_LARGEST_LOG).exp() - offsets).clamp(min=0)
    )


def _where_logarithmic(values: Tensor, shapes: Sequence[Shape], changed: Callable[[Tensor], Tensor]) -> Tensor:
    if all(shape.offset is None for shape in shapes):
        return values
    import torch

    logs = torch.tensor([shape.offset is not None for shape in shapes], device=values.device)
    return torch.where(logs, changed(values.new_tensor([shape.offset or 0.0 for shape in shapes])), values)


def bounds(column: NDArray[Any]) -> tuple[float, float] | None:
    """Returns the 0.5% and 99.5% quantiles of values; None if they are equal, or if there are no values.

    Example:
        >>> bounds(np.array([*range(200), 1e9])), bounds(np.zeros(3))
        ((1.0, 199.0), None)
    """
    observed = column[~np.isnan(column)].astype(np.float64)
    if not len(observed):
        return None
    # The values next to the quantiles, towards the middle: a single outlier must not move them.
    low = float(np.quantile(observed, _TAILS[0], method="higher"))
    high = float(np.quantile(observed, _TAILS[1], method="lower"))
    return (low, high) if low < high else None


def _is_impossible(column: NDArray[Any]) -> bool:
    """Returns whether there are values far beyond the range of nearly all others."""
    limits = bounds(column)
    if limits is None:
        return False
    low, high = limits
    beyond = max(low - float(np.nanmin(column)), float(np.nanmax(column)) - high)
    return beyond > _IMPOSSIBLE * (high - low)


def shaping(
    train: Sequences,
    channels: Collection[str] | None = None,
    *,
    log: Iterable[str] = (),
    clip_values: str = "auto",
    gaps: str = "keep",
) -> dict[str, Any]:
    """Returns the options of `Scaler.fit` for what a user asked for.

    Args:
        train: The training part, which decides which values have a logarithm and which are impossible.
        channels: Channels to which it may apply; None: all.
        log: Channels that are used as logarithms, "all" or "none".
        clip_values: "auto", "on" or "off".
        gaps: "keep", "cap" or "log".

    Example:
        >>> from chronode.data import from_list
        >>> shaping(from_list([[0.0, 3.0]], channels=["units"]), log=["units"])["log"]
        {'units': 1.0}
    """
    one_of("clip_values", clip_values, CLIP)
    one_of("gaps", gaps, GAPS)
    if gaps != "keep" and train.base_times is None:
        raise SettingError(
            f"{named('gaps', gaps)} needs times: pass the column of times, {named('time', ...)}, or omit gaps.",
            argument="gaps",
        )
    s = train.sample.compact()
    candidates = s.channels if channels is None else [name for name in s.channels if name in channels]
    numeric = [name for name in candidates if s.base_values.dtype.kind == "f" and not is_coded(s, name)]
    names = [log] if isinstance(log, str) else list(log)
    special = {ALL: numeric, NONE: []}
    if len(names) == 1 and names[0] in special and names[0] not in candidates:
        names = special[names[0]]
    clipped = numeric if clip_values == "on" else []
    if clip_values == "auto":
        clipped = [name for name in numeric if _is_impossible(s.base_values[:, s.channels.index(name)])]
    return {"log": {name: _offset(s, name, candidates) for name in names}, "clip": clipped, "gaps": gaps}


def is_coded(s: Sequences, channel: str) -> bool:
    """Returns whether a channel comes from text: codes or 0/1."""
    return any(channel == name or channel.startswith(f"{name}=") for name in s.categories)


def without_logarithm(s: Sequences, channel: str, offset: float) -> str | None:
    """Returns which value of a channel has no logarithm, and in which series; None if all have one."""
    column = s.values[:, s.channels.index(channel)]
    wrong = np.flatnonzero(column + offset <= 0)
    if not len(wrong):
        return None
    series = int(np.searchsorted(np.cumsum(s.lengths), wrong[0], side="right"))
    return f"channel {channel!r} has the value {column[wrong[0]]:g} in series {s.ids[series]!s}"


def _offset(s: Sequences, channel: str, channels: Sequence[str]) -> float:
    """Returns what to add before taking a logarithm: 1 if zeros occur, otherwise 0."""
    known_column(channel, channels, "log")
    if s.base_values.dtype.kind != "f" or is_coded(s, channel):
        raise SettingError(
            f"{named('log', channel)}: this channel is text, which has no logarithm; omit it.", argument="log"
        )
    if where := without_logarithm(s, channel, np.nextafter(0.0, 1.0)):
        raise SettingError(
            f"{named('log', channel)}: {where}. Negative values have no logarithm: leave the channel out of log.",
            argument="log",
        )
    columns = [s.base_values[:, s.channels.index(channel)]]
    if s.target is not None and s.target.classes is None:  # the values that follow the last window
        ahead = [index for index, name in enumerate(s.target.names) if name.rpartition("+")[0] == channel]
        columns += [s.target.values[:, index] for index in ahead]
    return 1.0 if any((column == 0).any() for column in columns) else 0.0


def notes_on_shapes(channels: Iterable[str], shapes: Iterable[Shape]) -> tuple[str, ...]:
    """Returns what was decided about the values."""
    pairs = list(zip(channels, shapes, strict=True))
    clipped = [f"{name} to {shape.low:.4g} to {shape.high:.4g}" for name, shape in pairs if shape.low is not None]
    plus_one = [name for name, shape in pairs if shape.offset]
    notes = []
    if clipped:
        some = "; ".join(clipped[:5]) + ("; ..." if len(clipped) > 5 else "")
        notes.append(
            "values are clipped to the 0.5 to 99.5% range of the training part "
            f"({some}); {named('clip_values', 'off')} keeps them all."
        )
    if plus_one:
        some = ", ".join(plus_one[:5]) + (", ..." if len(plus_one) > 5 else "")
        notes.append(f"the logarithm of 1 + value is used because zeros occur: {some}.")
    return tuple(notes)


def shapes_of(
    columns: Mapping[str, NDArray[Any]], log: Mapping[str, float], clip: Collection[str]
) -> tuple[Shape, ...]:
    """Returns the shapes of channels, by their values in the training part; empty if nothing happens to any."""
    shapes = []
    for name, column in columns.items():
        low, high = (bounds(column) if name in clip else None) or (None, None)
        shapes.append(Shape(low, high, log.get(name)))
    return tuple(shapes) if any(shape != Shape() for shape in shapes) else ()
