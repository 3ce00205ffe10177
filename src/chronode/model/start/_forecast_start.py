"""The linear start of a forecast: an average of linear maps of the last values, chosen with rolling origins."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data import Scaler, Sequences, folds_of, future_names, is_irregular, known_channels, listed, step_gap
from ...system import threads, threads_for
from .._relative import Relative
from ._classical import classical_family
from ._continuations import Map, Member, average, choose
from ._families import Family, families, joint_family
from ._linear import Linear
from ._own import OwnChoice, Panel, can_have_own, choose_own
from ._season import calendar_seasons, find_season, is_plain, is_short, possible_seasons, regular_steps
from ._start import LinearStart, StartFit, fit_features
from ._summaries import PER_CHANNEL
from ._window_rows import (
    Fold,
    Rows,
    all_windows,
    by_group,
    in_place,
    outside,
    rolling,
    rows_of,
    some,
    stretches,
)

_FOLDS = 5
_MOST_FITTED, _MOST_JUDGED = 2_000, 300
_MOST_REFITTED = 20_000
_MOST_COLUMNS, _MOST_READINGS = 600, 1_500


@dataclass(frozen=True)
class ForecastMaps:
    """Continuations of each channel, and the numbers of the windows to fit them to.

    Attributes:
        description: Features of the windows, as `build_features` takes them.
        relative: Brings windows to their own level and scale.
        members: For each channel to continue, the maps to average.
        families: For each channel, the families of these maps.
        own: Average of corrections of each series of a panel; None if all series share the map.
    """

    description: dict[str, Any]
    relative: Relative
    members: tuple[tuple[Member, ...], ...]
    families: tuple[tuple[Family, ...], ...]
    own: OwnChoice | None = None

    def rows(self, parts: Sequence[Sequences]) -> Rows:
        """Returns all rows to fit the maps to."""
        return _rows(parts, self.description, self.relative)

    def fitted(self, rows: Rows) -> Map:
        """Returns one map of all values of a window to all outputs, fitted to these rows."""
        maps = [
            average(members, rows.windows(channel), rivals)
            for channel, (members, rivals) in enumerate(zip(self.members, self.families, strict=True))
        ]
        weight = torch.stack([one.weight for one in maps], dim=-1)
        return Map(weight.flatten(2).flatten(0, 1), torch.stack([one.bias for one in maps], dim=-1).flatten())

    def start(self, parts: Sequence[Sequences]) -> LinearStart:
        """Returns the module of the maps that are fitted to these parts."""
        return self.of(*self.fitted_to(parts))

    def of(self, map_: Map, corrections: dict[int, Tensor]) -> LinearStart:
        """Returns the module of a map, and of the corrections of series by their keys."""
        start = LinearStart(self.described(len(corrections)), len(map_.bias))
        same = {name: start.get_buffer(name).clone() for name in ("mean", "std", "low", "high")}
        start.take(Linear(**same, weight=map_.weight, bias=map_.bias))
        if start.own is not None:
            assert self.own is not None
            start.own.take(corrections, self.own.shared)
        return start

    def described(self, series: int) -> dict[str, Any]:
        """Returns the description of the module with maps of so many series' own."""
        if self.own is None:
            return self.description
        return self.description | {"own": {"series": series, "lags": self.own.lags, "channels": self.relative.channels}}

    def fitted_to(self, parts: Sequence[Sequences]) -> tuple[Map, dict[int, Tensor]]:
        """Returns the map that is fitted to all rows of these parts, and the corrections of the series."""
        rows = self.rows(parts)
        map_ = self.fitted(rows[some(torch.ones(len(rows.x), dtype=torch.bool), _MOST_REFITTED)])
        if self.own is None:
            return map_, {}
        panel = Panel(tuple(parts), self.description, self.relative)
        return map_, panel.corrections(self.own, [(lambda ends: torch.ones_like(ends, dtype=torch.bool), map_)])[0]


@dataclass(frozen=True)
class MapsFit(StartFit):
    """A linear start that is an average of linear maps.

    Attributes:
        maps: Linear maps to average.
    """

    maps: ForecastMaps | None = None

    def refitted(self, *parts: Sequences) -> StartFit:
        """Returns the same maps, fitted to all windows of these parts."""
        assert self.maps is not None
        map_, corrections = self.maps.fitted_to(parts)
        return replace(self, start=self.maps.of(map_, corrections), description=self.maps.described(len(corrections)))


def choose_maps(
    train: Sequences, valid: Sequences, relative: Sequence[int], seed: int = 0, *, inputs: Sequence[int] | None = None
) -> ForecastMaps:
    """Chooses the maps that continue these channels best; of a single short series, an average of classical methods.

    If the validation windows belong to the training series, the maps are fitted before, and judged after, several
    origins in the later half of all windows; otherwise they are judged on held-out series.

    Args:
        train: Windows with the following values as target.
        valid: Validation windows, likewise.
        relative: Numbers of the channels to continue.
        seed: Random seed of the folds of series.
        inputs: Numbers of the known inputs that the model sees; all by default.
    """
    parts = [train] if valid is train or not len(valid) else [train, valid]
    description = _description(parts, relative)
    gap, steps, season = (description[name] for name in ("gap", "steps", "season"))
    view = _relative_view(train, relative, inputs)
    horizon = view.horizon
    if is_short(train) and is_plain(train) and in_place(parts, relative):
        values = stretch_of(parts, relative[0], relative, horizon)
        seasons = calendar_seasons(train) or (season,)
        complete = bool(np.isfinite(values).all())  # the validation part may miss some
        family = classical_family(values, seasons, steps, horizon, relative[0]) if complete else None
        if family is not None:
            return ForecastMaps(description, view, ((Member(family.name, family.maps[0]),),), ((family,),))
    if len(np.intersect1d(train.groups, valid.groups)):
        whole = _rows(parts, description, view)
        folds = rolling(whole.ends, horizon, gap)
    else:
        whole = rows_of(parts, description, view)
        folds = by_group(parts, seed)
    folds = [Fold(some(f.fit, _MOST_FITTED), some(f.near, _MOST_FITTED), some(f.judge, _MOST_JUDGED)) for f in folds]
    candidates = [_families(parts, steps, channel, view) for channel in relative]
    members = [tuple(choose(whole.windows(i), folds, rivals, season)) for i, rivals in enumerate(candidates)]
    maps = ForecastMaps(description, view, tuple(members), tuple(candidates))
    if not can_have_own(parts, relative):
        return maps
    panel = Panel(tuple(parts), description, view)
    own = choose_own(panel, whole.ends, lambda rows: maps.fitted(whole[some(rows, _MOST_FITTED)]))
    return replace(maps, own=own)


def fit_forecast(train: Sequences, valid: Sequences, relative: Sequence[int], *, seed: int = 0) -> StartFit:
    """Returns the linear forecast with the lowest error on windows that it was not fitted to.

    Known inputs that make forecasts of the validation part worse are left out, with a note.

    Args:
        train: Windows with the following values as target.
        valid: Validation windows, likewise.
        relative: Numbers of the channels that the target continues.
        seed: Random seed of the folds.

    Example:
        >>> from chronode.data import forecast_windows, from_list
        >>> w = forecast_windows(from_list([np.sin(np.arange(80.0)) + 0.1 * np.arange(80)]), 2, window=16)
        >>> fitted = fit_forecast(w[:40], w[40:], [0])
        >>> bool((fitted.outputs(w[40:]) - torch.tensor(w[40:].target.values)).abs().max() < 0.02)
        True
    """
    fitted, known = _fitted(train, valid, relative, seed), known_channels(train)
    if not known or not len(valid):
        return fitted
    plain = _fitted(train, valid, relative, seed, ())
    candidates = {known: fitted, (): plain}
    kept, groups = known, _input_groups(train, known)
    while len(groups) > 1:  # of several inputs, one after the other is left out as long as that helps
        error = _error(_with_inputs(fitted, train, valid, seed, kept), valid, plain.relative)
        fewer = [tuple(channel for channel in kept if channel not in group) for group in groups]
        errors = [_error(_with_inputs(fitted, train, valid, seed, columns), valid, plain.relative) for columns in fewer]
        best = errors.index(min(errors))
        if errors[best] >= error:
            break
        kept = fewer[best]
        groups.pop(best)
    if kept not in candidates:
        candidates[kept] = _fitted(train, valid, relative, seed, kept)
    errors_of = {inputs: _error(columns, valid, plain.relative) for inputs, columns in candidates.items()}
    kept = min(errors_of, key=lambda inputs: (errors_of[inputs], -len(inputs)))
    if kept == known:
        return fitted
    names = listed([train.channels[channel] for channel in known if channel not in kept])
    note = (
        f"the model leaves out the known inputs {names}, which make forecasts of the validation part worse (mean "
        f"absolute error in spreads of a window: {errors_of[known]:.4g} with them, {errors_of[kept]:.4g} without)."
    )
    return replace(candidates[kept], note=note)


def _input_groups(s: Sequences, known: Sequence[int]) -> list[list[int]]:
    """Returns the known inputs that are kept or left out together: the sine and the cosine of a period."""
    groups: dict[str, list[int]] = {}
    for channel in known:
        name = s.channels[channel]
        period = name.removesuffix(" sin").removesuffix(" cos")
        waves = {f"{period} sin", f"{period} cos"} <= set(s.channels)
        groups.setdefault(f"{period} waves" if waves and name != period else name, []).append(channel)
    return list(groups.values())


def _with_inputs(fitted: StartFit, train: Sequences, valid: Sequences, seed: int, inputs: Sequence[int]) -> StartFit:
    """Returns the same maps, or the best readings, of a model that sees these known inputs."""
    assert fitted.relative is not None
    if not isinstance(fitted, MapsFit) or fitted.maps is None:
        return _fitted(train, valid, fitted.relative.channels, seed, inputs)
    view = _relative_view(train, fitted.relative.channels, inputs)
    maps = replace(fitted.maps, relative=view)
    return replace(fitted, start=maps.start([train]), relative=view, maps=maps)


def _relative_view(train: Sequences, relative: Sequence[int], inputs: Sequence[int] | None) -> Relative:
    """Returns the fitted transform of windows for a model that sees these known inputs; all by default."""
    assert train.target is not None
    known = known_channels(train)
    view = Relative(relative, known, train.target.values.shape[1] // len(relative))
    if known:
        view.keep(known if inputs is None else inputs)
        view.fit_effects(train)
    view.fit_floor(train)
    return view


def _fitted(
    train: Sequences, valid: Sequences, relative: Sequence[int], seed: int, inputs: Sequence[int] | None = None
) -> StartFit:
    """Returns the better of the maps of the last values and of the last readings, if there are both."""
    with threads(threads_for(int(train.lengths.sum()) * train.num_channels)):
        maps = choose_maps(train, valid, relative, seed, inputs=inputs)
        start, held_out = fit_maps(maps, train)
    fit = MapsFit(start, _described(maps, start), held_out, {}, 0.0, maps.relative, maps)
    # Other series of the same years do not tell which of both goes on into the next year.
    by_time = len(np.intersect1d(train.groups, valid.groups)) > 0
    if not is_irregular(train) and not (train.has_missing and by_time):
        return replace(fit, losses={"values": _error(fit, valid)})
    readings = fit_features(train, valid, _reading_kinds(train), view=maps.relative, seed=seed)
    losses = {"values": _error(fit, valid), "readings": _error(readings, valid)}
    best = fit if losses["values"] <= losses["readings"] else readings
    return replace(best, losses=losses)


def naive_forecasts(train: Sequences, relative: Relative, season: int) -> dict[str, StartFit]:
    """Returns the forecasts that repeat the last value, and the last season if there is one, as linear starts.

    Args:
        train: Windows with the following values as target.
        relative: Brings windows to their own level and scale; the effects of known inputs are left out.
        season: Number of steps; 1 for no season.

    Example:
        >>> from chronode.data import forecast_windows, from_list
        >>> w = forecast_windows(from_list([np.arange(30.0) % 5]), 3, window=12)
        >>> found = naive_forecasts(w, Relative([0], horizon=3), 5)
        >>> {name: own.outputs(w)[0].round().tolist() for name, own in found.items()}
        {'last value': [1.0, 1.0, 1.0], 'seasonal naive (5)': [2.0, 3.0, 4.0]}
    """
    view, channels = copy.deepcopy(relative), relative.channels
    if view.known:
        view.get_buffer("effects").zero_()
    description = _description([train], channels) | {"season": season}
    assert train.target is not None
    steps, horizon = description["steps"], train.target.values.shape[1] // len(channels)
    candidates = [families(steps, horizon, (season,) if season > 1 else (), channel) for channel in channels]
    names = {"last value": "last value", f"seasonal naive ({season})": f"season of {season}"}
    forecasts: dict[str, StartFit] = {}
    for name, family in names.items():
        if all(family in [one.name for one in families_of] for families_of in candidates):
            maps = ForecastMaps(description, view, ((Member(family, "naive"),),) * len(channels), tuple(candidates))
            forecasts[name] = MapsFit(*_start_of(maps, train), {}, 0.0, view, maps)
    return forecasts


def last_value_at_every_step(train: Sequences, scaler: Scaler | None) -> StartFit | None:
    """Returns the forecast at every step that repeats the value last read, as a linear start; None if the target does
    not continue channels, or in other units than a linear map of them.

    Args:
        train: Series with the target of `chronode.data.forecast`.
        scaler: Scaler that was applied to them.

    Example:
        >>> from chronode.data import forecast, from_list
        >>> s = forecast(from_list([[1.0, 5.0, 2.0, 4.0]], channels=["x"]), 2)
        >>> last_value_at_every_step(s, None).outputs(s).tolist()
        [[1.0, 1.0], [5.0, 5.0]]
    """
    assert train.target is not None
    names = train.target.names
    continued = [name.removesuffix("+1") for name in names if name.endswith("+1")]
    if not continued or names != future_names(continued, len(names) // len(continued)):
        return None
    if not set(continued) <= set(train.channels):
        return None
    channels = [train.channels.index(name) for name in continued] * (len(names) // len(continued))
    values = np.arange(3.0)[:, None].repeat(len(names), axis=1)
    if scaler is not None:  # from the units of the channels to those of the target
        values = scaler.scale_target(scaler.inverse_values(values, channels))
    bias, slope = values[0], values[1] - values[0]
    if not np.allclose(values[2], bias + 2 * slope):
        return None
    description = {"kind": "summaries", "channels": train.num_channels, "every_step": True, "newest": True}
    start, first = LinearStart(description, len(names)), PER_CHANNEL.index("last") * train.num_channels
    start.get_buffer("weight")[[first + channel for channel in channels], range(len(names))] = torch.tensor(slope)
    start.get_buffer("bias").copy_(torch.tensor(bias))
    return StartFit(start, description, None, {}, 0.0)


def _start_of(maps: ForecastMaps, train: Sequences) -> tuple[LinearStart, dict[str, Any], Tensor]:
    start, held_out = fit_maps(maps, train)
    return start, maps.description, held_out


def _described(maps: ForecastMaps, start: LinearStart) -> dict[str, Any]:
    return maps.described(0 if start.own is None else len(start.own.get_buffer("keys")))


def _reading_kinds(s: Sequences) -> list[dict[str, Any]]:
    """Returns the last k readings with the gaps between them, for several k up to the longest window."""
    longest, gap = int(s.lengths.max()), step_gap(s)
    counts = sorted({*(count for count in (1, 2, 4, 8, 16, 32, 64, 128) if count < longest), longest})
    return [
        {"kind": "readings", "channels": s.num_channels, "steps": steps, "gap": gap}
        for steps in counts
        if steps * s.num_channels <= _MOST_READINGS or steps == 1
    ]


def _error(fitted: StartFit, s: Sequences, view: Relative | None = None) -> float:
    """Returns the mean absolute error over known targets, in units of the spread of each window (in `view`, or in that
    of the model): otherwise the largest of many series would decide.
    """
    view = view or fitted.relative
    assert s.target is not None and view is not None
    gaps = (fitted.outputs(s) - torch.tensor(s.target.values)).abs()
    for first in range(0, len(s), 512):
        batch = s.batch(slice(first, first + 512))
        scale = view.view(batch.x, batch.lengths, batch.observed, batch.static).scale.double()
        gaps[first : first + 512] /= scale.repeat(1, gaps.shape[1] // scale.shape[1])
    return float(gaps.nanmean())


def fit_maps(maps: ForecastMaps, train: Sequences) -> tuple[LinearStart, Tensor]:
    """Returns the maps fitted to all windows, and out-of-fold outputs `(N, K)`."""
    rows = rows_of([train], maps.description, maps.relative)
    inputs = rows.x.flatten(1)
    held_out = torch.zeros(len(inputs), rows.y[0].numel(), dtype=torch.float64)
    if maps.own is not None:
        return _fit_panel(maps, train, rows, held_out)
    folds = torch.tensor(folds_of(train, _FOLDS))
    for fold in folds.unique().tolist():
        inside = folds == fold
        map_ = maps.fitted(rows[some(~inside, _MOST_FITTED)])
        held_out[inside] = inputs[inside] @ map_.weight + map_.bias
    return maps.start([train]), held_out


def _fit_panel(maps: ForecastMaps, train: Sequences, rows: Rows, held_out: Tensor) -> tuple[LinearStart, Tensor]:
    """Returns the same with maps of the series' own: the outputs in a stretch of time are those of maps that are fitted
    before and after it.
    """
    assert maps.own is not None and train.keys is not None
    horizon, gap = maps.relative.horizon, maps.description["gap"]
    whole = some(torch.ones(len(rows.x), dtype=torch.bool), _MOST_REFITTED)
    jobs = [(lambda ends: torch.ones_like(ends, dtype=torch.bool), maps.fitted(rows[whole]))]
    pieces = stretches(rows.ends, _FOLDS)
    for first, after in pieces:
        fit = partial(outside, first=first, after=after, horizon=horizon, gap=gap)
        jobs.append((fit, maps.fitted(rows[some(fit(rows.ends), _MOST_FITTED)])))
    every, *each = Panel((train,), maps.description, maps.relative).corrections(maps.own, jobs)
    for (first, after), (_, map_), corrections in zip(pieces, jobs[1:], each, strict=True):
        inside = (rows.ends >= first) & (rows.ends < after)
        start = maps.of(map_, corrections)
        assert start.own is not None
        inputs = rows.x[inside].flatten(1)
        keys = torch.from_numpy(train.keys)[inside]
        held_out[inside] = start.own(inputs, keys, inputs @ map_.weight + map_.bias)
    return maps.of(jobs[0][1], every), held_out


def _rows(parts: Sequence[Sequences], description: dict[str, Any], relative: Relative) -> Rows:
    """Returns the windows of all parts; of few windows also those that are shorter or have a target in two parts."""
    if sum(len(part) for part in parts) > _MOST_FITTED or not in_place(parts, relative.channels):
        return rows_of(parts, description, relative)
    return rows_of([all_windows(parts, relative.channels, description["steps"])], description, relative)


def _description(parts: Sequence[Sequences], relative: Sequence[int]) -> dict[str, Any]:
    """Returns the features of windows: their steps, and the season that is repeated before the start of shorter ones.

    Windows that all begin where their series does are as long as the series allows: what follows the last one belongs
    to the next window.
    """
    train = parts[0]
    assert train.target is not None
    horizon, steps = train.target.values.shape[1] // len(relative), int(train.lengths.max())
    starts, groups = (np.concatenate([getattr(part, name) for part in parts]) for name in ("starts", "groups"))
    if in_place(parts, relative) and len(np.unique(starts)) == len(np.unique(groups)):
        steps = max(int(part.lengths.max()) for part in parts) + horizon
    seasons = [
        find_season(stretch_of(parts, channel, relative, horizon), calendar_seasons(train)) for channel in relative
    ]
    season = max((season for season in seasons if season <= steps), default=1)
    fields = {"kind": "values", "channels": train.num_channels, "steps": steps, "gap": step_gap(train)}
    return {**fields, "season": season}


def _families(parts: Sequence[Sequences], steps: int, channel: int, relative: Relative) -> tuple[Family, ...]:
    """Returns all families that continue a channel of these windows."""
    horizon = relative.horizon
    seasons = possible_seasons(stretch_of(parts, channel, relative.channels, horizon), calendar_seasons(parts[0]))
    candidates = families(steps, horizon, tuple(seasons), channel)
    channels = parts[0].num_channels
    if channels > 1 and steps * channels <= _MOST_COLUMNS:
        return (*candidates, joint_family(steps, channels, channel, horizon))
    return candidates


def stretch_of(parts: Sequence[Sequences], channel: int, relative: Sequence[int], horizon: int) -> np.ndarray:
    """Returns the values of the longest series on a regular grid, from its first window to the last target."""
    # Parts by time look back into the same values; parts with series of their own do not.
    shared = in_place(parts, relative) and len(np.intersect1d(parts[0].groups, parts[-1].groups))
    parts, horizon = (parts, horizon) if shared else (parts[:1], 0)
    first = np.concatenate([part.starts for part in parts])
    after = np.concatenate([part.starts + part.lengths for part in parts]) + horizon
    groups, member = np.unique(np.concatenate([part.groups for part in parts]), return_inverse=True)
    low = np.full(len(groups), first.max())
    high = np.zeros(len(groups), dtype=after.dtype)
    np.minimum.at(low, member, first)
    np.maximum.at(high, member, after)
    at, first_part = int((high - low).argmax()), parts[0]
    rows = slice(low[at], high[at])
    times = None if first_part.base_times is None else first_part.base_times[rows]
    return regular_steps(first_part.base_values[rows, [channel]], times, step_gap(first_part))[:, 0]


def training_season(train: Sequences, at: Sequence[int], horizon: int) -> int:
    """Returns the season of the longest stretch of training that there is, if a window holds a whole one."""
    calendar, longest = calendar_seasons(train), int(train.lengths.max())
    seasons = [find_season(stretch_of([train], channel, at, horizon), calendar) for channel in at]
    return max((season for season in seasons if season <= longest), default=1)
