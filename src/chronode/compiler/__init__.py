"""Compiles a cell's step: traced once, turned into a graph with its backward, written as native code.

`chronode.backend("native")` compiles every cell that has no hand-written kernel when it is first run; `use` does this
for one model, and `plan` estimates whether it is worthwhile. See the page "How chronode makes your cell fast".
"""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._auto import pays, timed
    from ._changes import Methods, methods_of, remake_weights, why_changed, why_hooked
    from ._choice import Decision, Path, bind, cells_of, equal, explain, find, plan, use
    from ._compiled import gpu_source_of, kernel_of, source_of
    from ._fingerprint import Fingerprint, Members
    from ._gpu import gpu_path, note_loop
    from ._lower import Step, lower
    from ._memory import Scratch
    from ._node import COMPARISONS, EXPENSIVE, Node
    from ._program import Loop, Store, Target
    from ._recorded import Unsupported, operator
    from ._schedule import Scheduler
    from ._trace import Traced, trace
    from ._views import View
    from ._writer import SYMBOLS, Writer, visited

__getattr__, __dir__, __all__ = lazy(__name__)
