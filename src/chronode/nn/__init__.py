"""Cells, layers and solvers: the parts of recurrent networks."""

from . import cells
from ._cell import Cell, State, Step, cell_settings
from ._flows import Approach, CTRNNFlow, Flow, LeakyFlow, make_flow, register_flow
from ._inputs import TOO_LARGE, Call, check_inputs
from ._layer import Layer
from ._named import ERNN, IRNN, LTC, MMRNN, SiRNN, UnICORNN
from ._registry import Model, create, find_model, models, register
from ._solvers import ADAPTIVE, Solver, register_solver
from ._torch import from_torch
from .cells import *  # noqa: F403
from .driver import Plan
from .driver import run as run_cell

__all__ = [
    "ADAPTIVE",
    "ERNN",
    "IRNN",
    "LTC",
    "MMRNN",
    "TOO_LARGE",
    "Approach",
    "CTRNNFlow",
    "Call",
    "Cell",
    "Flow",
    "Layer",
    "LeakyFlow",
    "Model",
    "Plan",
    "SiRNN",
    "Solver",
    "State",
    "Step",
    "UnICORNN",
    "cell_settings",
    "cells",
    "check_inputs",
    "create",
    "find_model",
    "from_torch",
    "make_flow",
    "models",
    "register",
    "register_flow",
    "register_solver",
    "run_cell",
]
__all__ += cells.__all__
