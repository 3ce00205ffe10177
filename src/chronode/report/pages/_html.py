"""Pages, tables and figures as HTML text: self-contained files that can be read on a phone and printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ...storage import replacing
from ._marks import number


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


STYLE = """
:root{color-scheme:light}*{box-sizing:border-box}
body{margin:0;background:#f6f7f9;color:#111827;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1060px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:26px;line-height:1.2;margin:8px 0 4px;overflow-wrap:anywhere}
h2{font-size:19px;margin:0 0 10px}h3{font-size:15px;margin:18px 0 6px}
p{margin:6px 0}p.lead{color:#4b5563;margin:0 0 14px}p.small,figcaption{color:#6b7280;font-size:13px}
nav{position:sticky;top:0;background:#f6f7f9ee;padding:8px 0;font-size:14px;z-index:1}
nav{display:flex;flex-wrap:wrap;gap:4px 16px}
a{color:#0a5f94;text-decoration:none}a:hover{text-decoration:underline}
section{background:#fff;border:1px solid #e5e7eb;border-radius:10px;padding:16px 18px;margin:14px 0}
section{scroll-margin-top:40px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin:14px 0}
.card{background:#fff;border:1px solid #e5e7eb;border-radius:10px;padding:10px 14px}
.card b{display:block;font-size:22px;line-height:1.25;font-weight:650;overflow-wrap:anywhere}
.card small{font-size:13px;font-weight:400;color:#4b5563;margin-left:8px;white-space:nowrap}
.card span{color:#6b7280;font-size:13px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));gap:18px 24px;align-items:start}
figure{margin:0;min-width:0}svg{display:block;width:100%;height:auto}figcaption{margin-top:2px}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid #eef0f3}
th{color:#4b5563;font-weight:600;white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap}
tr.best td{font-weight:650}
table.sortable th{cursor:pointer}table.sortable th::after{content:" ↕";color:#c0c5cd;font-size:11px}
table.sortable th[aria-sort=ascending]::after{content:" ↑";color:#111827}
table.sortable th[aria-sort=descending]::after{content:" ↓";color:#111827}
.pill{display:inline-block;border-radius:99px;padding:1px 10px;font-size:13px;background:#e8f3ee;color:#05603a}
.pill.bad{background:#fdeceb;color:#9b1c12}.pill.off{background:#eef0f3;color:#374151}
pre{background:#f3f4f6;border-radius:8px;padding:10px 12px;overflow-x:auto;font-size:13px;margin:6px 0}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}details{margin:8px 0}
summary{cursor:pointer;color:#0a5f94}ul{margin:6px 0;padding-left:20px}footer{color:#6b7280;font-size:13px}
@media print{@page{margin:14mm}body,nav{background:#fff;font-size:12px}nav{display:none}main{max-width:none;padding:0}
section{border:0;border-top:1px solid #d1d5db;border-radius:0;padding:10px 0;margin:8px 0}
h2,h3{break-after:avoid}figure,tr,pre,.card{break-inside:avoid}.grid{grid-template-columns:1fr 1fr}
.cards{grid-template-columns:repeat(5,1fr)}pre{white-space:pre-wrap}.wide{overflow:visible}
table{font-size:11px}th,td{padding-right:8px}th,td.n,th.n{white-space:normal}}
"""

# A click on a heading sorts by that column: numbers by value, text by name; empty cells stay below.
SORT = """
for(const table of document.querySelectorAll("table.sortable"))table.querySelectorAll("th").forEach((head,column)=>{
 head.tabIndex=0;head.addEventListener("keydown",event=>{if(event.key==="Enter")head.click()});
 head.addEventListener("click",()=>{
  const up=head.getAttribute("aria-sort")!=="ascending",body=table.tBodies[0];
  const key=row=>{const cell=row.cells[column];return cell.dataset.v??cell.textContent.trim().toLowerCase()};
  const both=(a,b)=>{const x=key(a),y=key(b);if(x===""||y==="")return(x==="")-(y==="");
   const n=Number(x),m=Number(y),order=isNaN(n)||isNaN(m)?x.localeCompare(y):n-m;return up?order:-order};
  for(const other of table.querySelectorAll("th"))other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort",up?"ascending":"descending");
  [...body.rows].sort(both).forEach(row=>body.append(row))})});
"""

IN_NOTEBOOKS = """
.chronode table{border-collapse:collapse}.chronode td,.chronode th{padding:2px 10px 2px 0;text-align:left}
.chronode td.n,.chronode th.n{text-align:right}.chronode figure{margin:0}
.chronode .grid{display:flex;flex-wrap:wrap;gap:12px 24px}
.chronode svg{width:380px;max-width:100%;height:auto;background:#fff}
"""
