"""Pages, tables and figures as HTML text: self-contained files that can be read on a phone and printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ...storage import replacing
from ._marks import number
from ._style import IN_NOTEBOOKS, SORT, STYLE


class Html(str):
    """Text that is already HTML; all other text is escaped when it is put on a page."""

    __slots__ = ()


def safe(value: Any) -> str:
    """Returns a value as HTML: `Html` is unchanged, numbers are rounded, everything else is escaped.

    Example:
        >>> safe("a < b"), safe(0.123456), safe(None), safe(Html("<b>x</b>"))
        ('a &lt; b', '0.1235', '', '<b>x</b>')
    """
    if value is None:
        return ""
    if isinstance(value, Html):
        return value
    return escape(number(value) if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numeric: Sequence[str] = (),
    sortable: bool = False,
    best: int | None = None,
) -> Html:
    """Returns a table; a cell may be a pair of the displayed value and the number to sort by.

    Args:
        columns: Headings.
        rows: Cells of each row, as `safe` takes them.
        numeric: Right-aligned columns.
        sortable: Whether a click on a heading sorts the rows (on a page with `script=True`).
        best: The row in bold.

    Example:
        >>> found = table(["model", "rmse"], [["a<b", 0.5]], numeric=["rmse"])
        >>> '<td>a&lt;b</td><td class="n" data-v="0.5">0.5</td>' in found
        True
    """
    sides = [' class="n"' if name in numeric else "" for name in columns]
    head = "".join(f"<th{side}>{safe(name)}</th>" for name, side in zip(columns, sides, strict=True))
    lines = []
    for index, row in enumerate(rows):
        cells = "".join(_cell(value, side) for value, side in zip(row, sides, strict=True))
        mark = ' class="best"' if index == best else ""
        lines.append(f"<tr{mark}>{cells}</tr>")
    kind = ' class="sortable"' if sortable else ""
    body = "".join(lines)
    return Html(f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def _cell(value: Any, side: str) -> str:
    shown, key = value if isinstance(value, tuple) else (value, value)
    by = f' data-v="{key!r}"' if isinstance(key, int | float) and key == key and not isinstance(key, bool) else ""
    return f"<td{side}{by}>{safe(shown)}</td>"


def figure(drawing: Any, caption: str = "") -> Html:
    """Returns a plot (anything whose `str` is SVG) with a caption."""
    below = f"<figcaption>{safe(caption)}</figcaption>" if caption else ""
    return Html(f"<figure>{drawing}{below}</figure>")


def grid(*figures: str) -> Html:
    """Arranges figures side by side if there is room, otherwise one below another."""
    return Html(f'<div class="grid">{"".join(figures)}</div>')


def cards(facts: Mapping[str, Any]) -> Html:
    """Returns a row of boxes with names and values."""
    boxes = (f'<div class="card"><span>{safe(name)}</span><b>{safe(value)}</b></div>' for name, value in facts.items())
    return Html(f'<div class="cards">{"".join(boxes)}</div>')


def paragraph(text: Any, kind: str = "") -> Html:
    """Returns a paragraph; `kind` is "", "lead" or "small"."""
    mark = f' class="{kind}"' if kind else ""
    return Html(f"<p{mark}>{safe(text)}</p>")


def heading(text: str) -> Html:
    """Returns a heading within a section."""
    return Html(f"<h3>{safe(text)}</h3>")


def bullets(lines: Iterable[Any]) -> Html:
    """Returns a list."""
    return Html(f"<ul>{''.join(f'<li>{safe(line)}</li>' for line in lines)}</ul>")


def code(text: str) -> Html:
    """Returns a block of code."""
    return Html(f"<pre><code>{safe(text)}</code></pre>")


def details(summary: str, *content: str) -> Html:
    """Returns content that a click expands."""
    return Html(f"<details><summary>{safe(summary)}</summary>{''.join(content)}</details>")


def page(title: str, head: str, sections: Mapping[str, Sequence[str]], *, script: bool = False, foot: Any = "") -> Html:
    """Returns a whole page.

    Args:
        title: Title of the window and the first heading.
        head: HTML below the heading.
        sections: Pieces of HTML by heading.
        script: Whether to include the script that sorts tables.
        foot: The last line.

    Example:
        >>> text = page("a <run>", "", {"Data": [table(["x"], [[1]])]})
        >>> "<title>a &lt;run&gt;</title>" in text, "http" in text
        (True, False)
    """
    names = {name: f"s{index}" for index, name in enumerate(sections)}
    links = "".join(f'<a href="#{names[name]}">{safe(name)}</a>' for name in sections)
    body = "".join(
        f'<section id="{names[name]}"><h2>{safe(name)}</h2>{"".join(pieces)}</section>'
        for name, pieces in sections.items()
    )
    start = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    start += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # An empty icon, which browsers would otherwise request.
    start += f'<link rel="icon" href="data:,"><title>{safe(title)}</title><style>{STYLE}</style></head>'
    end = f"<script>{SORT}</script>" if script else ""
    footer = f"<footer>{safe(foot)}</footer>" if foot else ""
    return Html(
        f"{start}<body><main><h1>{safe(title)}</h1>{head}<nav>{links}</nav>{body}{footer}</main>{end}</body></html>\n"
    )


def write_page(path: str | Path, text: str) -> Path:
    """Writes a page atomically."""
    path = Path(path)
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")
    return path


def piece(*content: str) -> str:
    """Returns HTML for the output of a notebook cell, with its style."""
    return f'<div class="chronode"><style>{IN_NOTEBOOKS}</style>{"".join(content)}</div>'
