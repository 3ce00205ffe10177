"""Imports of the server that worker processes are forked from: modules that every training needs."""

from ...runs import assemble_run, prepared_for, train_run  # noqa: F401
from ...training import fit  # noqa: F401
