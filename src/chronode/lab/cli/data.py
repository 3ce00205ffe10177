"""`chronode data`: lists, downloads, locates, verifies and builds data sets."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from ...cli.store import with_stores
from ...cli.tables import Table
from ...settings import one_of
from ...storage import check_new
from ..datasets._catalogue import DataSet, data_sets
from ..datasets._copies import SEAL, DataError
from ..datasets._download import cache_folder, fetch, mirror_folder, present

data_app = typer.Typer(
    help="Data sets: list, download, verify, build, pack.", no_args_is_help=True, rich_markup_mode=None
)


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.add_typer(data_app, name="data")


HEADINGS = ("name", "data", "publisher", "license", "download", "checked by")


def _known(names: list[str] | None) -> list[str] | None:
    try:
        return [one_of("NAME", name, data_sets()) for name in names] if names else names
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _known_one(name: str) -> str:
    _known([name])
    return name


Name = Annotated[str, typer.Argument(help="Name of a data set; `chronode data list` lists all.", callback=_known_one)]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@data_app.command("list")
def list_command(
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of docs/datasets.md.")] = False,
) -> None:
    """List the data sets: publisher, license, size, location.

    Example: chronode data list --json
    """
    if json:
        print(json_format.dumps([_facts(entry) for entry in data_sets().values()], indent=2, ensure_ascii=False))
    elif markdown:
        print(as_markdown())
    else:
        table = Table("name", "data", "license", "download", "checked by", "here", title="Data sets")
        for entry in data_sets().values():
            name, title, _, *cells = _cells(entry)
            table.add_row(f"[bold]{name}[/bold]", title, *cells, _where(entry.name) or "")
        Console().print(table)


@data_app.command("fetch")
def fetch_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets to download.", callback=_known)],
    again: Annotated[bool, typer.Option("--again", help="Download even if the data set is in the cache.")] = False,
) -> None:
    """Download data sets, verify them and store them in the cache.

    An interrupted download is resumed. Data sets in the mirror or the cache are only verified.

    Example: chronode data fetch mnist ozone
    """
    failed = False
    for name in names:
        try:
            copy = fetch(name, again=again)
        except DataError as error:
            failed = True
            typer.echo(f"chronode: {error}", err=True)
            continue
        print(f"{name}: {copy.folder}")
        for note in copy.notes:
            print(f"  {note}")
    if failed:
        raise typer.Exit(1)


@data_app.command("path")
def path_command(name: Name) -> None:
    """Print the folder of a data set, without downloading it.

    Example: chronode data path mnist
    """
    try:
        copy = present(name)
    except DataError as error:
        _fail(str(error))
    if copy is None:
        _fail(f"{name} was not found: run `chronode data {'fetch' if data_sets()[name].remote else 'build'} {name}`.")
    print(copy.folder)


@data_app.command("verify")
def verify_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Data sets; by default all on this machine.", callback=_known),
    ] = None,
    json: Json = False,
) -> None:
    """Hash every file again.

    The exit code is 1 if one is missing, truncated or modified.

    Example: chronode data verify mnist
    """
    rows = [_verified(name) for name in names or data_sets()]
    if not names:
        rows = [row for row in rows if row["state"] != "not here"]
    if json:
        print(json_format.dumps(rows, indent=2, ensure_ascii=False))
    else:
        table = Table("name", "state", "folder", "notes", title="Data sets, hashed again")
        for row in rows:
            table.add_row(*(escape(row[key] or "") for key in ("name", "state", "folder", "notes")))
        Console().print(table)
    if any(row["state"] != "ok" for row in rows):
        raise typer.Exit(1)


@data_app.command("build")
def build_command(
    name: Name,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of training steps of the policies; that of the data set by default. [example: 100000]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the simulation.")] = 0,
) -> None:
    """Simulate a data set that is not published.

    It is stored in the cache.

    Example: chronode data build walker2d --seed 1
    """
    simulated = [entry.name for entry in data_sets().values() if entry.simulated]
    if name not in simulated:
        raise typer.BadParameter(f"{name} cannot be built, only downloaded; {' and '.join(simulated)} can be built.")
    from ..tasks._simulate import build

    chosen: dict[str, Any] = {} if steps is None else {"steps": steps}
    print(f"{name}: {build(name, **chosen, seed=seed, console=Console(stderr=True))}")


def as_markdown() -> str:
    """Returns the table of docs/datasets.md."""
    rows = [(f"`{name}`", *cells) for name, *cells in map(_cells, data_sets().values())]
    ruler = ["---"] * len(HEADINGS)
    return "\n".join(f"| {' | '.join(row)} |" for row in (HEADINGS, ruler, *rows))


def _cells(entry: DataSet) -> list[str]:
    size = f"{entry.size / 1e6:,.1f} MB" if entry.size else "?" if entry.remote else "built"
    return [entry.name, entry.title, entry.publisher, entry.licence, size, entry.checked_by]


def _facts(data_set: DataSet) -> dict[str, Any]:
    keys = ("name", "title", "publisher", "page", "licence", "cite", "simulated", "checked_by")
    addresses = [url for remote in data_set.remote for url in remote.urls]
    entry = {key: getattr(data_set, key) for key in keys}
    return {**entry, "size": data_set.size or None, "addresses": addresses, "here": _where(data_set.name)}


def _where(name: str) -> str | None:
    """Returns where a data set is, without hashing it."""
    mirror = mirror_folder()
    if mirror is not None and (mirror / name).is_dir():
        return "mirror"
    return "cache" if (cache_folder() / name / SEAL).is_file() else None


def _verified(name: str) -> dict[str, str | None]:
    try:
        copy = present(name, rehash=True)
    except DataError as error:
        return {"name": name, "state": "refused", "folder": None, "notes": str(error)}
    if copy is None:
        return {"name": name, "state": "not here", "folder": None, "notes": None}
    return {"name": name, "state": "ok", "folder": str(copy.folder), "notes": "; ".join(copy.notes)}


def _fail(message: str) -> NoReturn:
    typer.echo(f"chronode: {message}", err=True)
    raise typer.Exit(1)


@data_app.command("example")
def example_command(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("charts.csv"),
    kind: Annotated[str, typer.Option(help="charts (of patients) or events (of machines).")] = "charts",
    series: Annotated[
        int | None,
        typer.Option("--series", "--patients", min=1, help="Number of series. [default: 600 charts, 26,000 machines]"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    force: Force = False,
) -> None:
    """Write an example file for `chronode train`.

    Synthetic charts with irregular times and empty cells; or events: machines report when they switch, and whether they
    ran an even or odd number of minutes follows from the times alone.

    Example: chronode data example charts.csv
    """
    from ..datasets._example import write_events, write_example

    check_new(path, "PATH", force=force)
    if one_of("kind", kind, ("charts", "events")) == "events":
        write_events(path, series or 26_000, seed)
        return print(f"{path} written; try `chronode train {path} --target minutes`")
    write_example(path, series or 600, seed)
    print(f"{path} written; try `chronode train {path} --target outcome --id patient --time charted_at`")


with_stores(data_app)
