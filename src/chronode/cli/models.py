"""`chronode models`: the registry as a table."""

from __future__ import annotations

import json

from rich.table import Table

from ..nn._registry import Model, models

CAPTION = (
    "time: native = dt moves the state, feature = dt is an additional input, none = dt is ignored; "
    "parameters of one layer with D = 1, H = 64; kernel: hand-written, compiled (by the C++ compiler of this machine "
    "when "
    "first used), or a loop in Python with the reason"
)


def facts(model: Model) -> dict[str, str | int]:
    """Returns the entries of a model in the table."""
    return {
        "name": model.name,
        "paper": model.paper,
        "time": model.time,
        "parameters": model.parameters(),
        "kernel": str(model.path()),
        "summary": model.summary,
    }


def as_json() -> str:
    """Returns all models as a JSON list."""
    return json.dumps([facts(model) for model in models().values()], indent=2, ensure_ascii=False)


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
    entries = [facts(model) for model in models().values()]
    return [
        [str(f["name"]), str(f["paper"]), str(f["time"]), f"{f['parameters']:,}", str(f["kernel"])] for f in entries
    ]
