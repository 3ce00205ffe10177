"""IndRNN and SRU on a GPU: launches of _elementwise_kernels.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import ops
from ._elementwise_kernels import backward_kernel, forward_kernel
from ._steps import TYPES, given, tiles


def _options(a: Tensor, h0: Tensor, lengths: Tensor | None, model: str, last: bool) -> dict[str, Any]:
    settings = {"SRU": model == "sru", "RAGGED": lengths is not None, "LAST": last}
    return settings | {"STATE": TYPES[ops.state_dtype(a.dtype)], **tiles(*h0.shape).options}


def forward(
    a: Tensor,
    h0: Tensor,
    weights: Tensor,
    scale: Tensor | None,
    lengths: Tensor | None,
    model: str,
    last: bool,
    keep: bool,
    results: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Fills the results of `_elementwise.elementwise_forward`."""
    states, y, h = results
    inputs = (a, h0, weights, given(scale, a), given(lengths, a))
    options = {"KEEP": keep, **_options(a, h0, lengths, model, last)}
    forward_kernel[tiles(*h0.shape).grid](*inputs, states, y, h, len(a), *h0.shape, **options)


def backward(
    a: Tensor,
    h0: Tensor,
    weights: Tensor,
    scale: Tensor | None,
    lengths: Tensor | None,
    states: Tensor,
    grad_y: Tensor | None,
    grad_h: Tensor | None,
    model: str,
    last: bool,
    results: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Fills the results of `_elementwise.elementwise_backward`."""
    da, dh0, dweights = results
    grid = tiles(*h0.shape).grid
    sums = torch.empty(grid[0], dweights.numel(), dtype=ops.state_dtype(a.dtype), device=a.device)
    of_h = torch.zeros_like(h0) if grad_h is None else grad_h.contiguous()
    of_y = None if grad_y is None else grad_y.contiguous()
    inputs = (a, h0, weights, given(scale, a), given(lengths, a), states, given(of_y, a), of_h)
    options = {"HAS_GRAD": of_y is not None, **_options(a, h0, lengths, model, last)}
    backward_kernel[grid](*inputs, da, dh0, sums, len(a), *h0.shape, **options)
    dweights.copy_(sums.sum(0))
