"""Analyses of models: functions that return results (dataclasses with `.to_json()`), and `plot`, which draws them."""

from typing import TYPE_CHECKING

from ...system import lazy

if TYPE_CHECKING:
    from ...storage import Result
    from ...training import Attribution, integrated_gradients
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
    from ._plots import plot
    from ._speed import Speed, training_speed
    from ._study import StudySetup
    from ._timescales import TimeScales, time_scales

__getattr__, __dir__, __all__ = lazy(__name__)
