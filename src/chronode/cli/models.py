"""`chronode models`, `doctor` and `compile`: the registry as a table, how models run, kernels in advance."""

from __future__ import annotations

import hashlib
import json as jsonlib
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import with_plugins

CAPTION = (
    "time: native = dt moves the state, feature = dt is an additional input, none = dt is ignored; parameters of one "
    "layer with D = 1, H = 64; kernel: hand-written, compiled (by the C++ compiler of this machine when first used), "
    "or a loop in Python with the reason"
)


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command("models")(with_plugins(list_models))
    app.command()(with_plugins(doctor))
    app.command("compile")(with_plugins(compile_model))


def list_models(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of docs/models.md.")] = False,
) -> None:
    """List the models: paper, use of time, parameters, kernel.

    Example: chronode models --json
    """
    from rich.console import Console

    from .tables import Table

    entries = _entries()
    if json:
        return print(jsonlib.dumps(entries, indent=2, ensure_ascii=False))
    rows = [[e["name"], e["paper"], e["time"], f"{e['parameters']:,}", e["kernel"]] for e in entries]
    if markdown:
        print("| name | paper | time | parameters | kernel |\n| --- | --- | --- | ---: | --- |")
        return print("\n".join(f"| `{name}` | {' | '.join(cells)} |" for name, *cells in rows))
    table = Table("name", "paper", "time", title="Models", caption=CAPTION)
    table.add_column("parameters", justify="right")
    table.add_column("kernel")
    for name, *cells in rows:
        table.add_row(f"[bold]{name}[/bold]", *cells)
    return Console().print(table)


def doctor(
    model: Annotated[str, typer.Option(help="Explain how this model runs. [example: gru-d]")] = "",
) -> None:
    """Show versions, kernels and threads in use, and why.

    Example: chronode doctor --model gru-d
    """
    import platform

    import torch
    from rich.console import Console

    from .. import __version__
    from ..kernels import available_isas, chosen, status
    from ..nn import models
    from .outcome import say

    console = Console()
    if model:
        return _explain(console, model)
    say(console, f"chronode {__version__}, Python {platform.python_version()}, torch {torch.__version__}")
    say(console, f"machine: {platform.machine()}, {torch.get_num_threads()} threads")
    say(console, status())
    built = ", ".join(available_isas()) or "none"
    say(console, f"backend: {chosen()} (CHRONODE_BACKEND or chronode.backend); kernels for this CPU: {built}")
    say(console, f"compiler for cells: {_compiler()}")
    say(console, "hand-written kernels (float32 and float64 on the CPU; other models are compiled on demand):")
    for name, one in models().items():
        if settings := one.kernel():
            say(console, f"  {name}: {settings}")
    return say(console, "`chronode doctor --model NAME` explains how a model runs.")


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
    import time

    import torch

    from .. import compiler
    from ..nn import create
    from ..storage import parse_yaml

    values = {}
    for text in settings or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ValueError(f"--set must be NAME=VALUE, got {text!r}.")
        values[key] = parse_yaml(value, "--set")
    layer = create(model, input_size, hidden_size, num_layers, **values)
    layer.to(torch.float64 if double else torch.float32)
    compiled = set()
    for cell in compiler.cells_of(layer):
        path, start = compiler.explain(cell), time.perf_counter()
        if path.name == "hand-written":
            return print(f"{model}: {type(cell).__name__} has a hand-written kernel; nothing to compile.")
        try:
            kernel = compiler.kernel_of(cell)
        except compiler.Unsupported as reason:
            raise ValueError(f"{model}: {type(cell).__name__} cannot be compiled: {reason}.") from reason
        if kernel.key not in compiled:
            compiled.add(kernel.key)
            print(f"{model}: {type(cell).__name__} compiled ({time.perf_counter() - start:.1f} s).")
    return None


def _entries() -> list[dict[str, Any]]:
    """Returns a row of the table for each model.

    Tracing every step takes seconds, so how chronode's own models run is kept in the cache of compiled kernels.
    """
    from ..nn import models
    from ..storage import read_json, replacing

    file, cached = _paths_file(), {}
    if file is not None:
        with suppress(ValueError, OSError):
            cached = read_json(file, dict[str, str])
    entries: list[dict[str, Any]] = [
        {
            "name": name,
            "paper": model.paper,
            "time": model.time,
            "parameters": model.parameters(),
            "kernel": cached.get(name) or str(model.path()),
            "summary": model.summary,
        }
        for name, model in models().items()
    ]
    shipped = {name for name, model in models().items() if model.cell.__module__.startswith("chronode.")}
    paths = {entry["name"]: entry["kernel"] for entry in entries if entry["name"] in shipped}
    if file is not None and paths != cached:
        with suppress(OSError), replacing(file) as draft:
            draft.write_text(jsonlib.dumps(paths))
    return entries


def _paths_file() -> Path | None:
    """Returns the file that keeps how the models run; its name is a hash of everything that decides it.

    None if there is no folder for it.
    """
    from ..compiler import build
    from ..kernels import status

    try:
        folder = build.cache_folder().parent
    except build.BuildError:
        return None
    package = Path(__file__).parents[1]
    sources = [file for name in ("nn", "compiler", "kernels") for file in sorted((package / name).rglob("*.py"))]
    parts = [*(file.read_bytes() for file in sources), _compiler().encode(), status().encode()]
    return folder / f"models-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]}.json"


def _compiler() -> str:
    import shlex

    from ..compiler import build

    try:
        build.check()
        return f"{shlex.join(build.compiler())}, cache {build.cache_folder()}"
    except build.BuildError as error:
        return f"none ({error})"


def _explain(console: Any, name: str) -> None:
    from .. import compiler
    from ..nn import create, find_model
    from .outcome import say

    find_model(name)
    for cell in compiler.cells_of(create(name, input_size=1, hidden_size=8)):
        path = compiler.explain(cell)
        text = {
            "hand-written": "a hand-written kernel runs it",
            "compiled": f"it is compiled on demand ({_compiler()})",
            "loop": f"it runs as a loop in Python: {path.reason}",
        }[path.name]
        say(console, f"{name}, {type(cell).__name__}: {text}")
