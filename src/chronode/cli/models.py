"""`chronode models`: the registry as a table."""

from __future__ import annotations

import json

from rich.table import Table

from ..nn._registry import Model, models

CAPTION = (
    "time: native = dt moves the state, feature = dt is one more input, none = dt is ignored; "
    "parameters of one layer with D = 1, H = 64; kernel: hand-written, compiled (by the machine's C++ compiler when "
    "first used), or the loop in Python and why"
)


def facts(model: Model) -> dict[str, str | int]:
    """What is told of a model."""
    return {
        "name": model.name,
        "paper": model.paper,
        "time": model.time,
        "parameters": model.parameters(),
        "kernel": str(model.path()),
        "summary": model.summary,
    }


def as_json() -> str:
    """All models as a JSON list."""
    return json.dumps([facts(model) for model in models().values()], indent=2, ensure_ascii=False)


def as_table() -> Table:
    """All models as a table for the terminal."""
    table = Table("name", "paper", "time", title="Models", caption=CAPTION)
    table.add_column("parameters", justify="right")
    table.add_column("kernel")
    for name, *cells in _rows():
        table.add_row(f"[bold]{name}[/bold]", *cells)
    return table


def as_markdown() -> str:
    """All models as the table that stands in the README."""
    lines = ["| name | paper | time | parameters | kernel |", "| --- | --- | --- | ---: | --- |"]
    lines += [f"| `{name}` | {' | '.join(cells)} |" for name, *cells in _rows()]
    return "\n".join(lines)


def _rows() -> list[list[str]]:
    told = [facts(model) for model in models().values()]
    return [[str(f["name"]), str(f["paper"]), str(f["time"]), f"{f['parameters']:,}", str(f["kernel"])] for f in told]
