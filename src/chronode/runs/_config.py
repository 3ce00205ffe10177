"""What a training is asked to do, as plain data: a section for the data, one for the model, one for the training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar, get_type_hints

from .._checks import flag, near, one_of, whole
from .._schema import parse
from ..data._split import PARTS
from ..training._settings import Settings

Section = TypeVar("Section")

_EXPONENT = re.compile(r"[+-]?\d+\.?\d*[eE][+-]?\d+")


@dataclass(frozen=True)
class DataConfig:
    """Where the series come from, what is learnt of them, and how they are divided.

    Attributes:
        source: a file, or the name of a task.
        target: the column(s) to learn.
        id: the column that tells series apart; without it the file is one series.
        time: the column of times; without it steps count.
        group: the column with what no split may divide, such as the hospital; by default the id.
        columns: the value columns; by default all others.
        ignore: columns to leave out.
        time_unit: "hours", "100 ms", or a size for times that are numbers; by default the median gap is about 1.
        time_format: format of the times, such as "%d/%m/%Y %H:%M", "number" or "epoch ms"; by default it is found.
        duplicates: rows of one id and time: "merge", "keep" or "error".
        categorical: text among the value columns: "error", "codes" or "onehot".
        empty: a column without any value: "drop", "keep" or "error".
        kind: of the target: "class", "value" or "auto".
        per_step: a target at every step; by default if it changes within an id.
        channel: with a row per reading: the column that says what was read.
        value: and the column with the reading.
        order: of the values of an .npz file: "NTD" or "NDT"; target, id, time, group and lengths then name arrays.
        lengths: of an .npz file with padding: the array with the steps of each series.
        missing_values: texts or numbers that mean a missing value, such as -999 or "<0.5", besides empty cells and NA.
        row_per_series: every row is a series and the columns are its steps, as in the UCR archive.
        sheet: sheet of an Excel file; by default the first.
        delimiter: separator of the cells of a text file; by default it is found.
        decimal: decimal point of a text file; by default it is found.
        thousands: thousands separator of a text file; by default it is found.
        encoding: text encoding of the file; by default it is found.
        comment: what comment lines of a text file begin with; by default "#" if the first line does.
        forecast: learn the values of so many next steps instead of a target; 0 for a target.
        channels: what to forecast; by default all channels.
        window: cut series into windows of so many steps; 0 for whole series.
        stride: steps from one window's start to the next; by default the window.
        split: the shares of training, validation and test.
        split_by: "group" (no group in two parts), "time" (training comes first), or "auto": by group if there are
            three or more.
        scale: bring channels and number targets to mean 0 and deviation 1, as in the training part.
        scale_time: divide times by the training part's median gap.
        protocol: of a task: "clean" or "paper".
        options: of a task: NAME=VALUE.

    Example:
        >>> DataConfig("a.csv", target=("outcome",), id="patient").target
        ('outcome',)
    """

    source: str = ""
    target: tuple[str, ...] = ()
    id: str | None = None
    time: str | None = None
    group: str | None = None
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    time_unit: str | None = None
    time_format: str | None = None
    duplicates: str = "merge"
    categorical: str = "error"
    empty: str = "drop"
    kind: str = "auto"
    per_step: bool | None = None
    channel: str | None = None
    value: str | None = None
    order: str | None = None
    lengths: str | None = None
    missing_values: tuple[str, ...] = ()
    row_per_series: bool = False
    sheet: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    comment: str | None = None
    forecast: int = 0
    channels: tuple[str, ...] = ()
    window: int = 0
    stride: int = 0
    split: tuple[float, ...] = PARTS
    split_by: str = "auto"
    scale: bool = True
    scale_time: bool = False
    protocol: str = "clean"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("forecast", "window", "stride"):
            whole(name, getattr(self, name), at_least=0)
        one_of("split_by", self.split_by, ("auto", "group", "time"))
        for name in ("scale", "scale_time"):
            flag(name, getattr(self, name))
        if len(self.split) != 3:
            raise ValueError(f"split needs three shares (training, validation, test), got {list(self.split)}.")
        if self.forecast and self.target:
            raise ValueError("forecast learns the next values of channels: leave the target out, or the forecast.")
        if self.channels and not self.forecast:
            raise ValueError("channels says what to forecast: give forecast=1 (or more steps) with it.")
        if self.stride and not self.window:
            raise ValueError("stride goes with window.")
        if bool(self.channel) != bool(self.value):
            raise ValueError("channel and value go together: a row per reading has both.")


@dataclass(frozen=True)
class ModelConfig:
    """Which model.

    Attributes:
        model: a name of `chronode models`.
        hidden: units of each layer.
        layers: stacked on each other.
        missing: ready for missing values; by default if the data miss some.
        settings: the layer's (dropout, bidirectional, residual, memory) and the model's own: NAME=VALUE.

    Example:
        >>> ModelConfig("ltc", hidden=32).hidden
        32
    """

    model: str = "mmrnn"
    hidden: int = 64
    layers: int = 1
    missing: bool | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("hidden", "layers"):
            whole(name, getattr(self, name), at_least=1)
        if self.missing is not None:
            flag("missing", self.missing)


@dataclass(frozen=True)
class Config:
    """All that a training is asked to do.

    Attributes:
        data: the series.
        model: what learns.
        training: how.

    Example:
        >>> config = Config.from_dict({"data": {"source": "a.csv", "target": "y"}, "training": {"epochs": 3}})
        >>> config.data.target, config.training.epochs, Config.from_dict(config.as_dict()) == config
        (('y',), 3, True)
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: Settings = field(default_factory=Settings)

    def as_dict(self) -> dict[str, Any]:
        """For YAML and JSON."""
        told = {"data": asdict(self.data), "model": asdict(self.model), "training": self.training.as_dict()}
        return {name: _listed(section) for name, section in told.items()}

    @classmethod
    def from_dict(cls, told: Any) -> Config:
        """The config that `as_dict` told; what is left out has its default."""
        return cls().with_values(told)

    def with_values(self, told: Any) -> Config:
        """The same with other values for what `told` names, in sections."""
        if not isinstance(told, Mapping):
            raise ValueError("a config has the sections data, model and training, each with names and values.")
        sections: dict[str, Any] = {}
        for name, values in told.items():
            if name not in ("data", "model", "training"):
                raise ValueError(f"a config has no section {name!r}: it has data, model and training.{_home(name)}")
            if not isinstance(values, Mapping):
                raise ValueError(f"{name} must hold names and values, got {str(values)[:60]!r}.")
            sections[name] = _changed(getattr(self, name), values, name)
        return replace(self, **sections)


def _changed(section: Section, values: Mapping[str, Any], where: str) -> Section:
    kinds = get_type_hints(type(section))
    for name in values:
        if name not in kinds:
            raise ValueError(f"{where} has no setting {name!r}.{near(name, kinds) or _home(name)}")
    taken = {name: _taken(value, str(kinds[name])) for name, value in values.items()}
    taken = {name: parse(kinds[name], value, f"{where}.{name}") for name, value in taken.items()}
    try:
        return replace(section, **taken)  # pyrefly: ignore
    except (ValueError, TypeError) as error:
        raise type(error)(f"{where}: {error}") from error


def _taken(value: Any, kind: str) -> Any:
    """A value of YAML as the field holds it: lists are tuples, one name is a list of one."""
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
    """A number where YAML sees text because it has an exponent without a point: 1e-3; else the value itself.

    Example:
        >>> exponent("1e-3"), exponent("euler"), exponent(2)
        (0.001, 'euler', 2)
    """
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def _home(name: str) -> str:
    """Where a misplaced name belongs."""
    homes = {"data": DataConfig, "model": ModelConfig, "training": Settings}
    found = [section for section, cls in homes.items() if name in {f.name for f in fields(cls)}]
    return f" {name!r} belongs to {found[0]}." if found else ""


def _listed(section: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in section.items()}
