"""minLSTM: a gated memory whose gates see the input alone."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from .._registry import register
from .mingru import GatedLinearCell


@register("minlstm", paper="Feng et al. 2024, minLSTM", time="native")
class MinLSTMCell(GatedLinearCell):
    """minLSTM: an LSTM without output gate whose gates and candidate depend on the input alone.

        f, i = σ(W_f x + b_f), σ(W_i x + b_i),   z = 1 - (f/(f + i))^dt
        y = h' = (1 - z) ⊙ h + z ⊙ (W_c x + b_c)

    With dt = 1, h' = f/(f + i) ⊙ h + i/(f + i) ⊙ c, the paper's model.

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size, gates=2)

    def forgetting(self, *gates: Tensor) -> Tensor:
        """Returns -log(f/(f + i)) = softplus(log i - log f)."""
        f, i = gates
        return F.softplus(F.softplus(-f) - F.softplus(-i))
