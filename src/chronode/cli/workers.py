"""The options of commands that train many models: settings from a file, how many workers, and where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..settings import one_of

if TYPE_CHECKING:
    from ..search.engine import Engine

ConfigFile = Annotated[Path | None, typer.Option(help="YAML file with settings, as for `train`. [example: small.yaml]")]
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


def engine_for(name: str, workers: int, address: str | None, *, fresh: bool = False) -> Engine:
    """Returns the engine that --engine, --workers and --address describe."""
    from ..search.engine import ENGINES, Engine

    one_of("--engine", name, ENGINES)
    if address is not None and name != "ray":
        raise ValueError("--address is the address of a Ray cluster: add --engine ray.")
    return Engine(name, workers, address, fresh=fresh)
