"""Modes of torch in which a call is made: whether a kernel can run, and whether values can be read."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch.autograd import forward_ad

from ._backend import chosen, constant_to_compilers
from ._library import library, status

TRANSFORMED = "transforms of torch.func and forward-mode differentiation need the torch path"
"""Reason why only operations of torch may run if `transformed()`."""


@constant_to_compilers
def transformed() -> bool:
    """Returns whether this is inside a transform of torch.func (grad, vmap, jvp, ...) or forward-mode
    differentiation.
    """
    return _functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


@constant_to_compilers
def under_vmap() -> bool:
    """Returns whether this is inside torch.vmap, where the values of a tensor cannot be read."""
    stack = _functorch.get_interpreter_stack() or ()
    return any(level.key() == _functorch.TransformType.Vmap for level in stack)


def weight_of(module: nn.Module) -> Tensor | None:
    """Returns a weight of a module, whose dtype and device are those of its results; None if it has no weights."""
    tensors = chain(module.parameters(), module.buffers())  # lazily: the first one is usually a weight
    return next((tensor for tensor in tensors if tensor.dtype.is_floating_point), None)


def has_values(x: Tensor) -> bool:
    """Returns whether the values of `x` can be read: not while compiling, under vmap, or on the meta device."""
    return not (torch.compiler.is_compiling() or x.is_meta or under_vmap() or type(x).__name__ == "FakeTensor")


def may_look(x: Tensor) -> bool:
    """Returns whether the values of `x` can be read without waiting for a device."""
    return has_values(x) and x.device.type == "cpu"


def need_values(x: Tensor, what: str, cure: str) -> None:
    """Raises an error if the values of `x` cannot be read."""
    if not torch.compiler.is_compiling() and not has_values(x):
        raise RuntimeError(f"{what} needs values, which torch.vmap and the meta device do not provide: {cure}.")


def autocasts(x: Tensor) -> bool:
    """Returns whether torch.autocast is on for the device of `x`."""
    return not x.is_meta and torch.is_autocast_enabled("cpu" if x.is_cpu else x.device.type)


@constant_to_compilers
def _why_no_library() -> str | None:
    return status() if library() is None else None


def why_no_kernel() -> str | None:
    """Returns the reason why no kernel may run now, whatever the device; None if one may."""
    if chosen() == "torch":
        return "the torch backend is chosen"
    return TRANSFORMED if transformed() else None


def why_not(x: Tensor) -> str | None:
    """Returns the reason why no kernel can run on `x` on the CPU; None if one can."""
    if (reason := why_no_kernel()) is not None:
        return reason
    if (reason := _why_no_library()) is not None:
        return reason
    if x.device.type != "cpu":
        return f"the native kernels run on the CPU, x is on {x.device}"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the native kernels take float32 and float64, x is {x.dtype}"
    return None
