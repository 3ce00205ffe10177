"""Normalization over valid steps, and the residual block around a cell."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm1d):
    """Batch normalization of `(T, B, H)` over time and batch that ignores padding.

    Single steps, `(B, H)` or T = 1, are normalized by the running statistics, in training too.
    """

    def forward(self, input: Tensor, valid: Tensor | None = None) -> Tensor:
        """Returns the normalized input; `valid (T, B, 1)` is False at padding."""
        buffers = cast(dict[str, Tensor], self._buffers)
        if not self.training or input.dim() == 2 or len(input) == 1:
            return self._scaled((input - buffers["running_mean"]) * torch.rsqrt(buffers["running_var"] + self.eps))
        if valid is None:
            return super().forward(input.flatten(0, -2)).unflatten(0, input.shape[:-1])
        weight = valid.to(input.dtype)
        count = weight.sum()
        mean = (input * weight).sum((0, 1)) / count
        variance = ((input - mean).square() * weight).sum((0, 1)) / count
        self._track(mean.detach(), variance.detach(), count)
        return self._scaled((input - mean) * torch.rsqrt(variance + self.eps))

    def _scaled(self, normalized: Tensor) -> Tensor:
        return normalized * self.weight + self.bias if self.affine else normalized

    def _track(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Updates the running statistics as torch does, with the unbiased variance."""
        buffers = cast(dict[str, Tensor], self._buffers)
        momentum = cast(float, self.momentum)
        buffers["num_batches_tracked"].add_(1)
        buffers["running_mean"].lerp_(mean.to(buffers["running_mean"]), momentum)
        unbiased = variance * count / (count - 1).clamp(min=1)
        buffers["running_var"].lerp_(unbiased.to(buffers["running_var"]), momentum)


BLOCKS = ("residual",)
BLOCK_NORMS = ("batch", "layer")


class ResidualBlock(nn.Module):
    """Parts of a residual block around its cell, for one step or for all.

        v = cell(norm(x));   v = dropout(gelu(v));   y = x + dropout((W₁ v + b₁) ⊙ σ(W₂ v + b₂))

    Args:
        size: Number of features H of x and y.
        cell_outputs: Number of features of the output of the cell, or of both directions.
        norm: "batch" (over batch and time, without scale and shift) or "layer" (over features).
    """

    def __init__(self, size: int, cell_outputs: int, norm: str):
        super().__init__()
        self.norm = BatchNorm(size, affine=False) if norm == "batch" else nn.LayerNorm(size)
        self.gate = nn.Linear(cell_outputs, 2 * size)

    def normalized(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Returns the input of the cell; `valid (T, B, 1)` is False at padding."""
        return self.norm(x, valid) if isinstance(self.norm, BatchNorm) else self.norm(x)

    def forward(self, x: Tensor, v: Tensor, masks: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Returns y from x and the output v of the cell; `masks` are the factors of both dropouts."""
        v = F.gelu(v)
        v = F.glu(self.gate(v if masks is None else v * masks[0]), dim=-1)
        return x + (v if masks is None else v * masks[1])
