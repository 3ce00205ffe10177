"""Series of a config: reading its file, dividing it into parts, and reading later files like it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from ..data import (
    Reading,
    ReadOptions,
    Sequences,
    canonical,
    column_names,
    counted,
    drawn,
    forecast,
    forecast_channels,
    is_pipe,
    is_there,
    listed,
    options_like,
    read,
    read_header,
    source_columns,
    split_by_time,
    split_for_training,
    suffix_of,
    windows,
)
from ..settings import SettingError, named, near
from ..training import forecast_parts, is_panel
from ._config import DataConfig

_ARRAY_FILES = (".npz", ".npy")
_ARRAY_OPTIONS = ("unit", "kind", "per_step", "classes", "dtype")


def read_source(config: DataConfig) -> Sequences:
    """Reads the unscaled series of the file of the config, with the target."""
    target = config.target[0] if len(config.target) == 1 else list(config.target) or None
    return read(config.source, **asked_of(config), target=target)


def sampled(series: Sequences, config: DataConfig, seed: int) -> Sequences:
    """Returns the series that are used: all, or those that `sample` of the config draws, with a note."""
    if config.sample is None:
        return series
    used = drawn(series, config.sample, seed=seed)
    return used.with_notes(f"{named('sample', config.sample)}: {len(used):,} of {len(series):,} series are used.")


def as_packed(config: DataConfig) -> DataConfig:
    """Returns the config with the options with which its store was packed."""
    header = read_header(config.source)
    names = {read_as: name for name, read_as in READ_AS.items()}
    packed = {names.get(name, name): value for name, value in header.options.items()}
    plain = DataConfig()
    given = {name for name in packed if getattr(config, name) != getattr(plain, name)}
    missing: dict[str, Any] = {name: value for name, value in packed.items() if name not in given}
    target = () if header.head.target is None or config.horizon else header.head.target.names
    missing |= {} if config.target else {"target": target}
    missing = {name: tuple(value) if isinstance(value, list) else value for name, value in missing.items()}
    return replace(config, **missing)


def reading_of(config: DataConfig, s: Sequences, *, missing: bool, per_step: bool) -> Reading:
    """Returns how to read files like that of the config, which `read_source` read as `s`."""
    return Reading.of(
        s,
        target=_target_columns(config, s),
        options=_like(config, s),
        missing=missing,
        horizon=config.horizon,
        forecast_channels=config.channels or (s.channels if config.horizon else ()),
        window=config.window,
        stride=config.stride,
        per_step=per_step,
        static_columns=_static_columns(config, s),
        weight=config.weight or "",
    )


def _like(config: DataConfig, s: Sequences) -> dict[str, Any]:
    """Returns the options that give another file or frame the channels, units and classes of `s`."""
    asked, like = asked_of(config), options_like(s)
    if not config.source:
        return like | {name: asked[name] for name in ("id", "time") if name in asked}
    if suffix_of(Path(config.source)) in _ARRAY_FILES:
        names = _ARRAY_OPTIONS if config.order else ()  # series written by `Sequences.save` need no options
        return asked | {name: like[name] for name in names if like.get(name) is not None}
    # The columns are known, except that all others are the steps of series in rows; groups only matter for the split.
    asked.pop("labels", None)
    unused = [*asked.pop("ignore", []), *filter(None, [asked.pop("group", None), asked.pop("weight", None)])]
    if config.row_per_series:
        asked["ignore"] = unused
    if "channel" in asked:
        like.pop("categorical", None)
    return {**asked, **like}


def _static_columns(config: DataConfig, s: Sequences) -> tuple[str, ...]:
    """Returns the static values of a file with one reading per row that are columns rather than channels."""
    if not config.channel or not s.static_names:
        return ()
    columns = column_names(Path(config.source), asked_of(config)) or []
    return tuple(name for name in source_columns(s.static_names, s.categories) if name in columns)


def _target_columns(config: DataConfig, s: Sequences) -> tuple[str, ...]:
    """Returns the target columns; the command line splits names that contain commas."""
    columns = config.target if s.target is None else s.target.names
    return columns if len(columns) < len(config.target) else config.target


def divided_series(series: Sequences, data: DataConfig, seed: int) -> tuple[list[Sequences], str]:
    """Returns (training, validation and test, cut into windows; a description of the split).

    Without a share of validation, the training part takes its place.

    Args:
        series: All series.
        data: The section of the config.
        seed: Random seed.
    """
    divides_time, cut = by_time(series, data), "series"
    if data.horizon and not data.per_step:
        options = {"window": data.window, "stride": data.stride, "by_time": divides_time, "seed": seed}
        parts = forecast_parts(series, data.horizon, channels_of(series, data), data.shares, **options)
        cut = f"windows of up to {data.window} steps"
    elif divides_time:
        _check_divisible(series, data)
        parts = split_by_time(series, data.shares)
    else:
        parts = split_for_training(series, data.shares, seed=seed)
    how = "by time" if divides_time else f"by {data.group or data.id or 'series'}"
    used = [part for part, share in zip(parts, data.shares, strict=True) if share > 0]
    shares = "/".join(f"{100 * share:.4g}" for share in data.shares if share > 0)
    text = f"split {how} {shares} ({'/'.join(f'{len(part):,}' for part in used)} {cut})"
    train, valid, test = [_cut(part, data) for part in parts] if cut == "series" else parts
    return [train, valid if data.shares[1] else train, test], text


def check_second_file(data: DataConfig) -> None:
    """Rejects a file of tests or labels that does not exist, before anything is read."""
    for name in ("test", "labels"):
        path = Path(getattr(data, name) or "")
        if path.name and (is_pipe(path) or not is_there(path)):
            raise SettingError(
                f"{named(name, str(path))}: no such file.{near(path.name, neighbors(path))}", argument=name
            )


def neighbors(path: Path) -> list[str]:
    """Returns the names in the folder of a path; empty if there is no such folder."""
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []


def second_file(reading: Reading, data: DataConfig, known: Sequences) -> tuple[Sequences, list[str]]:
    """Returns the series of the test file, read and scaled as those of training, and notes.

    Args:
        reading: Schema by which the file is read.
        data: The section of the config.
        known: The series of training and validation.
    """
    own = {*(column_names(Path(data.test), reading.options) or ())} >= {*reading.target}
    series = reading.read(data.test, labeled=True, anyway=True, labels=None if own else data.labels)
    test = series if data.horizon else series.labeled()
    if not len(test):
        raise ValueError(f"{data.test}: no series has a target: there is nothing to test.")
    notes = [f"{Path(data.test).name}: {note}" for note in series.notes]
    if gone := len(series) - len(test):
        notes.append(f"{Path(data.test).name}: {counted(gone, 'series')} without target: not tested.")
    here = {canonical(str(name)): str(name) for name in test.groups.tolist()}
    both = sorted(here[name] for name in here.keys() & {canonical(str(name)) for name in known.ids.tolist()})
    both = both if data.id else []
    if both:
        notes.append(
            f"{counted(len(both), 'id')} of {Path(data.test).name} {'is' if len(both) == 1 else 'are'} also in "
            f"training or validation ({listed(both, 2)}): the test part does not show how the model does on others."
        )
    return test, notes


def notes_on_parts(data: DataConfig, test: Sequences) -> list[str]:
    """Returns notes on the meaning of the shares and on a test part that says little."""
    notes = []
    if len(data.split) == 2 and not data.test:
        train, test_share = (f"{100 * share:.4g}%" for share in data.split)
        held = f"{100 * data.shares[1]:.3g}%"
        notes.append(f"two shares are training and test: {train} and {test_share}; {held} are held out for validation.")
    if len(test) == 1 and not data.horizon and test.target is not None and not test.target.per_step:
        notes.append("the test part is a single series: its metrics say almost nothing about others.")
    if not data.shares[1]:
        notes.append("there is no validation part: the training series choose the best epoch.")
    if not len(test):
        notes.append("there is no test part: the metrics are those of the validation part, which chose the model.")
    return notes


def channels_of(series: Sequences, data: DataConfig) -> tuple[str, ...]:
    """Channels to forecast: those asked for, or all whose future is not known."""
    return forecast_channels(series, data.channels, data.known)


def _check_divisible(series: Sequences, data: DataConfig) -> None:
    """Rejects a few series with one target each, which cannot be divided within a series."""
    if data.split_by != "time" and len(series) > 1 and series.target is not None and not series.target.per_step:
        needed = sum(share > 0 for share in data.shares)
        raise ValueError(
            f"{len(np.unique(series.groups))} groups of series are too few for training, validation and test: add "
            f"series (a target of whole series needs at least {needed} groups)."
        )


def by_time(series: Sequences, data: DataConfig) -> bool:
    """Returns whether later parts come later in time, instead of having series of their own."""
    if data.split_by != "auto":
        return data.split_by == "time"
    few = len(np.unique(series.groups)) < sum(share > 0 for share in data.shares)
    return few or (bool(data.horizon) and not data.per_step and is_panel(series, data.horizon))


def _cut(part: Sequences, data: DataConfig) -> Sequences:
    """Creates forecasts and windows after the split, so that no target comes from another part."""
    if not len(part):
        return part
    if data.horizon:
        part = forecast(part, data.horizon, data.channels or None)
    return windows(part, data.window, data.stride or None) if data.window else part


READ_AS = {"time_unit": "unit"}
_TO_READ = [name for name in DataConfig.__dataclass_fields__ if READ_AS.get(name, name) in get_type_hints(ReadOptions)]


def reading_fields() -> list[str]:
    """Returns the names of the fields of a config that are options of `read`, and that of the target."""
    return ["target", *_TO_READ]


def asked_of(config: DataConfig) -> dict[str, Any]:
    """Returns the options of `read`, besides the target, that differ from its defaults."""
    plain, options = DataConfig(), {}
    for name in _TO_READ:
        value = getattr(config, name)
        if value != getattr(plain, name):
            options[READ_AS.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return options
