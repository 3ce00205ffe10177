"""Preparation of series for training: reading or generating, splitting and scaling."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..data import (
    Facts,
    Parts,
    Reading,
    Scaler,
    Sequences,
    calendar_periods,
    counted,
    database_of,
    files_of,
    holiday_periods,
    is_store,
    is_there,
    note_on_gaps,
    ranges_of,
    remarks,
    shaping,
    size_and_hash,
    with_calendar,
    with_future,
)
from ..judge import SMALL, MeasuredBaselines, can_race, reference_of, selection_metric
from ..model.start import calendar_seasons, is_plain, is_short, prefers_logarithm, stretch_of
from ..settings import SettingError, named, near
from ..storage import parse, read_json
from ..training import AUTO, Objective, Settings, Trained, default_window, find_task, forecast_scaler, tasks, together
from ._config import Config, DataConfig
from ._series import (
    as_packed,
    by_time,
    channels_of,
    check_second_file,
    divided_series,
    neighbors,
    notes_on_parts,
    read_source,
    reading_of,
    sampled,
    second_file,
)

SECOND_FILES = ("test", "labels")
"""Settings of the data that name a file besides the source."""


@dataclass(frozen=True)
class Prepared:
    """Series ready for `fit`.

    Attributes:
        parts: Training, validation and test series, scaled.
        objective: Objective of the training.
        reading: Options for reading later files; None for a task.
        source: Origin of the series: name, size and SHA-256 of a file; name and protocol of a task.
        facts: Summary of all series.
        divided: Description of the split.
        notes: Changes made to the data.
        refit: Whether training and validation series are trained on together, and so scaled together.
        measured: Metrics of baselines that were measured on these series.
    """

    parts: Parts
    objective: Objective
    reading: Reading | None
    source: dict[str, Any]
    facts: Facts
    divided: str
    notes: tuple[str, ...]
    refit: bool = False
    measured: dict[Any, MeasuredBaselines] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def sampled(self) -> Prepared:
        """The series themselves if they are in memory; otherwise samples of the parts of a store, for what looks at
        all series at once: the race, the linear start, the baselines and the report.
        """
        parts = self.parts
        if not any(part.is_stored for part in (parts.train, parts.valid, parts.test)):
            return self
        train, test = parts.train.sample, parts.test.sample
        valid = train if parts.valid is parts.train else parts.valid.sample
        return replace(self, parts=replace(parts, train=train, valid=valid, test=test))

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON, by which later files are read and checked."""
        reading = None if self.reading is None else self.reading.as_dict()
        sizes = {name: len(getattr(self.parts, name)) for name in ("train", "valid", "test")}
        source = {"source": self.source, "facts": self.facts.as_dict(), "series": sizes, "notes": list(self.notes)}
        return {**source, "reading": reading}


@dataclass(frozen=True)
class DataFacts:
    """Content of data.json, the result of `Prepared.as_dict`.

    Attributes:
        source: Origin of the series.
        facts: Summary of all series.
        series: Number of series in each part.
        notes: Changes made to the data.
        reading: Options for reading later files; None for a task.
    """

    source: dict[str, Any]
    facts: dict[str, Any]
    series: dict[str, int]
    notes: tuple[str, ...]
    reading: Reading | None

    def __post_init__(self) -> None:
        files = {"source": self.source} if "file" in self.source else {}
        for name in SECOND_FILES:
            if name in self.source:
                files[f"source.{name}"] = parse(dict[str, Any], self.source[name], f"source.{name}")
        for place, file in files.items():
            parse(str, file.get("file"), f"{place}.file")
            parse(int, file.get("size"), f"{place}.size")
            parse(str, file.get("sha256"), f"{place}.sha256")

    @classmethod
    def load(cls, run: Path) -> DataFacts:
        """Reads data.json of a run folder."""
        return read_json(run / "data.json", cls)


def prepare(config: Config, series: Sequences | None = None, like: Reading | None = None) -> Prepared:
    """Returns the series of the config, divided into parts and scaled, with what is learned from them.

    Args:
        config: The config; its file is read, or its task is loaded.
        series: Series in place of a file, with their target.
        like: Reading of a model that is trained further; its windows and its scaling are used.

    Example:
        >>> asked = Config.from_dict({"data": {"source": "bitstream", "options": {"train": 20, "valid": 5, "test": 5}}})
        >>> prepared = prepare(asked)
        >>> len(prepared.parts.train), prepared.objective.metric
        (20, 'accuracy')
    """
    data = config.data
    if series is not None:
        series = sampled(series, data, config.training.seed)
        return _continued(config, series, like) if like is not None else _from_series(config, series)
    if not data.source:
        raise ValueError("no data given: pass a file or a task, `chronode train DATA ...`.")
    path = Path(data.source)
    if config.model.origin and is_there(data.source):
        return _further(config, like or origin_of(config).reading)
    if is_there(data.source):
        return _from_file(config)
    if path.suffix and data.source not in tasks():
        raise ValueError(f"{path}: no such file.{near(path.name, neighbors(path))}")
    return _from_task(config)


_kept: dict[str, Prepared] = {}


def prepared_for(config: Config) -> Prepared:
    """Returns `prepare(config)`, cached until other series are requested, because many runs use the same series.

    Example:
        >>> asked = {"data": {"source": "bitstream", "options": {"train": 20, "valid": 5, "test": 5}}}
        >>> one, other = (Config.from_dict({**asked, "model": {"model": name}}) for name in ("gru", "ltc"))
        >>> prepared_for(one) is prepared_for(other)
        True
    """
    named_files = (config.data.source, config.data.test, config.data.labels or "")
    sources = [source for source in named_files if is_there(source)]
    files = [(path, path.stat()) for source in sources for path in files_of(source)]
    file = [(str(path), facts.st_mtime_ns, facts.st_size) for path, facts in files]
    refit = config.training.refit, config.model.model == AUTO
    source = [config.as_dict()["data"], config.training.seed, config.model.missing, refit, file]
    key = json.dumps(source)
    if key not in _kept:
        _kept.clear()
        _kept[key] = prepare(config)
    return _kept[key]


def source_of(path: str | Path) -> dict[str, Any]:
    """Returns name, size and hash of a file."""
    size, digest = size_and_hash(path)
    return {"file": Path(path).name, "size": size, "sha256": digest}


def sources_of(data: DataConfig) -> dict[str, Any]:
    """Returns name, size and hash of the file of a config, and of those of tests and labels."""
    more = {name: source_of(path) for name in SECOND_FILES if (path := getattr(data, name))}
    return source_of(data.source) | more


def _from_task(config: Config) -> Prepared:
    data = config.data
    task = find_task(data.source)
    of_files = ("target", "id", "time", "horizon", "window", "log", "static", "weight", *SECOND_FILES)
    wrong = [name for name in of_files if getattr(data, name)]
    plain = DataConfig()
    wrong += [name for name in ("clip_values", "gaps") if getattr(data, name) != getattr(plain, name)]
    if wrong:
        raise ValueError(
            f"{data.source} is a task with its own data: omit {', '.join(named(name, ...) for name in wrong)}."
        )
    parts = task.load(data.protocol, config.training.seed, **data.options)
    source = {"task": task.name, "protocol": data.protocol, "options": dict(data.options), "seed": config.training.seed}
    notes = dict.fromkeys(note for part in (parts.train, parts.valid, parts.test) for note in part.notes)
    sizes = f"{len(parts.train):,}/{len(parts.valid):,}/{len(parts.test):,} series"
    objective = Objective.for_task(task, parts.train, scaler=parts.scaler)
    objective = replace(objective, positive=data.positive or objective.positive)
    divided, refit = f"{data.protocol} protocol: {sizes}", _refits(config, parts.train, parts.valid)
    return Prepared(parts, objective, None, source, parts.train.describe(), divided, tuple(notes), refit)


def _from_file(config: Config) -> Prepared:
    data = config.data
    if data.options or data.protocol != "clean":
        raise SettingError(
            f"{data.source} is a file: {named('protocol', ...)} and {named('options', ...)} can only be given with a "
            "task.",
            argument="protocol",
        )
    asked = next((name for name in ("table", "query_sql") if getattr(data, name) is not None), None)
    if asked is not None and not database_of(data.source):
        problem = f"{named(asked, getattr(data, asked))} can be given only for a DuckDB or SQLite file"
        raise SettingError(problem, argument=asked, cure=f"omit {named(asked)}")
    if is_store(data.source):
        data = as_packed(data)
        config = replace(config, data=data)
    elif not data.target and not data.horizon and not data.source.endswith((".ts", ".npz")):
        raise ValueError("a target is missing: pass --target COLUMN, or --forecast STEPS to predict the next values.")
    check_second_file(data)
    series = sampled(read_source(data), data, config.training.seed)
    in_memory = bool(data.known or data.holidays) or data.calendar or (bool(data.horizon) and bool(data.per_step))
    if series.is_stored and (in_memory or len(series.sample) == len(series)):
        series = series.loaded()  # few series, or inputs and targets that are computed for every row
    prepared = _from_series(config, series)
    reading, parts, notes = prepared.reading, prepared.parts, list(prepared.notes)
    assert reading is not None
    if series.channels == reading.channels:
        reading = replace(reading, reference=reference_of(series, changes=reading.relative is not None))
    source, divided = sources_of(data), prepared.divided
    if data.test:
        test, notes_on_file = second_file(reading, data, series if data.horizon else series.labeled())
        parts = replace(parts, test=test)
        divided = f"{divided}; test: {Path(data.test).name} ({counted(len(test), 'series')})"
        notes += notes_on_file
    notes = tuple(dict.fromkeys([*notes, *notes_on_parts(data, parts.test)]))
    return replace(prepared, parts=parts, reading=reading, source=source, divided=divided, notes=notes)


def _from_series(config: Config, series: Sequences) -> Prepared:
    """Divides and scales series: of a file, or given by the user."""
    data, seed = config.data, config.training.seed
    notes = list(series.notes)
    used = series if data.horizon else series.labeled()
    if gone := len(series) - len(used):
        notes.append(f"{counted(gone, 'series')} without target: not used in training.")
    if not len(used):
        raise ValueError(f"{data.source or 'X'}: no series has a target: there is nothing to learn from.")
    if used.is_stored:
        count = f"{counted(len(used.sample), 'series')} of {len(used):,}"
        notes.append(
            f"{data.source}: remarks, quantiles, the choice of a model, its linear start, baselines and the report are "
            f"based on samples ({count} in all); scaling, training and testing use all series."
        )
    used_channels = used.channels
    notes += remarks(used)
    notes += note_on_gaps(used, data.gaps)
    periods = calendar_periods(used) if data.calendar else ()
    periods += holiday_periods(used, data.holidays) if data.holidays else ()
    if data.known or periods:
        data = replace(data, channels=channels_of(used, data))
        used = with_future(with_calendar(used, periods), data.horizon, data.channels, data.known, periods)
    if data.horizon and not data.per_step:
        division = {"shares": data.shares, "by_time": by_time(used, data), "seed": seed}
        suits = data.window or default_window(used, data.horizon, channels_of(used, data), **division)
        data = replace(data, window=suits)
    raw, divided = divided_series(used, data, seed)
    _check_weights(raw)
    notes += [note for part in raw for note in part.notes]
    refit = _refits(config, raw[0], raw[1])
    fitted = together(*raw[:2]) if refit else raw[0]
    log, note = _logarithms(config, used, raw)
    scaler = _scaler(
        fitted, data, shaping(fitted, used_channels, log=log, clip_values=data.clip_values, gaps=data.gaps)
    )
    notes += note if scaler is None else (*note, *scaler.notes())
    missing = config.model.missing
    if missing is None:
        missing = (used if data.horizon else series).has_missing
    per_step = raw[0].target is not None and raw[0].target.per_step
    reading = reading_of(data, series, missing=missing, per_step=per_step)
    extended = {"channels": used.channels, "static": used.static_names, "known": data.known, "calendar": periods}
    reading = replace(reading, scaler=scaler, ranges=ranges_of(fitted), **extended)
    parts = _scaled(raw, reading)
    objective = _objective(parts.train, reading, data)
    return Prepared(parts, objective, reading, {}, series.describe(), divided, tuple(dict.fromkeys(notes)), refit)


def _check_weights(raw: Sequence[Sequences]) -> None:
    """Rejects a part whose series do not count."""
    for name, part in zip(("training", "validation", "test"), raw, strict=True):
        if part.weights is not None and len(part) and not part.weights.any():
            raise SettingError(
                f"{named('weight', ...)}: all weights of the {name} part are 0",
                argument="weight",
                cure=f"leave more series with a weight, or change {named('split')}",
            )


def linear_alone(config: Config, s: Sequences) -> bool:
    """Returns whether a forecast of these series, or windows, is by default that of the linear start alone."""
    own = config.model
    left_open = own.model == AUTO and own.start != "none" and config.training.epochs == Settings().epochs
    return left_open and is_short(s)


def _logarithms(config: Config, s: Sequences, raw: Sequence[Sequences]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the channels that are modeled as logarithms, with a note if that is not the choice of the user: a single
    short series of positive values is, unless its changes are likelier without.
    """
    data = config.data
    automatic = data.horizon and data.scale and not data.per_step and not data.log and linear_alone(config, s)
    if not automatic or not is_plain(s) or not (s.values > 0).all():
        return data.log, ()
    values = stretch_of([part for part in raw[:2] if len(part)], 0, [0], data.horizon)
    if not prefers_logarithm(values, calendar_seasons(s)):
        return data.log, ()
    note = f"{s.channels[0]} is modeled as a logarithm ({named('log', 'none')} turns this off)."
    return s.channels, (note,)


def origin_of(config: Config) -> Trained:
    """Returns the model that the config trains further."""
    from ._trained import load

    try:
        trained = load(config.model.origin)
        if trained.model.members:
            raise ValueError("an ensemble of runs cannot be trained further: pass one of its runs.")
        return trained
    except (ValueError, OSError) as error:
        raise SettingError(f"{named('origin', config.model.origin)}: {error}", argument="origin") from error


def _further(config: Config, like: Reading | None) -> Prepared:
    """Reads a file as the data of the model that is trained further, and divides it."""
    data = config.data
    if like is None:
        raise SettingError(
            f"{named('origin', config.model.origin)} was trained on a task, not on a file", argument="origin"
        )
    try:
        series = like.matched(data.source, labeled=True, labels=data.labels)
        series = sampled(series, data, config.training.seed)
    except ValueError as error:
        cure = f"(To train a new model with other columns or classes, omit {named('origin')}.)"
        raise SettingError(f"{named('origin', config.model.origin)}: {error} {cure}", argument="origin") from error
    used = series if data.horizon else series.labeled()
    if not len(used):
        raise ValueError(f"{data.source}: no series has a target: there is nothing to learn from.")
    prepared = _continued(config, used, like)
    notes = tuple(dict.fromkeys([*prepared.notes, *notes_on_parts(data, prepared.parts.test)]))
    return replace(prepared, source=sources_of(data), notes=notes)


def _continued(config: Config, series: Sequences, like: Reading) -> Prepared:
    """Divides series as `like`, and scales them with its scaler."""
    data = replace(config.data, window=like.window, stride=like.stride, channels=like.forecast_channels)
    raw, divided = divided_series(series, data, config.training.seed)
    parts = _scaled(raw, like)
    objective = _objective(parts.train, like, data)
    return Prepared(parts, objective, like, {}, series.describe(), divided, series.notes)


def _scaled(raw: Sequence[Sequences], reading: Reading) -> Parts:
    """Returns the parts, scaled."""
    scaler, compact = reading.scaler, not reading.horizon or reading.per_step
    train, valid, test = raw if scaler is None else [scaler.transform(part, compact=compact) for part in raw]
    return Parts(train, train if raw[1] is raw[0] else valid, test, scaler)


def _objective(train: Sequences, reading: Reading, data: DataConfig) -> Objective:
    """Returns what is learned from your own series, by the smoothest metric that suits them."""
    assert train.target is not None
    # Columns, or the channels that a forecast continues.
    targets = reading.forecast_channels or (() if train.target.classes is not None else train.target.names)
    objective = Objective.for_data(train, scaler=reading.scaler, positive=data.positive, targets=targets)
    return replace(objective, metric=selection_metric(objective))


def _scaler(train: Sequences, data: DataConfig, shapes: dict[str, Any]) -> Scaler | None:
    """Fits what happens to the values; None if nothing does."""
    fit: Callable[..., Scaler] = Scaler.fit
    if data.horizon and (data.log or not data.per_step):
        fit = partial(forecast_scaler, channels=channels_of(train, data))
    if data.scale:
        return fit(train, dt=data.scale_time, **shapes)
    scaler = fit(train, skip=train.channels, target=False, **shapes)
    return scaler if scaler.shapes or scaler.gaps is not None else None


def _refits(config: Config, train: Sequences, valid: Sequences) -> bool:
    """Returns whether training and validation series are trained on together, and so scaled together."""
    if train is valid:
        return False
    if config.training.refit is not None or config.model.model != AUTO or config.data.horizon:
        return bool(config.training.refit)
    return can_race(train, valid) and len(train) + len(valid) < SMALL
