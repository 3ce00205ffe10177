"""Plots and tables of results."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._data_pictures import as_html, write_series_page
    from ._text_tables import FORMATS, text_table
    from ._training_pictures import (
        comparison_html,
        fitted_html,
        learning_pictures,
        progress_html,
        run_html,
        search_html,
        write_curves,
    )

__getattr__, __dir__, __all__ = lazy(__name__)
