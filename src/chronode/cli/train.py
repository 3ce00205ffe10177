"""`chronode train`: a model from a file or a task, into a run folder."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..data._pipe import is_pipe, keep
from ..runs._config import Config
from ..training._settings import Settings
from . import flags

if TYPE_CHECKING:
    from ..runs._train import Outcome
    from .bars import Bars


RUNS = "runs"


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(cls=flags.PanelCommand)(flags.with_settings(train))


def train(
    data: Annotated[
        str | None,
        typer.Argument(help="A file (docs/files.md shows all kinds), - for standard input, or a task's name."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The run folder; by default runs/NAME-1, -2, ...")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file with the same settings.")] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print all settings as YAML; train nothing.")
    ] = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="Train lstm-dt too, to compare with.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON; all else goes to stderr.")] = False,
    **given: Any,
) -> None:
    """Train a model on a file of series, or on a task.

    Only the file and what to learn are needed: a row per id and time, empty cells are missing values.

    Example: chronode train vitals.csv --target outcome --id patient --time charted_at --epochs 20

    Example: chronode train --resume runs/vitals-1
    """
    console = Console(stderr=json)
    try:
        if resume is not None:
            _refuse_with_resume({"--output": output, "--config": config, "--baseline": baseline or None}, given)
            return _resume(resume, data, flags.values(Settings, given), console, json)
        asked, chosen = effective(data, config, given)
        if print_config:
            return print(as_yaml(asked), end="")
        if is_pipe(asked.data.source):
            asked = asked.with_values({"data": {"source": str(keep(asked.data.source, RUNS))}})
        _new(asked, chosen, output, baseline, console, json)
    except KeyboardInterrupt as error:  # before there is anything to go on with
        typer.echo("stopped", err=True)
        raise typer.Exit(1) from error


def effective(data: str | None, file: Path | None, given: dict[str, Any]) -> tuple[Config, bool]:
    """(the config: defaults, then the file, then the flags; whether the user chose the model)."""
    asked, chosen = Config(), given.get("model") is not None
    if file is not None:
        told = read_config(file)
        try:
            asked = asked.with_values(told)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{file}: {error}") from error
        chosen = chosen or "model" in (told.get("model") or {})
    source = data or asked.data.source
    sections = {name: flags.values(section, given) for name, section in flags.SECTIONS.items()}
    if given.get("options"):
        sections["data"]["options"] = {**asked.data.options, **_task_options(source, given["options"])}
    if given.get("settings"):
        sections["model"]["settings"] = {**asked.model.settings, **sections["model"]["settings"]}
    sections["data"]["source"] = source
    return asked.with_values(sections), chosen


def _task_options(source: str, given: list[str]) -> dict[str, Any]:
    from ..tasks import find
    from .tasks import read_options

    return read_options(find(source), given)


def read_config(path: Path) -> dict[str, Any]:
    """A config file as plain data."""
    from .._documents import read_yaml

    told = read_yaml(path)
    if told is not None and not isinstance(told, dict):
        raise ValueError(f"{path}: a config has the sections data, model and training; this is {type(told).__name__}.")
    return told or {}


def as_yaml(config: Config) -> str:
    """The whole config, to be stored and given to --config."""
    import yaml

    return yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)


def _new(asked: Config, chosen: bool, output: Path | None, baseline: bool, console: Console, as_json: bool) -> None:
    from ..report.run_page import draw_run
    from ..runs._folder import next_folder
    from ..runs._prepare import prepare
    from ..runs._train import STRONG_BASELINE, check, train_run
    from .bars import Bars
    from .outcome import show_prepared

    prepared = prepare(asked)
    show_prepared(console, asked, prepared, chosen=chosen)
    check(asked, prepared)  # before a folder is made
    folder = output or next_folder(RUNS, Path(asked.data.source).name.split(".")[0])
    told: dict[str, Any] = {"prepared": prepared, "baseline": baseline, "command": sys.argv[1:], "draw": draw_run}
    bars = Bars(console, [asked.model.model, STRONG_BASELINE], asked.training.epochs)
    _run(lambda: train_run(asked, folder, on_event=bars, **told), bars, folder, as_json)


def _resume(folder: Path, source: str | None, changes: dict[str, Any], console: Console, as_json: bool) -> None:
    from ..report.run_page import draw_run
    from ..runs._folder import Run
    from ..runs._train import STRONG_BASELINE, config_of, resume_run
    from .bars import Bars
    from .outcome import say

    run = Run.open(folder)
    asked = config_of(run)
    labels = [asked.model.model, STRONG_BASELINE]
    if run.status == "finished" and not changes:
        say(console, f"{folder} is finished; more epochs: chronode train --resume {folder} --epochs N")
    else:
        say(console, f"going on with {folder}, {run.status} after epoch {len(run.metrics())}")
    told: dict[str, Any] = {"changes": changes, "source": source, "draw": draw_run}
    bars = Bars(console, labels, changes.get("epochs", asked.training.epochs))
    _run(lambda: resume_run(folder, on_event=bars, **told), bars, folder, as_json)


def _run(work: Callable[[], Outcome], bars: Bars, folder: Path, as_json: bool) -> None:
    """Trains; a fault or Ctrl-C ends with one line that says how to go on, and exit code 1."""
    from .._files import DiskFull
    from ..training import TrainingStopped
    from .outcome import show_outcome

    try:
        with bars:
            outcome = work()
    except TrainingStopped as error:
        typer.echo(
            f"chronode: {flags.as_options(str(error))} The weights are in {folder}; train anew with other settings.",
            err=True,
        )
        raise typer.Exit(1) from error
    except DiskFull as error:
        typer.echo(f"chronode: {error}. Make room, then {_go_on(folder)}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        typer.echo(f"stopped; {_go_on(folder)}", err=True)
        raise typer.Exit(1) from error
    if outcome.status == "interrupted":
        typer.echo(f"stopped after {outcome.summary['epochs']} epochs; {_go_on(folder)}", err=True)
        raise typer.Exit(1)
    if as_json:
        print(jsonlib.dumps({"run": str(folder), **outcome.run.load_json("summary.json")}, indent=1))
    else:
        show_outcome(bars.console, outcome)


def _go_on(folder: Path) -> str:
    """What to do after an interruption: a folder without run.json holds nothing to resume."""
    if (folder / "run.json").is_file():
        return f"resume with: chronode train --resume {folder}"
    return "run the same command again: nothing was trained yet."


def _refuse_with_resume(others: dict[str, Any], given: dict[str, Any]) -> None:
    """A resumed run has its settings from its folder."""
    from ..runs._train import MAY_CHANGE

    may = [f"--{name.replace('_', '-')}" for name in MAY_CHANGE]
    flagged = {f"--{name.replace('_', '-')}": value for name, value in given.items() if name not in MAY_CHANGE}
    wrong = [name for name, value in {**others, **flagged}.items() if value is not None]
    if wrong:
        raise ValueError(
            f"--resume takes the settings of the run: leave out {', '.join(wrong)}; {', '.join(may)} may change."
        )
