"""Skip LSTM: an LSTM that skips steps."""

from __future__ import annotations

from .._registry import register
from ._skip import PAPER, SkipCell
from .lstm import LSTMCell


@register("skip-lstm", paper=PAPER, time="none")
class SkipLSTMCell(SkipCell):
    """Skip LSTM: an LSTM that skips steps.

    State: (h, c, ũ, updates). Equations and arguments: see `SkipCell`.
    """

    inner = LSTMCell
