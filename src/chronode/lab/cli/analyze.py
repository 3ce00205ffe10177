"""`chronode analyze`: analyses of models; each command prints numbers and draws a plot."""

from __future__ import annotations

import typer

from ...cli.options import with_plugins
from . import analyze_equilibrium, analyze_expressivity, analyze_gradients, analyze_oscillators, analyze_studies
from .analyze_health import health
from .analyze_shared import with_output

analyze_app = typer.Typer(
    help="Analyze models: health, gradients, equilibria, oscillators.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.add_typer(analyze_app, name="analyze")


# Each has its own options and returns Findings; `with_output` adds --output and --json and shows them.
COMMANDS = {
    "gradients": analyze_gradients.gradients,
    "flow": analyze_gradients.flow,
    "teaching": analyze_gradients.teaching,
    "training": analyze_gradients.training,
    "equilibrium": analyze_equilibrium.equilibrium,
    "phase": analyze_equilibrium.phase,
    "energy": analyze_oscillators.energy,
    "volume": analyze_oscillators.volume,
    "inverse": analyze_oscillators.inverse,
    "state-bounds": analyze_oscillators.state_bounds,
    "gradient-bounds": analyze_oscillators.gradient_bounds,
    "gradient-formula": analyze_oscillators.gradient_formula,
    "time-steps": analyze_studies.time_steps,
    "weight-norms": analyze_studies.weight_norms,
    "sensitivity": analyze_studies.sensitivity,
    "stacking": analyze_studies.stacking,
    "subsampling": analyze_studies.subsampling,
    "trajectory": analyze_expressivity.trajectory,
    "expressivity": analyze_expressivity.expressivity,
    "depth-table": analyze_expressivity.depth_table,
    "time-constants": analyze_expressivity.time_constants,
}
analyze_app.command("health")(with_plugins(health))  # its --output is different: the run folder by default
for _name, _command in COMMANDS.items():
    analyze_app.command(_name)(with_plugins(with_output(_command)))
