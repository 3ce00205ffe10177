"""Memory layout of UnICORNN's arrays: what is (T, B, ...) lies in memory as (T, B, ...) or as (B, T, ...)."""

from __future__ import annotations

import torch
from torch import Tensor

from . import ops


def dense(x: Tensor) -> Tensor:
    """Returns x itself if it lies in memory in one of the two ways, else a copy."""
    return x if x.is_contiguous() or x.transpose(0, 1).is_contiguous() else ops.dense(x)


def new(like: Tensor, features: int, zero: bool) -> Tensor:
    """Returns an empty (or zero) `(T, B, features)` that lies in memory as the dense `like` does."""
    steps, batch = like.shape[:2]
    strides = (batch * features, features, 1) if like.is_contiguous() else (features, steps * features, 1)
    # Not a transposed view: autograd would forbid to write to it.
    new = like.new_empty_strided((steps, batch, features), strides)
    return new.zero_() if zero else new


def passed(x: Tensor | None) -> tuple[Tensor | None, int, int]:
    """Returns a dense tensor as the kernels take it: memory, elements between steps, elements between samples."""
    if x is None or x.numel() == 0:
        return None, 0, 0
    return x if x.is_contiguous() else x.transpose(0, 1), x.stride(0), x.stride(1)


def passed_gradient(grad: Tensor | None) -> tuple[Tensor | None, int, int]:
    """As `passed`, of any gradient; one repeated over steps or samples (of a mean or a sum) is not written out."""
    if grad is None or grad.numel() == 0:
        return passed(None)
    steps, batch = (1 if stride == 0 else size for size, stride in zip(grad.shape[:2], grad.stride()[:2], strict=True))
    rows, step, sample = passed(dense(grad[:steps, :batch]))
    return rows, step if steps > 1 else 0, sample if batch > 1 else 0


def row_length(hidden: int, dtype: torch.dtype) -> int:
    """`hidden` rounded up to whole cache lines of 64 bytes: the row length of what is kept."""
    line = 64 // dtype.itemsize
    return -(-hidden // line) * line
