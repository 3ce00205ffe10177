"""HTML pages with SVG plots, written without a library: reports of runs, and output in notebooks."""

from ._charts import bar_chart, heat_map, shade
from ._colors import COLORS
from ._dots import dot_chart
from ._html import (
    Html,
    bullets,
    cards,
    code,
    details,
    figure,
    grid,
    heading,
    page,
    paragraph,
    piece,
    safe,
    table,
    write_page,
)
from ._marks import number, shortened, span, ticks
from ._plot import GRAY, Plot

__all__ = [
    "COLORS",
    "GRAY",
    "Html",
    "Plot",
    "bar_chart",
    "bullets",
    "cards",
    "code",
    "details",
    "dot_chart",
    "figure",
    "grid",
    "heading",
    "heat_map",
    "number",
    "page",
    "paragraph",
    "piece",
    "safe",
    "shade",
    "shortened",
    "span",
    "table",
    "ticks",
    "write_page",
]
