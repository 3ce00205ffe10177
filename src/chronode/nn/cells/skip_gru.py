"""Skip GRU: a GRU that skips steps."""

from __future__ import annotations

from .._registry import register
from ._skip import PAPER, SkipCell
from .gru import GRUCell


@register("skip-gru", paper=PAPER, time="none")
class SkipGRUCell(SkipCell):
    """Skip GRU: a GRU that skips steps.

    State: (h, ũ, updates). Equations and arguments: see `SkipCell`.
    """

    inner = GRUCell
