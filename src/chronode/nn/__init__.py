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
from .equilibrium import ERNN, IRNN, EquilibriumCell, SiRNN
from .layer import Layer
from .liquid import LTC, LTCCell
from .mixed_memory import MMRNN, MixedMemoryCell
from .solvers import Solver
from .unicornn import UnICORNN, UnICORNNCell

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
