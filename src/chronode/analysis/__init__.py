"""Analyses: numbers first (dataclasses with `.to_json()`), plots second."""

from .base import Result
from .equilibrium import Convergence, Eigenvalues, convergence, equilibrium_eigenvalues
from .gradients import GradientFlow, gradient_flow
from .health import Health, health, health_report
from .losses import (
    GradientHistory,
    GradientTracker,
    LossGradients,
    LossSurface,
    loss_gradients,
    loss_surface,
    track_adding,
)
from .phase import PhasePortrait, phase_portrait
from .table2 import GradientTable, gradient_table

__all__ = [
    "Convergence",
    "Eigenvalues",
    "GradientFlow",
    "GradientHistory",
    "GradientTable",
    "GradientTracker",
    "Health",
    "LossGradients",
    "LossSurface",
    "PhasePortrait",
    "Result",
    "convergence",
    "equilibrium_eigenvalues",
    "gradient_flow",
    "gradient_table",
    "health",
    "health_report",
    "loss_gradients",
    "loss_surface",
    "phase_portrait",
    "track_adding",
]
