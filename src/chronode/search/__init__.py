"""Many trainings: `compare` models over seeds, and `Search` for good settings."""

from typing import TYPE_CHECKING, Any

from ._compare import Comparison, Result, compare, plan
from ._ranges import Between, OneOf, ranges_for

if TYPE_CHECKING:
    from ._study import Trial
    from ._sweep import Search

__all__ = ["Between", "Comparison", "OneOf", "Result", "Search", "Trial", "compare", "plan", "ranges_for"]


def __getattr__(name: str) -> Any:
    """What needs Optuna is imported when it is first used."""
    if name == "Search":
        from ._sweep import Search

        return Search
    if name == "Trial":
        from ._study import Trial

        return Trial
    raise AttributeError(f"module 'chronode.search' has no attribute {name!r}")
