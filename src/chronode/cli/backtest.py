"""`chronode backtest`: forecasts from several origins in the past, beside simple baselines."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from . import flags
from .options import Address, ConfigFile, EngineName, Workers, check_source, engine_for, with_plugins
from .tables import Table

if TYPE_CHECKING:
    from ..estimators import Backtest, SequenceForecaster
    from ..runs import Config

_OWN = ("stride", "order", "ignore", "static", "categorical", "intervals")  # of the file, or of the backtest
_NAMES = ("threads", "seed", "accelerator", "refit")  # have other names in the estimator, or are of the backtest


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(cls=flags.PanelCommand)(
        with_plugins(flags.with_settings(backtest, without=("target", "stride", "budget", "refit")))
    )


def backtest(
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="File with series, as for `train`.", callback=check_source)
    ] = None,
    origins: Annotated[
        int, typer.Option(min=1, help="Number of origins to forecast from.", rich_help_panel="Search")
    ] = 5,
    stride: Annotated[
        int,
        typer.Option(
            min=0, help="Steps from one origin to the next; 0 for the number of steps ahead.", rich_help_panel="Search"
        ),
    ] = 0,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit/--no-refit",
            help="Train at every origin, or once before the first origin.",
            rich_help_panel="Search",
        ),
    ] = True,
    season: Annotated[
        int,
        typer.Option(
            min=0,
            help="Season of the seasonal naive forecast in steps; 0 to detect it.",
            rich_help_panel="Search",
        ),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the results; by default runs/backtest-NAME. [example: runs/backtest]"
        ),
    ] = None,
    config: ConfigFile = None,
    workers: Workers = 0,
    engine: EngineName = "local",
    address: Address = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    **given: Any,
) -> None:
    """Compare forecasts from several past origins with the truth.

    Trains before each origin and forecasts the steps after it.

    The table shows the errors of the model beside those of its linear start, the last value, the drift, an
    autoregression and the seasonal naive forecast. Writes backtest.html, backtest.csv and backtest.json. Finished runs
    are kept: the same command resumes after an interruption.

    Example: chronode backtest sales.csv --forecast 4 --id shop --time week --origins 5
    """
    from ..data import is_there
    from ..report.backtest_page import write_backtest
    from ..runs import read_source, write_table
    from ..storage import json_text, write_json
    from ..training import ProgressBar
    from .options import folder_for, this_command
    from .outcome import say, say_note
    from .train import effective

    runner = engine_for(engine, workers, address)
    asked = effective(data, config, given, Console(stderr=True))
    if not asked.data.horizon:
        raise ValueError("a backtest needs the number of steps ahead: pass --forecast STEPS.")
    if not is_there(asked.data.source):
        raise ValueError(f"{asked.data.source or 'DATA'}: no such file; a backtest needs a file with series.")
    folder = folder_for("backtest", asked.data.source, output)
    series = read_source(asked.data)
    console = Console(stderr=json)
    for note in series.notes:
        say_note(console, note)
    choices: dict[str, Any] = {"origins": origins, "stride": stride or None, "refit": refit, "season": season or None}
    forecaster = forecaster_for(asked)
    with ProgressBar(forecaster.epochs, console.file, runs=origins if refit else 1) as bar:
        choices |= {"engine": runner, "folder": folder / "forecasts", "progress": bar}
        result = forecaster.backtest(series, **choices)
    summary = {"data": asked.data.source, **result.as_dict(), "refit": refit}
    write_table(result.columns(), folder / "backtest.csv")
    title = f"Backtest of {Path(asked.data.source).name}"
    summary["report"] = str(write_backtest(result, folder / "backtest.html", title=title, command=this_command()))
    write_json(folder / "backtest.json", summary)
    if json:
        print(json_text(summary), end="")
    else:
        console.print(_table(result))
        say(console, f"report: {summary['report']}   forecasts: {folder / 'backtest.csv'}")


def forecaster_for(asked: Config) -> SequenceForecaster:
    """Returns an estimator that trains as `chronode train` does with this config."""
    from ..estimators import SequenceForecaster

    sections = (asked.data, asked.model, asked.training)
    values = {field.name: getattr(section, field.name) for section in sections for field in fields(section)}
    names = SequenceForecaster().get_params()
    given = {name: values[name] for name in names if name not in _OWN and values.get(name) not in (None, 0, ())}
    plain = type(asked.training)().as_dict()
    more = {name: value for name, value in asked.training.as_dict().items() if name not in (*names, *_NAMES)}
    return SequenceForecaster(
        **given,
        validation=asked.data.shares[1] / (asked.data.shares[0] + asked.data.shares[1]),
        training={name: value for name, value in more.items() if value != plain[name]} or None,
        n_threads=asked.training.threads,
        random_state=asked.training.seed,
    )


def _table(result: Backtest) -> Table:
    origins, series = result.true.shape[:2]
    title = f"{origins} origins, {series:,} series, {result.true.shape[2]} steps ahead"
    table = Table("forecast", title=title, caption="errors over all origins, series, steps and channels; best first")
    for name in ("mae", "rmse", "mae / last value"):
        table.add_column(name, justify="right", no_wrap=True)
    squared, last = result.errors("rmse"), result.errors()["last value"]
    for name, error in result.errors().items():
        label = f"{name} ({result.season})" if name == "seasonal naive" else name
        ratio = f"{error / last:.2f}" if last > 0 else ""
        table.add_row(label, f"{error:.4g}", f"{squared[name]:.4g}", ratio)
    return table
