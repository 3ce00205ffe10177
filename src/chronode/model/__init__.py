"""Models: inputs, a layer, a head and a linear start, built from a spec."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from . import start
    from ._capabilities import CAPABILITIES, Refusal, check, refusal
    from ._live import LiveModel, Window, window_cells
    from ._margins import LEVELS, Margins
    from ._model import ALONE, LINEAR, STACK, SequenceModel, check_symbols, pooled
    from ._relative import Relative, View
    from ._spec import ModelSpec, count_symbols
    from ._spread import traits_of
    from ._step import Link, ObservationStep, RunningStart, Units

__getattr__, __dir__, __all__ = lazy(__name__)
