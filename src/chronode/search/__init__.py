"""Many runs: comparison of models over seeds, and search for good settings."""

from typing import TYPE_CHECKING

from ..system._lazy import lazy

if TYPE_CHECKING:
    from ._compare import compare
    from ._plan import plan
    from ._ranges import Between, OneOf, ranges_for
    from ._scores import Comparison, RunResult
    from ._study import Trial
    from ._sweep import Search
    from .engine import Engine

__all__ = ["Between", "Comparison", "Engine", "OneOf", "RunResult", "Search", "Trial", "compare", "plan", "ranges_for"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "_compare": "Engine compare",
        "_plan": "plan",
        "_ranges": "Between OneOf ranges_for",
        "_scores": "Comparison RunResult",
        "_study": "Trial",
        "_sweep": "Search",
    },
)
