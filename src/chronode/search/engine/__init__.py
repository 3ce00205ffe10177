"""Execution of many jobs on many workers, with one queue for `reproduce`, `compare`, `sweep` and `backtest`.

The workers are this process, other processes on this machine, or those of a Ray cluster.
"""

from ._engine import ENGINES, Engine, carry_out
from ._job import Done, Job, StopJob
from ._ray import RayHelpers

__all__ = ["ENGINES", "Done", "Engine", "Job", "RayHelpers", "StopJob", "carry_out"]
