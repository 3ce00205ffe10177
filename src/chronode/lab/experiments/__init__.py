"""The tables of the papers: recipes to reproduce them, the ledger of runs, and tables of your own."""

from typing import TYPE_CHECKING

from ...system import lazy

if TYPE_CHECKING:
    from .budgets import Budget, Search, in_epochs, in_steps
    from .ledger import Entry, Ledger
    from .recipe import Recipe, TableCell, add_recipe, find_recipe, recipes, row
    from .rows import TableRow, compare

__getattr__, __dir__, __all__ = lazy(__name__)
