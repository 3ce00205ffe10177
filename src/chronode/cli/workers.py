"""The options of commands that train many times: how many workers, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .._checks import one_of

if TYPE_CHECKING:
    from ..engine import Engine

Workers = Annotated[
    int,
    typer.Option(
        min=0,
        help="Trainings at a time, each in a process of its own; 0: one after the other in this process.",
        rich_help_panel="Workers",
    ),
]
EngineName = Annotated[str, typer.Option("--engine", help="Where to train: local or ray.", rich_help_panel="Workers")]
Address = Annotated[
    str | None,
    typer.Option(help="Address of a Ray cluster; by default one is started here.", rich_help_panel="Workers"),
]


def engine_for(name: str, workers: int, address: str | None, *, fresh: bool = False) -> Engine:
    """The engine that --engine, --workers and --address describe."""
    from ..engine import ENGINES, Engine

    one_of("--engine", name, ENGINES)
    if address is not None and name != "ray":
        raise ValueError("--address is that of a Ray cluster: it goes with --engine ray.")
    return Engine(name, workers, address, fresh=fresh)
