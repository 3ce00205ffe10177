"""`chronode models`: the registry as a table."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from ..compiler import build
from ..kernels import status
from ..nn import Model, models
from ..storage import read_json, replacing
from .tables import Table

CAPTION = (
    "time: native = dt moves the state, feature = dt is an additional input, none = dt is ignored; "
    "parameters of one layer with D = 1, H = 64; kernel: hand-written, compiled (by the C++ compiler of this machine "
    "when "
    "first used), or a loop in Python with the reason"
)


def facts(model: Model, path: str | None = None) -> dict[str, str | int]:
    """Returns the entries of a model in the table.

    Args:
        model: The model.
        path: Implementation that runs it, if that is decided already.
    """
    return {
        "name": model.name,
        "paper": model.paper,
        "time": model.time,
        "parameters": model.parameters(),
        "kernel": path or str(model.path()),
        "summary": model.summary,
    }


def all_facts() -> list[dict[str, str | int]]:
    """Returns the entries of all models.

    Tracing every step takes seconds, so how chronode's own models run is kept in the cache of compiled kernels.
    """
    file = _paths_file()
    known = {} if file is None else _known_paths(file)
    entries = [facts(model, known.get(model.name)) for model in models().values()]
    own = {name for name, model in models().items() if model.cell.__module__.startswith("chronode.")}
    paths = {str(one["name"]): str(one["kernel"]) for one in entries if one["name"] in own}
    if file is not None and paths != known:
        with suppress(OSError), replacing(file) as draft:
            draft.write_text(json.dumps(paths))
    return entries


def _known_paths(file: Path) -> dict[str, str]:
    try:
        return read_json(file, dict[str, str])
    except (ValueError, OSError):
        return {}


def _paths_file() -> Path | None:
    """Returns the file that keeps how the models run; its name is a hash of everything that decides it.

    None if there is no folder for it.
    """
    try:
        folder = build.cache_folder().parent
    except build.BuildError:
        return None
    package = Path(__file__).parents[1]
    parts = [
        path.read_bytes()
        for folder in ("nn", "compiler", "kernels")
        for path in sorted((package / folder).rglob("*.py"))
    ]
    try:
        build.check()
        compiler = " ".join(build.compiler())
    except build.BuildError as error:
        compiler = str(error)
    parts += [compiler.encode(), status().encode()]
    return folder / f"models-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]}.json"


def as_json() -> str:
    """Returns all models as a JSON list."""
    return json.dumps(all_facts(), indent=2, ensure_ascii=False)


def as_table() -> Table:
    """Returns all models as a table for the terminal."""
    table = Table("name", "paper", "time", title="Models", caption=CAPTION)
    table.add_column("parameters", justify="right")
    table.add_column("kernel")
    for name, *cells in _rows():
        table.add_row(f"[bold]{name}[/bold]", *cells)
    return table


def as_markdown() -> str:
    """Returns all models as the table of docs/models.md."""
    lines = ["| name | paper | time | parameters | kernel |", "| --- | --- | --- | ---: | --- |"]
    lines += [f"| `{name}` | {' | '.join(cells)} |" for name, *cells in _rows()]
    return "\n".join(lines)


def _rows() -> list[list[str]]:
    entries = all_facts()
    return [
        [str(f["name"]), str(f["paper"]), str(f["time"]), f"{f['parameters']:,}", str(f["kernel"])] for f in entries
    ]
