"""Compiles a cell's step: traced once, turned into a graph with its backward, written as native code.

`chronode.backend("native")` compiles every cell that has no hand-written kernel when it is first run; `use` does this
for one model, and `plan` estimates whether it is worthwhile. See the page "How chronode makes your cell fast".
"""

from __future__ import annotations

from ._choice import Decision, Path, cells_of, explain, find, plan, use

__all__ = ["Decision", "Path", "cells_of", "explain", "find", "plan", "use"]
