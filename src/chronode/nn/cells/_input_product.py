"""The product with the input that IndRNN and SRU share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels._product import addmm


class Product(nn.Linear):
    """W x + b for `x (..., D)`; b may be given, if it is not the module's own.

    In training by a copy of Wᵀ: with 2 to 8 features torch takes 3 to 9 times as long for the gradient of W itself.
    """

    def forward(self, input: Tensor, bias: Tensor | None = None) -> Tensor:
        """W x + b."""
        transposed = self.weight.T.contiguous() if torch.is_grad_enabled() else self.weight.T
        rows = addmm(self.bias if bias is None else bias, input.flatten(0, -2), transposed)
        return rows.unflatten(0, input.shape[:-1])
