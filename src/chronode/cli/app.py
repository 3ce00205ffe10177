"""The commands of `chronode`."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer
from rich.console import Console

from .._version import __version__
from ..system import built_in
from . import backtest, compare, export, predict, runs, share, stream, sweep, train
from .plugins import with_plugins

app = typer.Typer(
    help="Recurrent networks that keep time.",
    epilog="Exit codes: 0: done; 1: started but not finished (an error, a full disk, Ctrl-C); 2: invalid command, "
    "setting or file.",
    no_args_is_help=True,
    add_completion=False,
    # A value of its own for --help: without one, Typer imports Pydantic to convert it.
    context_settings={"default_map": {"help": False}},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"chronode {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Recurrent networks that keep time."""


@app.command()
@with_plugins
def models(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of docs/models.md.")] = False,
) -> None:
    """List the models: paper, use of time, parameters, kernel.

    Example: chronode models --json
    """
    from .models import as_json, as_markdown, as_table

    if json:
        print(as_json())
    elif markdown:
        print(as_markdown())
    else:
        Console().print(as_table())


@app.command()
@with_plugins
def doctor(
    model: Annotated[str, typer.Option(help="Explain how this model runs. [example: gru-d]")] = "",
) -> None:
    """Show versions, kernels and threads in use, and why.

    Example: chronode doctor --model gru-d
    """
    from .doctor import run_doctor

    run_doctor(model)


@app.command(name="compile")
@with_plugins
def compile_model(
    model: Annotated[str, typer.Argument(help="Name of the model.")],
    hidden_size: Annotated[int, typer.Option(min=1, help="Units of each layer. [example: 64]")],
    input_size: Annotated[int, typer.Option(min=1, help="Number of input features.")] = 1,
    num_layers: Annotated[int, typer.Option(min=1, help="Number of layers.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the model; may be repeated. [example: tau=2]"),
    ] = None,
    double: Annotated[bool, typer.Option("--float64", help="Compile for float64 instead of float32.")] = False,
) -> None:
    """Compile the kernels of a model in advance.

    Training then does not wait for the C++ compiler.

    Example: chronode compile gru-d --input-size 5 --hidden-size 64
    """
    from .compiling import run_compile

    run_compile(model, input_size, hidden_size, num_layers, settings or [], double)


for _module in (train, predict, backtest, stream, export, share, runs, compare, sweep):
    _module.attach(app)
if (_lab := built_in("commands")) is not None:
    _lab.attach(app)


@cache
def command() -> Any:
    """Returns what Click runs; `app()` would build all commands again in every call within a process."""
    return typer.main.get_command(app)
