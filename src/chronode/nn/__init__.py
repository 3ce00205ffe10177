"""Cells, layers, solvers: what a network is built from."""

from . import (
    closed_form,
    controlled,
    decay,
    fast,
    flow_jump,
    gated,
    independent,
    latent,
    orthogonal,
    oscillator,
    skip,
    stable,
    timescales,
)
from .cell import Cell, State
from .equilibrium import EquilibriumCell
from .layer import Layer
from .liquid import LTCCell
from .mixed_memory import MixedMemoryCell
from .named import ERNN, IRNN, LTC, MMRNN, SiRNN, UnICORNN
from .solvers import Solver
from .unicornn import UnICORNNCell

__all__ = [
    "ERNN",
    "IRNN",
    "LTC",
    "MMRNN",
    "Cell",
    "EquilibriumCell",
    "LTCCell",
    "Layer",
    "MixedMemoryCell",
    "SiRNN",
    "Solver",
    "State",
    "UnICORNN",
    "UnICORNNCell",
    "closed_form",
    "controlled",
    "decay",
    "fast",
    "flow_jump",
    "gated",
    "independent",
    "latent",
    "orthogonal",
    "oscillator",
    "skip",
    "stable",
    "timescales",
]
