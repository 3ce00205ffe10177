"""HTML pages with SVG plots, written without a library: reports of runs, and output in notebooks."""

from typing import TYPE_CHECKING

from ...system import lazy

if TYPE_CHECKING:
    from ._charts import bar_chart, dot_chart, heat_map, interval_chart, shade
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
    from ._marks import COLORS, number, shortened, span, ticks
    from ._plot import GRAY, Plot

__getattr__, __dir__, __all__ = lazy(__name__)
