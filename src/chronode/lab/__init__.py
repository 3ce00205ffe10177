"""The lab of the five papers: their numbers, tasks, data sets, tables, analyses and benchmarks."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from . import analysis, experiments, papers, tasks

__getattr__, __dir__, __all__ = lazy(__name__)
