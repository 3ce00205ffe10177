"""Tables that fit the terminal: words are never cut, and columns that have no room go below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich import table as rich_table
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement

_FRAME = 3
"""Width that the frame takes of each column: a line and two spaces."""


class _Need(NamedTuple):
    """The width that a column needs at least, and to have each cell on one line."""

    least: int
    full: int


class Table(rich_table.Table):
    """A table of rich that is readable at any width.

    Names (the first column) and numbers stay on one line, text is wrapped between words. If even so the columns are
    wider than the terminal, or than 80 columns where there is none, the last ones follow in tables below, each with the
    names again.

    Args:
        headers: Headings of the first columns, as for rich.
        names: Number of columns, from the first on, that name a row.
        options: Options of `rich.table.Table`, such as title and caption.

    Example:
        >>> table = Table("model")
        >>> for name in ("accuracy", "parameters"):
        ...     table.add_column(name, justify="right")
        >>> table.add_row("unicornn", "0.9143 ± 0.01", "12,345")
        >>> Console(width=30, color_system=None).print(table)
        ┏━━━━━━━━━━┳━━━━━━━━━━━━━━━┓
        ┃ model    ┃      accuracy ┃
        ┡━━━━━━━━━━╇━━━━━━━━━━━━━━━┩
        │ unicornn │ 0.9143 ± 0.01 │
        └──────────┴───────────────┘
        ┏━━━━━━━━━━┳━━━━━━━━━━━━┓
        ┃ model    ┃ parameters ┃
        ┡━━━━━━━━━━╇━━━━━━━━━━━━┩
        │ unicornn │     12,345 │
        └──────────┴────────────┘
    """

    def __init__(self, *headers: str, names: int = 1, **options: Any):
        super().__init__(*headers, **options)
        self.names = names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.columns:
            return
        needs = self._needs(console, options)
        groups = list(_groups(needs, self.names, options.max_width))
        for number, group in enumerate(groups):
            widths = _widths([needs[column] for column in group], options.max_width)
            part = self._part(group, widths, first=number == 0, last=number == len(groups) - 1)
            yield from rich_table.Table.__rich_console__(part, console, options)

    def _needs(self, console: Console, options: ConsoleOptions) -> list[_Need]:
        wide = options.update(max_width=10_000)
        needs = []
        for index, column in enumerate(self.columns):
            cells: list[RenderableType] = [column.header, *column.cells]
            sizes = [Measurement.get(console, wide, cell) for cell in cells]
            full = max(size.maximum for size in sizes)
            whole = index < self.names or column.no_wrap or column.justify == "right"
            needs.append(_Need(full if whole else max(size.minimum for size in sizes), full))
        return needs

    def _part(self, group: list[int], widths: list[int], *, first: bool, last: bool) -> rich_table.Table:
        """The same table with some of the columns; below the first part, without rows that are empty there."""
        part = rich_table.Table(
            title=self.title if first else None,
            caption=self.caption if last else None,
            title_justify=self.title_justify,
            caption_justify=self.caption_justify,
        )
        for column, width in zip(group, widths, strict=True):
            source = self.columns[column]
            part.add_column(source.header, justify=source.justify, width=width, overflow="fold", style=source.style)
        cells = [list(self.columns[column].cells) for column in group]
        for row, of_row in zip(self.rows, zip(*cells, strict=True), strict=True):
            if first or any(of_row[self.names :]):
                part.add_row(*of_row, style=row.style, end_section=row.end_section)
        return part


def _groups(needs: list[_Need], names: int, room: int) -> Iterator[list[int]]:
    """Columns that fit beside each other, those of the names in every group."""
    first = list(range(min(names, len(needs))))
    start = sum(needs[column].least + _FRAME for column in first) + 1
    group, taken = list(first), start
    for column, need in enumerate(needs[len(first) :], len(first)):
        if taken + need.least + _FRAME > room and len(group) > len(first):
            yield group
            group, taken = list(first), start
        group.append(column)
        taken += need.least + _FRAME
    yield group


def _widths(needs: list[_Need], room: int) -> list[int]:
    """As wide as the cells are if there is room; else text columns share what is left."""
    room -= _FRAME * len(needs) + 1
    widths = [need.least for need in needs]
    over = sum(widths) - room
    if over > 0:  # a name and one column are wider than the terminal: the wider of them is folded
        widest = widths.index(max(widths))
        widths[widest] = max(8, widths[widest] - over)
        return widths
    spare = -over
    while spare and any(width < need.full for width, need in zip(widths, needs, strict=True)):
        for column, need in enumerate(needs):
            if widths[column] < need.full and spare:
                widths[column] += 1
                spare -= 1
    return widths
