"""Many runs: comparison of models over seeds, and search for good settings."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._compare import PlannedRun, compare, plan
    from ._ranges import Between, OneOf, Range, applied, ranges_for, read_fixed, read_range, source_of_ranges
    from ._scores import Comparison, ModelScores, RunResult, difference_text, mean_text
    from ._scoring import Chunk, Scored, score_in_chunks
    from ._sweep import Search
    from ._trials import Trial
    from .engine import Engine, RayHelpers


__getattr__, __dir__, __all__ = lazy(__name__)
