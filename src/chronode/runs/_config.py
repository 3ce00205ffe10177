"""Configuration of a run as plain data: sections for data, model and training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar, get_type_hints

from ..data import CLIP, GAPS, PARTS, VALIDATION, kinds_of
from ..settings import SettingError, about, check_declared, declared, named, near, option, percents, setting_named
from ..storage import parse
from ..training import AUTO, STARTS, WITHOUT_EFFECT, Settings, seconds_of

Section = TypeVar("Section")

_EXPONENT = re.compile(r"[+-]?\d+\.?\d*[eE][+-]?\d+")


@declared
@dataclass(frozen=True)
class DataConfig:
    """Source of the series, their target and their split.

    Attributes:
        source: File, or name of a task.
        target: Target column(s).
        id: Column that identifies the series; without it the file is one series. The command line guesses it.
        labels: Second file with the target of each id, or of each id and time, in columns of the same names.
        time: Column of times; without it, steps are counted. The command line guesses it.
        group: Column whose groups no split may divide, such as a hospital; the id by default.
        weight: Column with the weight of each series in the loss and the metrics, one number per id; equal by default.
        columns: Value columns; all others by default.
        static: Columns with one value per series, such as age or sex; numbers or text. The command line guesses them.
        ignore: Columns to leave out.
        time_unit: Unit of time, such as "hours" or "100 ms", or a number if times are numbers; by default the unit that
            makes the median gap about 1.
        time_format: Format of the times, such as "%d/%m/%Y %H:%M", "number" or "epoch ms"; detected by default.
        duplicates: Treatment of rows with the same id and time: "merge", "keep" or "error".
        categorical: Treatment of text in value columns: "error", "codes" or "onehot".
        empty: Treatment of columns without any value: "drop", "keep" or "error".
        kind: Kind of target: "class", "value" or "auto"; of several targets also a list such as sick=class,days=value.
        positive: Positive one of two classes, to which f1, auprc, sensitivity and specificity refer; by default the
            rarer one in the training part.
        per_step: Whether every step has a target; by default if it changes within a series.
        channel: For files with one reading per row: column with the name of the channel.
        value: For files with one reading per row: column with the reading.
        order: Axes of the values of an .npz file: "NTD" or "NDT"; the options for target, id, time, group and lengths
            then name arrays.
        lengths: Array with the number of steps of each series in a padded .npz file.
        missing_values: Texts or numbers that mean a missing value, such as -999 or "<0.5", besides empty cells and NA.
        row_per_series: Whether every row is a series and the columns are its steps, as in the UCR archive.
        sheet: Sheet of an Excel file; the first by default.
        table: Table of a DuckDB or SQLite file; by default its only one.
        query_sql: Query of a DuckDB or SQLite file, in place of a table.
        skip_bad: Whether files of a folder that cannot be read are left out.
        delimiter: Separator of the cells of a text file; detected by default.
        decimal: Decimal point of a text file; detected by default.
        thousands: Thousands separator of a text file; detected by default.
        encoding: Text encoding of the file; detected by default.
        names: Names of the columns of a text file without a header line.
        comment: Prefix of comment lines of a text file; "#" by default if the first line begins with it.
        horizon: Number of next steps to forecast instead of a target, or on the command line a duration such as 7d or
            2w; 0 for a target. A forecast is learned from overlapping windows; with --per-step, at every step of whole
            series.
        channels: Channels to forecast; all by default.
        known: For forecasts, columns whose future values are known, such as price or holiday. `predict` reads them from
            rows after the last value to forecast.
        calendar: For forecasts, whether hour of the day, day of the week and day of the year are inputs, as sines and
            cosines; those that the dates resolve and cover twice.
        holidays: For forecasts, country or subdivision whose public holidays are inputs, such as "US", "US-CA" or "DE":
            whether a day is one, and how near one is. It needs the extra `holidays`.
        intervals: Levels of the prediction intervals of a forecast, in percent; `chronode predict` writes them.
        window: Number of steps of the windows that series are cut into; 0 for whole series, and for forecasts a number
            that suits the horizon and the season.
        stride: Steps from the start of one window to the next; the length of the window by default, 1 for forecasts.
        sample: Number of series that are used, or their share if it is less than 1; they are drawn at random, whole
            groups at a time, before they are divided into parts.
        split: Shares of training, validation and test. 0 for no test part, or for no validation part: the training
            series then choose the best epoch. Two shares are training, of which a part is held out for validation,
            and test; with --test, training and validation.
        test: File with the test series, read with the same options; the others are then training and validation.
        split_by: "group" (no group in two parts), "time" (training comes first), or "auto": by group if there are at
            least three, but a forecast of long regular series by time.
        scale: Whether channels and numeric targets are scaled to mean 0 and standard deviation 1 of the training part.
        scale_time: Whether times are divided by the median gap of the training part.
        log: Channels with positive values or counts that are modeled as logarithms, or "all"; of 1 + value if zeros
            occur. Forecasts, intervals and metrics are in the original units. By default, a single short series of
            positive values is, if that suits its changes; "none" turns this off.
        clip_values: Whether values are clipped to the 0.5 to 99.5% range of each channel in the training part: "on",
            "off", or "auto" for channels with values more than 20 times that range beyond it.
        gaps: Gaps of more than 50 times the median: "keep", "cap" (shorten them to 50 times the median) or "log" (all
            gaps on a logarithmic scale).
        guess: Whether columns without a role get one by their names and values: id, time, static columns, text.
        protocol: Protocol of a task: "clean" or "paper".
        options: Options of a task: NAME=VALUE.

    Example:
        >>> DataConfig("a.csv", target=("outcome",), id="patient").target
        ('outcome',)
    """

    source: str = ""
    target: tuple[str, ...] = option((), "Target", "outcome")
    id: str | None = option(None, "Data", "patient")
    labels: str | None = option(None, "Target", "outcomes.csv")
    time: str | None = option(None, "Time", "charted_at")
    group: str | None = option(None, "Data", "hospital")
    weight: str | None = option(None, "Target", "share")
    columns: tuple[str, ...] = option((), "Data", "hr,temp")
    static: tuple[str, ...] = option((), "Data", "age,sex")
    ignore: tuple[str, ...] = option((), "Data", "comment")
    time_unit: str | None = option(None, "Time", "hours")
    time_format: str | None = option(None, "Time", "%d/%m/%Y")
    duplicates: str = option("merge", "Data", "keep")
    categorical: str = option("error", "Data", "onehot")
    empty: str = option("drop", "Data", "keep")
    kind: str = option("auto", "Target", "value")
    positive: str | None = option(None, "Target", "ill")
    per_step: bool | None = option(None, "Target", "--per-step")
    channel: str | None = option(None, "Data", "parameter")
    value: str | None = option(None, "Data", "reading")
    order: str | None = option(None, "Data", "NTD")
    lengths: str | None = option(None, "Data", "lengths")
    missing_values: tuple[str, ...] = option((), "Data", "-999,n/a", "--missing")
    row_per_series: bool = option(False, "Data", "--row-per-series")
    sheet: str | None = option(None, "Data", "Sheet2")
    table: str | None = option(None, "Data", "readings")
    query_sql: str | None = option(None, "Data", "'SELECT * FROM readings WHERE ward = 7'")
    skip_bad: bool = option(False, "Data", "--skip-bad")
    delimiter: str | None = option(None, "Data", ";")
    decimal: str | None = option(None, "Data", ",")
    thousands: str | None = option(None, "Data", ".")
    encoding: str | None = option(None, "Data", "cp1252")
    names: tuple[str, ...] = option((), "Data", "patient,day,pulse")
    comment: str | None = option(None, "Data", "%")
    horizon: int = option(0, "Target", 28, "--forecast", "--horizon", at_least=0)
    channels: tuple[str, ...] = option((), "Target", "units")
    known: tuple[str, ...] = option((), "Target", "price,holiday")
    calendar: bool = option(False, "Target", "--calendar")
    holidays: str | None = option(None, "Target", "US")
    intervals: tuple[float, ...] = option((), "Target", "80,95")
    window: int = option(0, "Data", 200, at_least=0)
    stride: int = option(0, "Data", 100, at_least=0)
    sample: float | None = option(None, "Data", "10000", above=0)
    split: tuple[float, ...] = option(PARTS, "Data", "0.6,0.2,0.2")
    test: str = option("", "Data", "ward_b.csv")
    split_by: str = option("auto", "Data", "time", choices=("auto", "group", "time"))
    scale: bool = option(True, "Data", "--no-scale")
    scale_time: bool = option(False, "Time", "--scale-time")
    log: tuple[str, ...] = option((), "Data", "units,visits")
    clip_values: str = option("auto", "Data", "off", choices=CLIP)
    gaps: str = option("keep", "Time", "cap", choices=GAPS)
    guess: bool = option(True, "Data", "--no-guess")
    protocol: str = option("clean", "Data", "paper")
    options: dict[str, Any] = field(default_factory=dict, metadata=about("Data", "length=200", "--option"))

    def __post_init__(self) -> None:
        check_declared(self)
        _check_shares(self.split, bool(self.test))
        kinds_of(self.kind, self.target)
        if self.horizon and self.target:
            raise SettingError(
                f"{named('horizon', ...)} predicts the next values of channels",
                argument="horizon",
                cure=f"pass {named('channels', self.target)} instead of {named('target', self.target)}",
            )
        for name in ("weight", "labels"):
            if getattr(self, name) and self.horizon:
                raise SettingError(
                    f"{named(name, getattr(self, name))} belongs to a target, and {named('horizon', self.horizon)} has "
                    f"none: omit {named(name)}.",
                    argument=name,
                )
        for name in ("channels", "known", "calendar", "holidays", "intervals"):
            if getattr(self, name) and not self.horizon:
                raise SettingError(f"{named(name, ...)} needs {named('horizon', 1)} (or more steps).", argument=name)
        for name in ("intervals", "known", "calendar", "holidays"):
            if getattr(self, name) and self.per_step:
                raise SettingError(
                    f"{named(name, ...)} needs a forecast from windows: omit {named('per_step')}.", argument=name
                )
        object.__setattr__(self, "intervals", percents("intervals", self.intervals))
        if self.stride and not self.window and not self.horizon:
            raise SettingError(f"{named('stride', ...)} needs {named('window', ...)}", argument="stride")
        if bool(self.channel) != bool(self.value):
            raise SettingError(
                f"{named('channel', ...)} and {named('value', ...)} must be given together.", argument="channel"
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of training, validation and test.

        Two shares are training and test. Validation is then held out of training as the estimators do.
        """
        if self.test:
            train, valid = self.split[:2]
            return train / (train + valid), valid / (train + valid), 0.0
        if len(self.split) == 2:
            train, test = self.split
            return train * (1 - VALIDATION), train * VALIDATION, test
        return self.split


@declared
@dataclass(frozen=True)
class ModelConfig:
    """Model and its size.

    Attributes:
        model: Name of the model (`chronode models` lists them), or "auto": a short race of a few models on the
            validation part chooses one.
        hidden_size: Units per layer; by default 64, or chosen by the race.
        num_layers: Number of layers; 1 by default.
        missing: Whether values may be missing; by default if some are missing in the data.
        settings: Settings of the layer (dropout, bidirectional, residual, memory, pool) and of the model: NAME=VALUE.
        start: "linear" (a linear model is fitted first, and the network learns the residuals), "summaries" (the same
            with features that live data and exports update step by step), "stacked" (several linear models and
            gradient boosting) or "none"; linear by default for forecasts and with model auto.
        budget: Approximate time of the race of models, such as "90s" or "2m".
        ensemble: Number of networks whose outputs are averaged; a race compares single ones.
        purpose: Use that the model must be fit for: "stream" (live data), "export" (C, ONNX, torch.export) or "any". It
            changes the automatic choice: a start that is updated step by step, and no static columns.
        origin: Run whose model is trained further: its weights, scaling and classes are kept.

    Example:
        >>> ModelConfig("ltc", hidden_size=32).hidden_size
        32
    """

    model: str = option(AUTO, "Model", "ltc")
    hidden_size: int | None = option(None, "Model", 128, "--hidden-size", "--hidden", at_least=1)
    num_layers: int | None = option(None, "Model", 2, "--num-layers", "--layers", at_least=1)
    missing: bool | None = option(None, "Model", "--allow-missing", "--allow-missing/--no-allow-missing")
    settings: dict[str, Any] = field(default_factory=dict, metadata=about("Model", "dropout=0.1", "--set"))
    start: str | None = option(None, "Model", "linear", choices=STARTS)
    budget: str = option("1m", "Model", "2m")
    ensemble: int = option(1, "Model", 4, at_least=1)
    purpose: str = option("any", "Model", "stream", "--for", choices=("any", "stream", "export"))
    origin: str = option("", "Model", "runs/vitals-1", "--from")

    def __post_init__(self) -> None:
        check_declared(self)
        seconds_of(self.budget)


@dataclass(frozen=True)
class Config:
    """Complete configuration of a run.

    Attributes:
        data: Section of the data.
        model: Section of the model.
        training: Section of the training.

    Example:
        >>> config = Config.from_dict({"data": {"source": "a.csv", "target": "y"}, "training": {"epochs": 3}})
        >>> config.data.target, config.training.epochs, Config.from_dict(config.as_dict()) == config
        (('y',), 3, True)
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: Settings = field(default_factory=Settings)

    def as_dict(self) -> dict[str, Any]:
        """Returns the config as plain data for YAML and JSON."""
        values = {"data": asdict(self.data), "model": asdict(self.model), "training": self.training.as_dict()}
        return {name: _listed(section) for name, section in values.items()}

    @classmethod
    def from_dict(cls, description: Any) -> Config:
        """Returns the config that `as_dict` described; missing values have their defaults."""
        return cls().with_values(description)

    def with_values(self, changes: Any) -> Config:
        """Returns the config with the given values, by section."""
        if not isinstance(changes, Mapping):
            raise ValueError("a config must be a mapping with the sections data, model and training.")
        sections: dict[str, Any] = {}
        for name, values in changes.items():
            if name not in SECTIONS:
                raise ValueError(
                    f"a config has no section {name!r}; its sections are data, model and training.{_home(name)}"
                )
            if not isinstance(values, Mapping):
                raise ValueError(f"{name} must be a mapping, got {str(values)[:60]!r}.")
            sections[name] = _changed(getattr(self, name), values, name)
        return replace(self, **sections)


SECTIONS: dict[str, type[Any]] = {"data": DataConfig, "model": ModelConfig, "training": Settings}
"""Sections of a config."""


def _check_shares(shares: tuple[float, ...], with_test: bool) -> None:
    """Rejects shares that do not describe parts."""
    meant = named("split", ",".join(f"{share:g}" for share in shares))
    if with_test and len(shares) == 3 and shares[2] and shares != PARTS:
        raise SettingError(
            f"{meant} has a share for test, which is {named('test', ...)} already: pass two shares.", argument="split"
        )
    if len(shares) not in (2, 3) or abs(sum(shares) - 1) > 1e-6 or min(shares) < 0:
        raise SettingError(
            f"{meant} must be the shares of training, validation and test, or of training and test, that add up to 1.",
            argument="split",
        )
    if not shares[0]:
        raise SettingError(f"{meant}: the share of training must not be 0.", argument="split")


def _changed(section: Section, values: Mapping[str, Any], where: str) -> Section:
    kinds = get_type_hints(type(section))
    values = {setting_named(name, type(section)): value for name, value in values.items() if name not in WITHOUT_EFFECT}
    for name in values:
        if name not in kinds:
            raise ValueError(f"{where} has no setting {name!r}.{near(name, kinds) or _home(name)}")
    taken = {name: _taken(value, str(kinds[name])) for name, value in values.items()}
    taken = {name: _parsed(kinds[name], name, value, where) for name, value in taken.items()}
    return replace(section, **taken)  # pyrefly: ignore


def _parsed(kind: Any, name: str, value: Any, section: str) -> Any:
    shown = named(name)
    try:
        return parse(kind, value, f"{section}.{name}" if shown == name else shown)
    except ValueError as error:
        raise SettingError(str(error), argument=name) from error


def _taken(value: Any, kind: str) -> Any:
    """Converts a YAML value for the field: lists become tuples, a single name a list."""
    if isinstance(value, Mapping):
        return {name: exponent(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(exponent, value)) if "float" in kind else tuple(value)
    if kind.startswith("tuple"):
        return () if value is None else (value,)
    if kind == "str | None" and value is not None:
        return str(value)
    return exponent(value) if "float" in kind else value


def exponent(value: Any) -> Any:
    """Converts a number that YAML reads as text because its exponent has no decimal point (1e-3).

    Example:
        >>> exponent("1e-3"), exponent("euler"), exponent(2)
        (0.001, 'euler', 2)
    """
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def _home(name: str) -> str:
    """Returns the section to which a misplaced name belongs."""
    sections = [section for section, cls in SECTIONS.items() if setting_named(name, cls) in cls.__dataclass_fields__]
    return f" {name!r} belongs to {sections[0]}." if sections else ""


def _listed(section: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in section.items()}
