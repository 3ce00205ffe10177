"""Cells, layers and solvers: the parts of recurrent networks."""

from . import cells
from ._cell import Cell, State
from ._layer import Layer
from ._named import ERNN, IRNN, LTC, MMRNN, SiRNN, UnICORNN
from ._solvers import Solver
from .cells import *  # noqa: F403

__all__ = [
    "ERNN",
    "IRNN",
    "LTC",
    "MMRNN",
    "Cell",
    "Layer",
    "SiRNN",
    "Solver",
    "State",
    "UnICORNN",
    "cells",
]
__all__ += cells.__all__
