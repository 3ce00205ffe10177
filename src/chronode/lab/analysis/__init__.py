"""Analyses of models: functions that return results (dataclasses with `.to_json()`), and `plot`, which draws them."""

from typing import TYPE_CHECKING

from ...system import lazy

if TYPE_CHECKING:
    from ...storage import Result
    from ...training import Attribution, integrated_gradients
    from ._circle import Setting
    from ._equilibrium import (
        Convergence,
        Eigenvalues,
        PhasePortrait,
        convergence,
        equilibrium_eigenvalues,
        phase_portrait,
    )
    from ._expressivity import Sweep, Trajectory, arc_length, depth_table, lower_bound, principal, sweep, trajectory
    from ._gradient_table import GradientTable, gradient_table
    from ._gradients import GradientFlow, gradient_flow, noise_flows
    from ._health import Health, health, health_report
    from ._learning import LearningCurves, Speed, StudySetup, learning_curves, training_speed
    from ._liquid import LayerTrajectory, TimeConstants, TimeScales, layer_trajectory, time_constants, time_scales
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
    from ._plots import plot

__getattr__, __dir__, __all__ = lazy(__name__)
