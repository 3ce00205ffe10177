"""Page of a file: its columns, some series, gaps, missing values, classes, and suspicious things."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._version import __version__
from ..data import Sequences, percent
from ._data_pictures import pictures_of
from .pages import bullets, code, grid, page, paragraph, table, write_page

if TYPE_CHECKING:
    from ..data import ColumnFacts


def write_data(
    path: str | Path,
    s: Sequences,
    *,
    title: str,
    columns: Sequence[ColumnFacts],
    notes: Sequence[str] = (),
    options: str = "",
    command: str = "",
) -> Path:
    """Writes the page."""
    heads = ["missing", "different", "lowest", "middle", "highest"]
    rows = [
        [
            column.name,
            column.role,
            column.kind,
            percent(column.missing),
            column.distinct,
            column.low,
            column.middle,
            column.high,
        ]
        for column in columns
    ]
    sections: dict[str, Sequence[str]] = {
        "Suspicious": [bullets(notes) if notes else paragraph("Nothing.")],
        "Columns": [table(["column", "role", "kind", *heads], rows, numeric=heads, sortable=True)],
        "Series": [grid(*pictures_of(s, 4))],
    }
    if options:
        sections["How it was read"] = [code(f"chronode train {title} {options}")]
    if command:
        sections["How to repeat"] = [code(command)]
    return write_page(
        path, page(title, paragraph(str(s.describe()), "lead"), sections, script=True, foot=f"chronode {__version__}")
    )
