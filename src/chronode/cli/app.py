"""The commands of `chronode`, each imported when it is used: --help shows their names and summaries from here."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .._version import __version__
from ..system import built_in

COMMANDS = {
    "models": ("models", "List the models: paper, use of time, parameters, kernel."),
    "doctor": ("models", "Show versions, kernels and threads in use, and why."),
    "compile": ("models", "Compile the kernels of a model in advance."),
    "train": ("train", "Train a model on a file of series, or on a task."),
    "evaluate": ("predict", "Evaluate a trained model on a file with known targets."),
    "predict": ("predict", "Predict classes, values or the next steps of new series."),
    "explain": ("explain", "Explain predictions: contributions of channels, static columns and spans of time."),
    "threshold": ("threshold", "Choose the threshold between two classes, and store it with the model."),
    "check": ("check", "Check whether new data still look like those of training."),
    "backtest": ("backtest", "Compare forecasts from several past origins with the truth."),
    "stream": ("stream", "Predict live data, event by event."),
    "serve": ("serve", "Serve a trained model over HTTP."),
    "export": ("export", "Export a trained model as files that need no Python."),
    "pack": ("export", "Pack a trained model into one file."),
    "data": ("store", "Stores of series: pack, check."),
    "runs": ("runs", "List the runs in a folder: data, model, status, test metrics."),
    "show": ("runs", "Show the details of a run, or open its report."),
    "compare": ("compare", "Compare models on a file or a task, over several seeds."),
    "ensemble": ("compare", "Combine several runs into one model whose outputs are averaged."),
    "sweep": ("sweep", "Search for good settings of a model."),
}
"""Name of each command, the module that attaches it, and the first line of its help (a test compares them)."""

_OPTIONS: dict[str, Any] = {
    # A value of its own for --help: without one, Typer imports Pydantic to convert it.
    "context_settings": {"default_map": {"help": False}},
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


class _Lazy(MutableMapping[str, Any]):
    """Commands by name; the module of a command is imported when the command is looked up."""

    def __init__(self) -> None:
        self.modules = {name: f"{__package__}.{module}" for name, (module, _) in COMMANDS.items()}
        self.summaries = {name: summary for name, (_, summary) in COMMANDS.items()}
        if (lab := built_in("commands")) is not None:
            self.modules |= {name: f"{lab.__name__}.{module}" for name, (module, _) in lab.COMMANDS.items()}
            self.summaries |= {name: summary for name, (_, summary) in lab.COMMANDS.items()}
        self.built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.built:
            part = typer.Typer(**_OPTIONS)
            part.callback()(lambda: None)  # a group even of one command
            import_module(self.modules[name]).attach(part)
            self.built |= typer.main.get_group(part).commands
        return self.built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self.built[name] = command

    def __delitem__(self, name: str) -> None:
        del self.modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)


@cache
def _commands() -> _Lazy:
    return _Lazy()


class _Root(TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the names and summaries without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.commands.summaries.items()))


app = typer.Typer(
    help="Recurrent networks that keep time.",
    epilog="Exit codes: 0: done; 1: started but not finished (an error, a full disk, Ctrl-C); 2: invalid command, "
    "setting or file; 3: `chronode check` found a change.",
    cls=_Root,
    **_OPTIONS,
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


@cache
def command() -> Any:
    """Returns what Click runs; `app()` would build all commands again in every call within a process."""
    return typer.main.get_command(app)
