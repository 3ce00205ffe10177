"""Product with the input, used by IndRNN and SRU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels import addmm


class Product(nn.Linear):
    """W x + b for `x (..., D)`; `bias` replaces the module's own b.

    Training uses a copy of Wᵀ: with 2 to 8 features the gradient of W itself would take torch 3 to 9 times as long.
    """

    def forward(self, input: Tensor, bias: Tensor | None = None) -> Tensor:
        """Returns W x + b."""
        transposed = self.weight.T.contiguous() if torch.is_grad_enabled() else self.weight.T
        rows = addmm(self.bias if bias is None else bias, input.flatten(0, -2), transposed)
        return rows.unflatten(0, input.shape[:-1])
