"""`chronode data describe`: columns, series and suspicious things of a file, before anything is trained."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..runs import Config, DataConfig, asked_of, reading_fields
from ..settings import named
from ..storage import check_new
from . import flags
from .options import check_source, this_command

if TYPE_CHECKING:
    from ..data import ColumnFacts
    from .tables import Table


_WIDTH = 10


def describe(
    source: Annotated[str, typer.Argument(help="File that is a table.", callback=check_source)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Page with pictures. [example: data.html]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    **given: Any,
) -> None:
    """Describe a file: columns, series and suspicious things.

    Also gaps, missing values and groups. Roles of columns are guessed as by `chronode train`; options change them.

    Example: chronode data describe vitals.csv --target outcome -o vitals.html
    """
    from ..data import describe_columns, note_on_gaps, read, remarks
    from ..report.data_page import write_data
    from .outcome import print_result, say, say_note

    if output is not None:
        check_new(output, "--output", force=force)
    data = Config().with_values({"data": {"source": source, **flags.values(DataConfig, given)}}).data
    asked = {**asked_of(data), **({"target": list(data.target)} if data.target else {})}
    columns, guess, rows = describe_columns(Path(source), asked)
    options = {**guess.options, **asked}
    series = read(source, **options)
    notes = [*series.notes, *remarks(series), *note_on_gaps(series, "keep")]
    notes += [f"{column.name}: {remark}" for column in columns for remark in column.remarks]
    notes = list(dict.fromkeys(notes))
    text = " ".join(named(name, value) for name, value in options.items())
    console = Console(stderr=json)
    if output is not None:
        facts: dict[str, Any] = {"columns": columns, "notes": notes, "options": text, "command": this_command()}
        say(console, f"page: {write_data(output, series, title=Path(source).name, **facts)}")
    if json:
        description = {"file": source, "rows": rows, "options": options, "series": series.describe().as_dict()}
        description |= {"columns": [column.as_dict() for column in columns], "notes": notes}
        return print_result(jsonlib.dumps(description, indent=1, default=str))
    say(console, f"{source}: {series.describe()}")
    console.print(_table(columns))
    for note in notes:
        say_note(console, note)
    if text:
        say(console, f"as options: {text}")


def _table(columns: list[ColumnFacts]) -> Table:
    from ..data import percent
    from .tables import Table

    table = Table("column")
    for name in ("role", "kind", "missing", "different", "lowest", "middle", "highest"):
        table.add_column(name, justify="left" if name in ("role", "kind") else "right")
    for column in columns:
        ends = [_short(text, column.kind == "date") for text in (column.low, column.middle, column.high)]
        table.add_row(column.name, column.role, column.kind, percent(column.missing), f"{column.distinct:,}", *ends)
    return table


def _short(text: str, is_date: bool) -> str:
    """Returns a date without its time of day, and the beginning of a long text."""
    if len(text) <= _WIDTH:
        return text
    return text[:_WIDTH] if is_date else f"{text[: _WIDTH - 1]}…"


describe = flags.with_fields(describe, DataConfig, reading_fields())
