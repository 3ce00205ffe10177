"""`chronode data pack`, `check` and `describe`: stores of series that are larger than memory, and a look at a file."""

from __future__ import annotations

import json as jsonlib
import time
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


data_app = typer.Typer(help="Stores of series: pack, check.", no_args_is_help=True, rich_markup_mode=None)

_WIDTH = 10


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.add_typer(data_app, name="data")


def with_stores(app: typer.Typer) -> None:
    """Adds the commands for stores, and for a look at a file, to a group."""
    app.command("pack", cls=flags.PanelCommand)(pack)
    app.command("check")(check)
    app.command("describe", cls=flags.PanelCommand)(describe)


def pack(
    source: Annotated[
        str,
        typer.Argument(help="File, folder, pattern such as 'readings/*.parquet', or database.", callback=check_source),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write. [example: readings.series]")],
    memory: Annotated[str, typer.Option(help="Memory of the sort; the rest is on the disk.")] = "1GB",
    force: Annotated[bool, typer.Option("--force", help="Replace a store that is there.")] = False,
    **given: Any,
) -> None:
    """Sort tables of any size into a store of series.

    `train`, `evaluate` and `predict` read a store batch by batch. A store that is up to date is left as it is.

    Example: chronode data pack readings/ -o readings.series --id patient --time charted_at --target outcome
    """
    from ..data import is_store, made_from
    from ..data import pack as pack_tables
    from ..training import ProgressBar
    from .outcome import say, say_note

    console, data = Console(stderr=True), Config().with_values({"data": flags.values(DataConfig, given)}).data
    asked: dict[str, Any] = {**asked_of(data), "target": list(data.target)}
    part = {"table": asked.pop("table", None), "query": asked.pop("query_sql", None)}
    if output.exists() and not is_store(output):
        raise ValueError(f"--output {output} is there already, and is not a store: give another name.")
    if output.exists() and not force:
        if made_from(output, source, asked, **part):
            return say(console, f"{output} is up to date")
        raise ValueError(f"--output {output} is there already, made of other tables or options; --force replaces it.")
    began = time.monotonic()
    with ProgressBar(1, console.file, runs=1) as bar:

        def show(what: str, share: float, rows: int) -> None:
            speed = share * rows / max(time.monotonic() - began, 1e-3)
            bar.advance(what, share, f"{rows:,} rows, {speed:,.0f} rows/s")

        pack_tables(source, output, **part, memory=memory, on_progress=show, **asked)
    _say_result(console, output, time.monotonic() - began, say, say_note)


def _say_result(console: Console, output: Path, seconds: float, say: Any, say_note: Any) -> None:
    from ..data import read_header

    header = read_header(output)
    for note in header.head.notes:
        say_note(console, note)
    speed = f"{header.rows:,} rows, {header.series:,} series, {header.rows / seconds:,.0f} rows/s"
    say(console, f"{output}: {speed}; train with: chronode train {output}")


def check(store: Annotated[Path, typer.Argument(help="Store of series.", exists=True, file_okay=False)]) -> None:
    """Compare the arrays of a store with their checksums.

    The exit code is 1 if one of them is damaged.

    Example: chronode data check readings.series
    """
    from ..data import check_store, is_store

    if not is_store(store):
        raise ValueError(f"{store} is not a store of series; `chronode data pack` writes one.")
    damaged = check_store(store)
    for line in damaged or ["ok"]:
        print(f"{store}: {line}")
    if damaged:
        raise typer.Exit(1)


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


pack = flags.with_fields(pack, DataConfig, reading_fields())
describe = flags.with_fields(describe, DataConfig, reading_fields())
with_stores(data_app)
