"""`chronode serve`: a trained model over HTTP."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.console import Console

from .options import Ahead, Idle, Late, RunFolder, SaveEvery, StateFile, with_plugins

_TOKEN = "CHRONODE_TOKEN"


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(serve))


def serve(
    run: RunFolder,
    host: Annotated[str, typer.Option(help="Address to listen on; the default is reached from this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")] = 8080,
    state: StateFile = None,
    save_every: SaveEvery = "30s",
    late: Late = "refuse",
    idle: Idle = None,
    ahead: Ahead = None,
    alarm: Annotated[
        list[str] | None, typer.Option(help="Condition on a prediction; may be repeated. [example: 'p_ill>=0.8']")
    ] = None,
    tail: Annotated[
        int, typer.Option(min=0, help="Last observations kept per id, to rebuild states for another model.")
    ] = 64,
    max_body: Annotated[int, typer.Option(min=1, help="Largest body of a request, in bytes.")] = 16 * 1024 * 1024,
    max_ids: Annotated[int, typer.Option(min=1, help="Largest number of ids with a state.")] = 1_000_000,
    max_time: Annotated[str, typer.Option(help="Longest time of a prediction of whole series, such as 30s.")] = "30s",
) -> None:
    """Serve a trained model over HTTP.

    Answers whole series at /predict and live observations at /observe; / shows live predictions, /docs all paths.

    A bearer token in the environment variable CHRONODE_TOKEN is required of every request if it is set. SIGHUP loads
    the model again without losing ids; SIGTERM and Ctrl-C save the states and stop.

    Example: chronode serve ward.chronode --port 8080 --state ward.state
    """
    from ..runs import FolderLock
    from ..serve import Limits, Service
    from ..serve import serve as run_server
    from ..training import seconds_of
    from .outcome import say, say_note

    console, token = Console(stderr=True), os.environ.get(_TOKEN, "")
    seconds, longest = seconds_of(save_every, "save_every"), seconds_of(max_time, "max_time")
    with nullcontext() if state is None else FolderLock.beside(state).held():
        service = Service(
            run,
            state=state,
            late=late,
            idle=idle,
            ahead=ahead,
            alarms=alarm or (),
            tail=tail,
            limits=Limits(max_body, max_ids, longest),
        )
        if not token and host not in ("127.0.0.1", "::1", "localhost"):
            say_note(console, f"other machines can reach this service without a token: set {_TOKEN}.")
        run_server(
            service, host=host, port=port, token=token, save_seconds=seconds, note=lambda text: say(console, text)
        )
