"""CfC: a closed-form approximation of the liquid time-constant network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import whole
from .._cell import InputMapCell, State
from .._registry import register


@register("cfc", paper="Hasani et al. 2022, Closed-form continuous-time networks", time="native")
class CfCCell(InputMapCell):
    """CfC: two candidate states, and a gate that moves from one to the other with time.

        q = 1.7159 tanh(0.666 (W x + U h + b))                 (further backbone layers: the same of q)
        A, B, a, b = linear maps of q
        s = σ(a dt + b);   y = h' = (1 - s) ⊙ tanh(A) + s ⊙ tanh(B)

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        backbone_units: Size of q.
        backbone_layers: Number of layers that compute q.
    """

    def __init__(self, input_size: int, hidden_size: int, backbone_units: int = 128, backbone_layers: int = 1):
        super().__init__(input_size, hidden_size)
        units = whole("backbone_units", backbone_units, at_least=1)
        layers = whole("backbone_layers", backbone_layers, at_least=1)
        self.inputs = nn.Linear(input_size, units)
        self.recurrent = nn.Linear(hidden_size, units, bias=False)
        self.deeper = nn.ModuleList(nn.Linear(units, units) for _ in range(layers - 1))
        self.heads = nn.Linear(units, 4 * hidden_size)
        self._initialize(units)

    def _initialize(self, units: int) -> None:
        """Applies Xavier initialization to each matrix of the equations separately."""
        both = torch.empty(units, self.input_size + self.hidden_size)
        nn.init.xavier_uniform_(both)
        with torch.no_grad():
            self.inputs.weight.copy_(both[:, : self.input_size])
            self.recurrent.weight.copy_(both[:, self.input_size :])
        for weight in self.deeper.parameters():
            if weight.dim() == 2:
                nn.init.xavier_uniform_(weight)
        for head in self.heads.weight.detach().chunk(4):
            nn.init.xavier_uniform_(head)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        q = _lecun_tanh(x + self.recurrent(h))
        for layer in self.deeper:
            q = _lecun_tanh(layer(q))
        first, second, slope, offset = self.heads(q).chunk(4, dim=-1)
        s = torch.sigmoid(slope * dt + offset)
        first = torch.tanh(first)
        h = first + s * (torch.tanh(second) - first)
        return h, (h,)


def _lecun_tanh(a: Tensor) -> Tensor:
    return 1.7159 * torch.tanh(0.666 * a)
