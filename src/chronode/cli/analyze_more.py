"""Adds the commands for oscillators (UnICORNN) and expressivity (LTC) to `chronode analyze`; each draws a picture."""

from __future__ import annotations

import typer

from . import analyze_expressivity as ltc
from . import analyze_oscillators as unicornn
from . import analyze_studies as studies

COMMANDS = {
    "energy": unicornn.energy,
    "volume": unicornn.volume,
    "inverse": unicornn.inverse,
    "state-bounds": unicornn.state_bounds,
    "gradient-bounds": unicornn.gradient_bounds,
    "gradient-formula": unicornn.gradient_formula,
    "time-steps": studies.time_steps,
    "weight-norms": studies.weight_norms,
    "sensitivity": studies.sensitivity,
    "stacking": studies.stacking,
    "subsampling": studies.subsampling,
    "trajectory": ltc.trajectory,
    "expressivity": ltc.expressivity,
    "depth-table": ltc.depth_table,
    "time-constants": ltc.time_constants,
}


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for name, command in COMMANDS.items():
        app.command(name)(command)
