"""`chronode train`: trains a model on a file or a task and writes a run folder."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..runs import Config
from ..settings import SettingError, error_at, named, naming_options
from ..storage import check_text
from ..training import AUTO, Settings
from . import flags
from .options import Address, EngineName, check_folder, check_source, engine_for, guessed, steps_ahead, with_plugins

if TYPE_CHECKING:
    from ..runs import Outcome
    from ..search.engine import Engine
    from ..training import Event, Helpers, ProgressBar


RUNS = "runs"


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(cls=flags.PanelCommand)(with_plugins(flags.with_settings(train)))


def train(
    data: Annotated[
        str | None,
        typer.Argument(help="File (docs/files.md shows the formats), - for standard input, or the name of a task."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Run folder; by default runs/NAME-1, -2, ... [example: runs/first]"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML file with settings; command-line options override it. [example: small.yaml]"),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print all settings as YAML without training.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the run in this folder. [example: runs/vitals-1]", callback=check_folder)
    ] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="Also train lstm-dt for comparison.")] = False,
    logger: Annotated[
        str,
        typer.Option(
            help="Also log every epoch to csv, tensorboard, wandb or mlflow, or to several. [example: csv,wandb]"
        ),
    ] = "",
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON; everything else goes to stderr.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Same as --devices. [example: 4]", rich_help_panel="Workers"),
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    **given: Any,
) -> None:
    """Train a model on a file of series, or on a task.

    Only a file and a target are needed. The file has a row per id and time; empty cells are missing values.

    Example: chronode train vitals.csv --target outcome --id patient --time charted_at --epochs 20

    Example: chronode train --resume runs/vitals-1
    """
    if not print_config:
        check_source(data)
    if workers is not None:
        given["devices"] = workers
    place = engine_for(engine, 0, address)
    console = Console(stderr=json)
    loggers = _loggers(logger)
    try:
        if resume is not None:
            _refuse_with_resume({"--output": output, "--config": config, "--baseline": baseline or None}, given)
            return _resume(resume, data, flags.values(Settings, given), loggers, console, json, place)
        asked = effective(data, config, given)
        if print_config:
            return print(as_yaml(asked), end="")
        from ..data import is_pipe, keep

        if is_pipe(asked.data.source):
            asked = asked.with_values({"data": {"source": str(keep(asked.data.source, RUNS))}})
        _new(asked, output, baseline, loggers, console, json, place)
    except KeyboardInterrupt as error:  # before there is anything to resume
        typer.echo("stopped", err=True)
        raise typer.Exit(1) from error


def effective(data: str | None, file: Path | None, given: dict[str, Any], console: Console | None = None) -> Config:
    """Returns the config: defaults, then the file, then the flags. With a console, roles of columns are guessed and
    printed there.
    """
    asked = Config()
    if file is not None:
        content = read_config(file)
        try:
            with naming_options(False):  # the keys of the file, not the options
                asked = asked.with_values(content)
        except (ValueError, TypeError) as error:
            raise error_at(file, error) from error
    source = data or asked.data.source
    if origin := given.get("origin"):
        asked = _further(source, origin, given)
    if given.get("horizon") is not None:
        given = {**given, "horizon": steps_ahead(given["horizon"], source, given)}
    sections = {name: flags.values(section, given) for name, section in flags.SECTIONS.items()}
    if given.get("options"):
        sections["data"]["options"] = {**asked.data.options, **_task_options(source, given["options"])}
    if given.get("settings"):
        sections["model"]["settings"] = {**asked.model.settings, **sections["model"]["settings"]}
    sections["data"]["source"] = source
    asked = asked.with_values(sections)
    return asked if console is None else guessed(asked, console)


def _further(source: str, origin: str, given: dict[str, Any]) -> Config:
    """Returns the config for training a model further; rejects options that belong to its first training."""
    from ..runs import DataConfig, ModelConfig, fine_tuning

    fixed = {**DataConfig.__dataclass_fields__, **ModelConfig.__dataclass_fields__}
    free = ("origin", "sample", "split", "labels")
    wrong = [name for name in fixed if name not in free and given.get(name) is not None]
    if wrong:
        raise SettingError(
            f"{named('origin', origin)} keeps the columns and the model of that run",
            argument=wrong[0],
            cure=f"omit {', '.join(named(name) for name in wrong)}, or train a new model without {named('origin')}",
        )
    if not source:
        raise ValueError("no data given: pass a file, `chronode train NEW_FILE --from RUN`.")
    check_folder(Path(origin))
    return fine_tuning(origin, source)


def _task_options(source: str, given: list[str]) -> dict[str, Any]:
    from ..training import find_task

    return find_task(source).read_options(given)


def read_config(path: Path) -> dict[str, Any]:
    """Reads a config file as plain data."""
    from ..storage import read_yaml

    content = read_yaml(path)
    if content is not None and not isinstance(content, dict):
        raise ValueError(f"{path}: a config has the sections data, model and training, not a {type(content).__name__}.")
    return content or {}


def as_yaml(config: Config) -> str:
    """Formats the whole config for --config."""
    import yaml

    return yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)


def _loggers(given: str) -> tuple[str, ...]:
    """Returns the loggers by name; refuses what cannot be used before anything is read."""
    if not given:
        return ()
    from ..runs import check_loggers

    return check_loggers(flags.words(given))


def _new(
    asked: Config,
    output: Path | None,
    baseline: bool,
    loggers: tuple[str, ...],
    console: Console,
    as_json: bool,
    engine: Engine,
) -> None:
    if output is not None:
        check_text(output, "--output")
    asked = guessed(asked, console)  # and what it refuses, before torch is imported
    from ..report.run_page import draw_run
    from ..runs import STRONG_BASELINE, assemble_run, choose, next_folder, prepare, train_run
    from ..training import ProgressBar
    from .outcome import show_prepared, show_race

    prepared = prepare(asked)
    show_prepared(console, asked, prepared)
    leaves_open = asked.model.model == AUTO
    asked, race = choose(asked, prepared, on_event=partial(_say_candidate, console))
    if leaves_open or race is not None:
        show_race(console, asked, prepared, race)
    assembly = assemble_run(asked, prepared, race=race)  # refuses what cannot be trained before a folder is created
    folder = output or next_folder(RUNS, Path(asked.data.source).name.split(".")[0])
    content: dict[str, Any] = {"prepared": prepared, "assembly": assembly, "baseline": baseline, "draw": draw_run}
    content |= {"loggers": loggers, "race": race}
    bar = ProgressBar(asked.training.epochs, console.file, labels=[asked.model.model, STRONG_BASELINE])
    work = partial(train_run, asked, folder, command=sys.argv[1:], on_event=bar, **content)
    with _helpers(engine, asked.training) as helpers:
        _run(partial(work, helpers=helpers), bar, console, folder, as_json)


def _resume(
    folder: Path,
    source: str | None,
    changes: dict[str, Any],
    loggers: tuple[str, ...],
    console: Console,
    as_json: bool,
    engine: Engine,
) -> None:
    from ..report.run_page import draw_run
    from ..runs import STRONG_BASELINE, Run, config_of, resume_run
    from ..training import ProgressBar
    from .outcome import say

    run = Run.open(folder)
    asked = config_of(run)
    labels = [asked.model.model, STRONG_BASELINE]
    finished = run.status == "finished" and not changes
    if not finished:
        say(console, f"resuming {folder}, {run.status} after epoch {len(run.metrics())}")
    content: dict[str, Any] = {"changes": changes, "source": source, "draw": draw_run, "loggers": loggers}
    bar = ProgressBar(changes.get("epochs", asked.training.epochs), console.file, labels=labels)
    with _helpers(engine, asked.with_values({"training": changes}).training) as helpers:
        work = partial(resume_run, folder, on_event=bar, helpers=helpers, **content)
        _run(work, bar, console, folder, as_json)
    if finished:
        say(console, f"{folder} is finished; for more epochs: chronode train --resume {folder} --epochs N")


@contextmanager
def _helpers(engine: Engine, settings: Settings) -> Iterator[Helpers | None]:
    """Yields what starts the processes of other devices; None: on this machine."""
    if engine.name == "local":
        yield None
        return
    if settings.devices == 1:
        raise ValueError("--engine ray trains in several processes: give their number, as in --workers 4.")
    from ..search.engine import RayHelpers

    helpers = RayHelpers(engine.address, gpu=settings.accelerator == "gpu")
    try:
        yield helpers
    finally:
        helpers.close()


def _say_candidate(console: Console, event: Event) -> None:
    """Prints the result of a candidate of a race."""
    from ..training import Note
    from .outcome import say

    if isinstance(event, Note):
        say(console, event.text)


def _run(work: Callable[[], Outcome], bar: ProgressBar, console: Console, folder: Path, as_json: bool) -> None:
    """Trains; an error or Ctrl-C prints how to resume and exits with code 1."""
    from ..storage import DiskFull
    from ..training import TrainingStopped
    from .outcome import show_outcome, show_unfit

    try:
        with bar:
            outcome = work()
    except TrainingStopped as error:
        typer.echo(
            f"chronode: {error} The weights are in {folder}; train again with other settings.",
            err=True,
        )
        raise typer.Exit(1) from error
    except DiskFull as error:
        typer.echo(f"chronode: {error}. Free some space, then {_how_to_resume(folder)}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        typer.echo(f"stopped; {_how_to_resume(folder)}", err=True)
        raise typer.Exit(1) from error
    if outcome.status == "interrupted":
        typer.echo(f"stopped after {outcome.summary['epochs']} epochs; {_how_to_resume(folder)}", err=True)
        raise typer.Exit(1)
    if as_json:
        print(jsonlib.dumps({"run": str(folder), **outcome.run.load_json("summary.json")}, indent=1))
    else:
        show_outcome(console, outcome)
        show_unfit(console, outcome)


def _how_to_resume(folder: Path) -> str:
    """Returns how to resume after an interruption; a folder without run.json contains nothing to resume."""
    if (folder / "run.json").is_file():
        return f"resume with: chronode train --resume {folder}"
    return "run the same command again: no epoch was trained yet."


def _refuse_with_resume(others: dict[str, Any], given: dict[str, Any]) -> None:
    """Rejects options that a resumed run takes from its folder."""
    from ..training import MAY_CHANGE

    may = [f"--{name.replace('_', '-')}" for name in MAY_CHANGE]
    flagged = {f"--{name.replace('_', '-')}": value for name, value in given.items() if name not in MAY_CHANGE}
    wrong = [name for name, value in {**others, **flagged}.items() if value is not None]
    if wrong:
        raise ValueError(
            f"--resume uses the settings of the run: remove {', '.join(wrong)}; only {', '.join(may)} may change."
        )
