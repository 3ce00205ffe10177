"""Options and arguments that several commands share: data, run folder, plugins, workers, output folder.

A file or folder that does not exist is refused here, before torch is imported.
"""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..runs import Config
from ..settings import SettingError, named, near, one_of
from ..storage import check_text

if TYPE_CHECKING:
    from ..search.engine import Engine


_OF_FILES = (".csv", ".gz", ".json", ".jsonl", ".npz", ".parquet", ".ts", ".tsv", ".txt", ".zip")
_ON_THE_WEB = ("http://", "https://", "ftp://", "s3://", "gs://")


def check_source(source: str | None) -> str | None:
    """Refuses a file that does not exist; a name without such a suffix may be a task of a plugin."""
    path = Path(source or "")
    if (source or "").lower().startswith(_ON_THE_WEB):
        raise ValueError(f"{source} is a web address: download it first, for example with curl -LO {source}")
    if path.suffix in _OF_FILES and not path.exists() and not set("*?[") & set(str(path)):
        siblings = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise ValueError(f"{path}: no such file.{near(path.name, siblings)}")
    return source


def check_folder(folder: Path | None) -> Path | None:
    """Refuses a run that does not exist."""
    if folder is not None and not folder.exists():
        raise ValueError(f"folder {folder} does not exist.")
    return folder


def check_order(command: str, run: Path, data: str | None) -> None:
    """Refuses a file and a run that were given in the wrong order."""
    if run.suffix in _OF_FILES and run.is_file() and data is not None and (Path(data) / "run.json").is_file():
        raise ValueError(f"arguments swapped: the run comes first: chronode {command} {data} {run}")


DataSource = Annotated[
    str | None, typer.Argument(help="File, as for `train`, or the name of a task.", callback=check_source)
]
RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Run folder, or a file written by `chronode pack`.", callback=check_folder),
]
OneTarget = Annotated[
    str | None, typer.Option("--target", help="Target that is meant, for a run with several. [example: outcome]")
]
StateFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the states of all ids: read if it exists, written at intervals and at the end. Only one "
        "process can use it at a time. [example: ward.state]"
    ),
]
SaveEvery = Annotated[
    str,
    typer.Option(
        "--save-every", "--save-seconds", help="Time between two writes of the state file, such as 30s or 5m."
    ),
]
Late = Annotated[
    str,
    typer.Option(
        help="What to do with late observations of an id: refuse (an error), ignore, or "
        "repeat (answer with the newest prediction of the id)."
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(help="Drop ids that are this much older than the newest, in the model's unit of time. [example: 48]"),
]
Ahead = Annotated[
    float | None,
    typer.Option(
        help="Refuse observations that are this much ahead of the machine's clock (for dates; by default a day) or "
        "of the newest time of the stream (for numbers), in the model's unit of time; inf for no limit. "
        "[example: 2]"
    ),
]
ConfigFile = Annotated[Path | None, typer.Option(help="YAML file with settings, as for `train`. [example: small.yaml]")]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Second file with the target of each id, or of each id and time. [example: outcomes.csv]",
        callback=check_source,
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        min=0,
        help="Number of models trained at a time, each in its own process; 0 trains one after another in this one.",
        rich_help_panel="Workers",
    ),
]
EngineName = Annotated[str, typer.Option("--engine", help="Training engine: local or ray.", rich_help_panel="Workers")]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of a Ray cluster; by default one is started here. [example: head:6379]", rich_help_panel="Workers"
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py|MODULE",
        help="Python file or module that registers cells of your own; may be repeated.  [example: my_cells.py]",
        rich_help_panel="Model",
    ),
]


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --plugin to a command; the plugins are loaded before it runs."""
    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)

    @functools.wraps(command)
    def run(*arguments: Any, plugin: list[str] | None = None, **options: Any) -> None:
        from ..system import load_plugin

        for name in plugin or []:
            try:
                load_plugin(name)
            except ValueError as error:
                raise ValueError(f"--plugin: {error}") from error
        command(*arguments, **options)

    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # pyrefly: ignore
    return run


def engine_for(name: str, workers: int, address: str | None, *, fresh: bool = False) -> Engine:
    """Returns the engine that --engine, --workers and --address describe."""
    from ..search.engine import ENGINES, Engine

    one_of("--engine", name, ENGINES)
    if address is not None and name != "ray":
        raise ValueError("--address is the address of a Ray cluster: add --engine ray.")
    return Engine(name, workers, address, fresh=fresh)


def folder_for(command: str, source: str, output: Path | None, *more: str) -> Path:
    """Returns the folder named by the user, or runs/COMMAND-NAME-MORE.

    Example:
        >>> print(folder_for("sweep", "data/vitals.csv.gz", None, "ltc"))
        runs/sweep-vitals-ltc
    """
    if output is not None:
        return check_text(output, "--output")
    return Path("runs") / "-".join([command, Path(source).name.split(".")[0], *more])


def this_command() -> str:
    """Returns the command line of this process, as it can be typed again."""
    return shlex.join(["chronode", *sys.argv[1:]])


_OTHER_LAYOUTS = ("row_per_series", "channel", "order")


def guessed(config: Config, console: Console) -> Config:
    """Returns the config with roles for the columns that have none, and prints them as the options that say the same;
    the columns of a store have the roles with which it was packed.

    Names of columns that the file does not have are refused.
    """
    from ..data import guess_file, is_store

    data, path = config.data, Path(config.data.source)
    if config.model.origin:  # the columns are those of the model that is trained further
        return config
    if is_store(path):
        from ..runs import as_packed

        return replace(config, data=as_packed(data))
    if not path.is_file() or any(getattr(data, name) for name in _OTHER_LAYOUTS):
        return config
    given = {field.name: getattr(data, field.name) for field in fields(data)}
    given = {name: value for name, value in given.items() if value != getattr(type(data)(), name)}
    guess = guess_file(path, given, forecast=bool(data.horizon), wanted=data.guess)
    if config.model.purpose != "any":  # single observations have no static values: those columns are channels
        guess = replace(guess, options={name: value for name, value in guess.options.items() if name != "static"})
    if guess.options:
        options = " ".join(named(name, value) for name, value in guess.options.items())
        series = f" ({guess.series:,} series)" if guess.series > 1 else ""
        line = f"guessed: {options}{series}; other options override this, --no-guess omits it"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return config.with_values({"data": guess.options})


def steps_ahead(text: str, source: str, given: dict[str, Any]) -> int:
    """Returns the number of steps of a duration such as "7d" or "2 weeks" in the file to forecast."""
    from ..data import file_gap, seconds_of

    if text.isdecimal():
        return int(text)
    try:
        seconds = seconds_of(text)[1]
    except ValueError:
        raise SettingError(
            f"{named('horizon', text)} must be a number of steps or a duration such as 7d, 2w or 36h.",
            argument="horizon",
        ) from None
    gap = file_gap(Path(source), {name: value for name, value in given.items() if value is not None})
    if gap is None:
        raise SettingError(
            f"{named('horizon', text)} needs dates",
            argument="horizon",
            place=source,
            cure=f"name their column with {named('time', ...)}, or pass a number of steps",
        )
    return max(1, round(seconds / gap))
