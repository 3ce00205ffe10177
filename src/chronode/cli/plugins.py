"""`--plugin`: models of the user's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

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
    own = inspect.signature(command, eval_str=True)
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

    run.__signature__ = own.replace(parameters=[*own.parameters.values(), option])  # pyrefly: ignore
    return run
