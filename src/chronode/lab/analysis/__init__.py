"""Analyses of models: results (dataclasses with `.to_json()`), plots, and the functions behind `chronode analyze`."""

from ...judge import Attribution, integrated_gradients
from ...storage import Result
from ._circle import Setting
from ._equilibrium import Convergence, Eigenvalues, convergence, equilibrium_eigenvalues
from ._expressivity import Sweep, Trajectory, arc_length, depth_table, lower_bound, principal, sweep, trajectory
from ._gradient_table import GradientTable, gradient_table
from ._gradients import GradientFlow, gradient_flow, noise_flows
from ._health import Health, health, health_report
from ._learning import LearningCurves, learning_curves
from ._liquid import LayerTrajectory, TimeConstants, layer_trajectory, time_constants
from ._losses import (
    GradientHistory,
    GradientTracker,
    LossGradients,
    LossSurface,
    loss_gradients,
    loss_surface,
    teach_bits,
    track_adding,
)
from ._oscillator_bounds import (
    GradientBounds,
    Representation,
    StateBounds,
    gradient_bounds,
    representation,
    state_bounds,
)
from ._oscillator_studies import (
    EffectiveSteps,
    Sensitivity,
    StudyScores,
    WeightNorms,
    effective_steps,
    learned_steps,
    sensitivity,
    stacking,
    subsampling,
    weight_norms,
)
from ._oscillators import Energy, Reconstruction, Volume, energy, hamiltonian, phase_space_volume, reconstruction
from ._phase import PhasePortrait, phase_portrait
from ._plots_curves import plot_learning, plot_speed
from ._plots_equilibrium import plot_convergence, plot_eigenvalues, plot_phase
from ._plots_expressivity import plot_depth, plot_explained, plot_sweep, plot_time_constants, plot_trajectories
from ._plots_gradients import (
    plot_gradient_flow,
    plot_gradient_table,
    plot_history,
    plot_loss_gradients,
    plot_loss_surfaces,
    plot_singular_values,
)
from ._plots_health import plot_health
from ._plots_oscillators import (
    plot_effective_steps,
    plot_energy,
    plot_gradient_bounds,
    plot_reconstruction,
    plot_representation,
    plot_sensitivity,
    plot_stacking,
    plot_state_bounds,
    plot_subsampling,
    plot_volume,
    plot_weight_norms,
)
from ._speed import Speed, training_speed
from ._study import StudySetup
from ._timescales import TimeScales, time_scales

__all__ = [
    "Attribution",
    "Convergence",
    "EffectiveSteps",
    "Eigenvalues",
    "Energy",
    "GradientBounds",
    "GradientFlow",
    "GradientHistory",
    "GradientTable",
    "GradientTracker",
    "Health",
    "LayerTrajectory",
    "LearningCurves",
    "LossGradients",
    "LossSurface",
    "PhasePortrait",
    "Reconstruction",
    "Representation",
    "Result",
    "Sensitivity",
    "Setting",
    "Speed",
    "StateBounds",
    "StudyScores",
    "StudySetup",
    "Sweep",
    "TimeConstants",
    "TimeScales",
    "Trajectory",
    "Volume",
    "WeightNorms",
    "arc_length",
    "convergence",
    "depth_table",
    "effective_steps",
    "energy",
    "equilibrium_eigenvalues",
    "gradient_bounds",
    "gradient_flow",
    "gradient_table",
    "hamiltonian",
    "health",
    "health_report",
    "integrated_gradients",
    "layer_trajectory",
    "learned_steps",
    "learning_curves",
    "loss_gradients",
    "loss_surface",
    "lower_bound",
    "noise_flows",
    "phase_portrait",
    "phase_space_volume",
    "plot_convergence",
    "plot_depth",
    "plot_effective_steps",
    "plot_eigenvalues",
    "plot_energy",
    "plot_explained",
    "plot_gradient_bounds",
    "plot_gradient_flow",
    "plot_gradient_table",
    "plot_health",
    "plot_history",
    "plot_learning",
    "plot_loss_gradients",
    "plot_loss_surfaces",
    "plot_phase",
    "plot_reconstruction",
    "plot_representation",
    "plot_sensitivity",
    "plot_singular_values",
    "plot_speed",
    "plot_stacking",
    "plot_state_bounds",
    "plot_subsampling",
    "plot_sweep",
    "plot_time_constants",
    "plot_trajectories",
    "plot_volume",
    "plot_weight_norms",
    "principal",
    "reconstruction",
    "representation",
    "sensitivity",
    "stacking",
    "state_bounds",
    "subsampling",
    "sweep",
    "teach_bits",
    "time_constants",
    "time_scales",
    "track_adding",
    "training_speed",
    "trajectory",
    "weight_norms",
]
