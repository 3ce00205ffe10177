"""Many runs: comparison of models over seeds, and search for good settings."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._compare import compare
    from ._plan import PlannedRun, plan
    from ._ranges import Between, OneOf, Range, applied, ranges_for, read_fixed, read_range, source_of_ranges
    from ._scores import Comparison, ModelScores, RunResult
    from ._study import Trial
    from ._sweep import Search
    from .engine import Engine


__getattr__, __dir__, __all__ = lazy(__name__)
