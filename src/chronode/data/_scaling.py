"""Transforms of values and gaps that are fitted on the training part and stored with the model."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..storage import parse, read_json, replacing
from ._future import future_place
from ._gaps import Gaps
from ._names import known_column, listed
from ._sequences import Sequences
from ._shaping import Shape, invert_columns, is_coded, notes_on_shapes, shapes_of, without_logarithm
from ._stored_rows import StoredRows
from ._target import Target

_RARE = ("static", "static_mean", "static_std", "shapes", "target_shapes", "gaps")
"""Attributes that are only stored if they have a value."""

_NO_LOG = (
    "which has no logarithm; there was no such value in the training part. Leave it empty if it is an error, or train "
    "without log for this channel."
)
_ROWS_AT_A_TIME = 65_536

Numbers = TypeVar("Numbers", NDArray[Any], torch.Tensor)


@dataclass(frozen=True)
class Scaler:
    """Scaler: `(x - mean) / std` per channel, the same for number targets, and times divided by a median gap.

    A constant channel has std 1, a channel without values mean 0. Missing values stay missing. Before that, values may
    be clipped, or replaced by their logarithms; mean and std are those of the result.

    Attributes:
        channels: Names of the channels, checked at every use.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        targets: Names of the number targets that are scaled; empty if none.
        target_mean: Mean of each target.
        target_std: Standard deviation of each target.
        dt: Divisor of times.
        static: Names of the static values.
        static_mean: Mean of each static value over the series.
        static_std: Standard deviation of each static value.
        shapes: Clipping and logarithm of each channel before scaling; empty for none.
        target_shapes: The same for the targets.
        gaps: Rule that shortens long gaps, in the unit of the data; None to leave them.

    Example:
        >>> from chronode.data import from_list
        >>> train, test = from_list([[1.0, 3.0]]), from_list([[5.0]])
        >>> scaler = Scaler.fit(train)
        >>> scaler.transform(train).values[:, 0].tolist(), scaler.transform(test).values[:, 0].tolist()
        ([-1.0, 1.0], [3.0])
        >>> Scaler.from_dict(scaler.as_dict()) == scaler
        True
    """

    channels: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    targets: tuple[str, ...] = ()
    target_mean: tuple[float, ...] = ()
    target_std: tuple[float, ...] = ()
    dt: float = 1.0
    static: tuple[str, ...] = ()
    static_mean: tuple[float, ...] = ()
    static_std: tuple[float, ...] = ()
    shapes: tuple[Shape, ...] = ()
    target_shapes: tuple[Shape, ...] = ()
    gaps: Gaps | None = None

    def __post_init__(self) -> None:
        sizes = [len(self.channels), len(self.mean), len(self.std)]
        goals = [len(self.targets), len(self.target_mean), len(self.target_std)]
        fixed = [len(self.static), len(self.static_mean), len(self.static_std)]
        if any(len(set(counts)) > 1 for counts in (sizes, goals, fixed)):
            raise ValueError(f"the lists of a scaler must have equal lengths, got {sizes}, {goals} and {fixed}.")
        if len(self.shapes) not in (0, sizes[0]) or len(self.target_shapes) not in (0, goals[0]):
            raise ValueError(f"shapes must have {sizes[0]} entries and target_shapes {goals[0]}, or none.")
        if not all(map(math.isfinite, (*self.mean, *self.target_mean, *self.static_mean))):
            raise ValueError("mean, target_mean and static_mean must be finite.")
        if not all(
            math.isfinite(size) and size > 0 for size in (*self.std, *self.target_std, *self.static_std, self.dt)
        ):
            raise ValueError("std, target_std, static_std and dt must be finite and greater than 0.")

    @classmethod
    def fit(
        cls,
        train: Sequences,
        *,
        target: bool = True,
        dt: bool = False,
        skip: Iterable[str] = (),
        log: Mapping[str, float] | None = None,
        clip: Collection[str] = (),
        gaps: str = "keep",
    ) -> Scaler:
        """Computes the statistics of the training part; every observation counts once, even in overlapping windows.

        Args:
            train: The training part only.
            target: Whether to scale number targets too.
            dt: Whether to divide times by the median gap.
            skip: Channels to leave unscaled (0/1 channels of categories always are).
            log: Channels of which to take the logarithm, and what is added to their values before.
            clip: Channels to clip to their 0.5% and 99.5% quantiles.
            gaps: Long gaps: "keep", "cap" (at most 50 times the median) or "log" (logarithmic).
        """
        if not len(train):
            raise ValueError("the training part is empty: a scaler cannot be fitted.")
        used = train.sample.compact()
        symbols = used.base_values.dtype.kind != "f"
        coded = {name for name in train.channels if symbols or is_coded(train, name)}
        left = {known_column(name, train.channels, "skip") for name in skip} | coded
        columns = dict(zip(train.channels, used.base_values.T, strict=True))
        shapes = shapes_of(columns, log or {}, clip)
        if shapes:
            columns = {name: shape.apply(columns[name]) for name, shape in zip(columns, shapes, strict=True)}
        if len(used) < len(train):  # quantiles and gaps are those of a sample; means are not
            moments = _moments_of_all(train, shapes)
            fits = [(0.0, 1.0) if name in left else pair for name, pair in zip(columns, moments, strict=True)]
        else:
            fits = [(0.0, 1.0) if name in left else _moments(column) for name, column in columns.items()]
        goal = used.target if used.target is None or used.target.per_step else train.target
        goal = goal if target and goal is not None and goal.classes is None else None
        goals = [] if goal is None else [_moments(column) for column in goal.values.T]
        for index, names in enumerate(() if goal is None else goal.levels):
            goals[index] = goals[index] if names is None else (0.0, 1.0)
        fixed = [] if train.static is None else [_moments(column) for column in train.static.T]
        for index, name in enumerate(train.static_names):  # known values of the future are scaled like their channel
            channel, _ = future_place(name, train.channels)
            fixed[index] = fixed[index] if channel is None else fits[channel]
        gap = train.median_gap() if dt or gaps != "keep" else None
        return cls(
            channels=train.channels,
            mean=tuple(mean for mean, _ in fits),
            std=tuple(std for _, std in fits),
            targets=() if goal is None else goal.names,
            target_mean=tuple(mean for mean, _ in goals),
            target_std=tuple(std for _, std in goals),
            dt=(gap if dt else None) or 1.0,
            static=train.static_names,
            static_mean=tuple(mean for mean, _ in fixed),
            static_std=tuple(std for _, std in fixed),
            shapes=shapes,
            gaps=None if gaps == "keep" or not gap else Gaps(gaps, gap),
        )

    def transform(self, s: Sequences, *, compact: bool = True) -> Sequences:
        """Returns the scaled series; rejects channels that differ from training.

        Args:
            s: The series.
            compact: Whether to leave out steps of the base arrays that belong to no series. Without it, windows of one
                series keep their places, so that parts by time can be put together again.
        """
        if s.channels != self.channels:
            channels = f"here {listed(s.channels)}, in training {listed(self.channels)}"
            raise ValueError(f"the channels differ from training: {channels}.")
        if isinstance(s.base_values, StoredRows):
            values: Any = s.base_values.changed(self._scaled_part)
        else:
            s = s.compact() if compact else s
            values = self.scaled(s.base_values)
            for i in range(len(s.channels) if values.dtype.kind == "f" else 0):
                self._check_logarithm(s, i)
            self._check_finite(values)
        gaps = (
            None if self.gaps is None or s.base_times is None else replace(self.gaps, usual=self.gaps.usual / self.dt)
        )
        scaled = replace(s, base_values=values, target=self._target(s.target), gaps=gaps, static=self._static(s))
        if s.is_stored and "sample" in s.__dict__:  # that of windows comes with them
            scaled.__dict__["sample"] = self.transform(s.sample, compact=compact)
        if self.dt == 1.0 or s.base_times is None:
            return scaled
        lead = None if s.lead is None else s.lead / self.dt
        clock = replace(s.clock, unit=f"{self.dt:g} x {s.clock.unit}", scale=s.clock.scale * self.dt)
        return replace(scaled, base_times=s.base_times / self.dt, lead=lead, clock=clock)

    def scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns values `(N, D)` scaled; symbols are returned as they are."""
        if values.dtype.kind != "f":
            return values
        result = np.empty_like(values)
        for start in range(0, len(values), _ROWS_AT_A_TIME):  # a large table is not copied in float64
            rows = slice(start, start + _ROWS_AT_A_TIME)
            chunk = values[rows].astype(np.float64)
            for i in range(len(self.shapes)):
                chunk[:, i] = self.shaped(i, chunk[:, i])
            with np.errstate(over="ignore", invalid="ignore"):
                result[rows] = (chunk - self.mean) / self.std
        return result

    def _scaled_part(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns rows of a store scaled, with the checks of `transform`."""
        result = self.scaled(values)
        if self.shapes and (lost := np.isnan(result) & ~np.isnan(values)).any():
            row, channel = np.argwhere(lost)[0].tolist()
            raise ValueError(f"channel {self.channels[channel]!r} has the value {values[row, channel]:g}, {_NO_LOG}")
        self._check_finite(result)
        return result

    def _check_finite(self, values: NDArray[Any]) -> None:
        for i, name in enumerate(self.channels if values.dtype.kind == "f" else ()):
            if np.isinf(values[:, i]).any():
                far = f"({self.mean[i]:g} ± {self.std[i]:g})"
                raise ValueError(f"channel {name!r} has values too far from those in training {far}.")

    def inverse(self, s: Sequences) -> Sequences:
        """Series that `transform` gave, in their own units again: values, times and number targets."""
        values = s.base_values
        if values.dtype.kind == "f":
            values = self.inverse_values(values).astype(values.dtype)
        target = s.target
        if target is not None and self.targets:
            target = replace(target, values=np.asarray(target.given), source=None)
        static = s.static
        if static is not None:
            static = (static * np.asarray(self.static_std) + np.asarray(self.static_mean)).astype(static.dtype)
        inverted = replace(s, base_values=values, target=target, gaps=None, static=static)
        if self.dt == 1.0 or s.base_times is None:
            return inverted
        lead = None if s.lead is None else s.lead * self.dt
        unit = s.clock.unit.removeprefix(f"{self.dt:g} x ")
        clock = replace(s.clock, unit=unit, scale=s.clock.scale / self.dt)
        return replace(inverted, base_times=s.base_times * self.dt, lead=lead, clock=clock)

    def shaped(self, channel: int, column: NDArray[Any]) -> NDArray[np.float64]:
        """Returns values of a channel, by number, as they are scaled."""
        return self.shapes[channel].apply(column) if self.shapes else column.astype(np.float64)

    def inverse_values(self, values: NDArray[Any], channels: Sequence[int] | None = None) -> NDArray[np.float64]:
        """Converts scaled values `(..., D)`, or those `(..., C)` of some channels, to their own units."""
        at = list(range(len(self.channels))) if channels is None else list(channels)
        result = values * np.asarray(self.std)[at] + np.asarray(self.mean)[at]
        for index, channel in enumerate(at if self.shapes else ()):
            result[..., index] = self.shapes[channel].invert(result[..., index])
        return result

    def inverse_target(self, values: Numbers) -> Numbers:
        """Converts predictions `(..., K)` to the units of the target."""
        if not self.targets:
            return values
        if isinstance(values, torch.Tensor):
            mean, std = (values.new_tensor(numbers) for numbers in (self.target_mean, self.target_std))
            return invert_columns(values * std + mean, self.target_shapes)  # pyrefly: ignore[bad-return]
        result = values * np.asarray(self.target_std) + np.asarray(self.target_mean)
        for index, shape in enumerate(self.target_shapes):
            result[..., index] = shape.invert(result[..., index])
        return result

    def scale_target(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Converts values `(..., K)` from the units of the target: the inverse of `inverse_target`."""
        if not self.targets:
            return values
        shaped = np.array(values, dtype=np.float64)
        for index, shape in enumerate(self.target_shapes):
            shaped[..., index] = shape.apply(shaped[..., index])
        return (shaped - np.asarray(self.target_mean)) / np.asarray(self.target_std)

    def of_target(self, index: int, *, classes: bool) -> Scaler:
        """Returns the scaler of one of several targets, by its number; that of classes leaves them as they are."""
        if not self.targets:
            return self
        one = slice(index, index if classes else index + 1)
        names = ("targets", "target_mean", "target_std", "target_shapes")
        return replace(self, **{name: getattr(self, name)[one] for name in names})

    def _target(self, target: Target | None) -> Target | None:
        if not self.targets or target is None:
            return target
        if target.names != self.targets or target.classes is not None:
            raise ValueError(f"the target is {listed(target.names)}, but in training it was {listed(self.targets)}.")
        source = target.given
        if self.target_shapes:
            source = np.stack(
                [shape.clip(column) for shape, column in zip(self.target_shapes, source.T, strict=True)], axis=1
            )
        values = self.scale_target(target.values)
        wrong = np.argwhere(~np.isfinite(values) & np.isfinite(target.values))
        if len(wrong):
            row, column = wrong[0].tolist()
            raise ValueError(
                f"the target {target.names[column]!r} has the value {target.values[row, column]:g}, {_NO_LOG}"
            )
        return replace(target, values=values.astype(target.values.dtype), source=source)

    def _static(self, s: Sequences) -> NDArray[Any] | None:
        if s.static_names != self.static:
            names = f"here {listed(s.static_names) or 'none'}, in training {listed(self.static) or 'none'}"
            raise ValueError(f"the static values differ from training: {names}.")
        if s.static is None:
            return None
        shaped = np.array(s.static, dtype=np.float64)
        for index, name in enumerate(self.static if self.shapes else ()):
            channel, _ = future_place(name, self.channels)
            shaped[:, index] = shaped[:, index] if channel is None else self.shapes[channel].apply(shaped[:, index])
        return ((shaped - np.asarray(self.static_mean)) / np.asarray(self.static_std)).astype(s.static.dtype)

    def _check_logarithm(self, s: Sequences, channel: int) -> None:
        offset = self.shapes[channel].offset if self.shapes else None
        wrong = None if offset is None else without_logarithm(s, s.channels[channel], offset)
        if wrong:
            raise ValueError(f"{wrong}, {_NO_LOG}")

    def notes(self) -> tuple[str, ...]:
        """Returns what happens to the values before scaling, for the user."""
        return notes_on_shapes(self.channels, self.shapes) if self.shapes else ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the scaler as plain data for JSON, without loss of precision."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {name: value for name, value in values.items() if name not in _RARE or value}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Scaler:
        """Returns the scaler that `as_dict` described."""
        return parse(cls, description)

    def save(self, path: str | Path) -> None:
        """Writes the scaler as JSON."""
        with replacing(Path(path)) as draft:
            draft.write_text(json.dumps(self.as_dict(), indent=1))

    @classmethod
    def load(cls, path: str | Path) -> Scaler:
        """Reads what `save` wrote."""
        return read_json(Path(path), cls)


def _moments(column: NDArray[Any]) -> tuple[float, float]:
    """Returns (mean, std) of the observed values; std 1 if constant, mean 0 if there are none."""
    observed = column[~np.isnan(column)].astype(np.float64)
    if not len(observed):
        return 0.0, 1.0
    size = float(np.abs(observed).max())
    if size == 0:
        return 0.0, 1.0
    observed /= size  # squares of large numbers would overflow
    mean, std = float(observed.mean()), float(observed.std())
    # Rounding errors give a constant channel a tiny standard deviation.
    return mean * size, std * size if std > 1e-12 and std * size > 0 else 1.0


def _moments_of_all(train: Sequences, shapes: Sequence[Shape]) -> list[tuple[float, float]]:
    """Returns `_moments` of each channel over all series, which are read once."""
    count, mean, square = (np.zeros(train.num_channels) for _ in range(3))
    for part in train.once().chunks():
        values = part.base_values.astype(np.float64)
        for i, shape in enumerate(shapes):
            values[:, i] = shape.apply(values[:, i])
        mask = ~np.isnan(values)
        number = mask.sum(0)
        some = np.maximum(number, 1)
        piece_mean = np.where(mask, values, 0.0).sum(0) / some
        spread = (np.where(mask, values - piece_mean, 0.0) ** 2).sum(0)
        total, gap = np.maximum(count + number, 1), piece_mean - mean
        square += spread + gap**2 * count * number / total
        mean += np.where(number > 0, gap * number / total, 0.0)
        count += number
    std = np.sqrt(square / np.maximum(count, 1))
    # Rounding errors give a constant channel a tiny standard deviation.
    std = np.where(std > 1e-12 * np.maximum(np.abs(mean), 1e-300), std, 1.0)
    return list(zip(mean.tolist(), std.tolist(), strict=True))
