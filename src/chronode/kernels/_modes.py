"""In which of torch's modes a call is made: what a kernel cannot run in, and where numbers cannot be looked at."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import forward_ad

from . import triton
from ._backend import chosen, constant_to_compilers
from ._library import library, status

TRANSFORMED = "transforms of torch.func and forward-mode differentiation need the torch path"
"""Why nothing but torch's operations may run where `transformed()`."""


@constant_to_compilers
def transformed() -> bool:
    """Whether this is inside a transform of torch.func (grad, vmap, jvp, ...) or forward-mode differentiation."""
    return _functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


@constant_to_compilers
def under_vmap() -> bool:
    """Whether this is inside torch.vmap, where no number of a tensor can be looked at."""
    stack = _functorch.get_interpreter_stack() or ()
    return any(level.key() == _functorch.TransformType.Vmap for level in stack)


def has_values(x: Tensor) -> bool:
    """Whether the numbers of `x` can be looked at: not while compiling, under vmap, or on the meta device."""
    return not (torch.compiler.is_compiling() or x.is_meta or under_vmap() or type(x).__name__ == "FakeTensor")


def may_look(x: Tensor) -> bool:
    """Whether numbers of `x` can be looked at without waiting for a device: not those on a GPU."""
    return has_values(x) and x.device.type == "cpu"


def need_values(x: Tensor, what: str, cure: str) -> None:
    """Refuses what looks at numbers of `x` where there are none."""
    if not torch.compiler.is_compiling() and not has_values(x):
        raise RuntimeError(f"{what} looks at values, which torch.vmap and the meta device do not have: {cure}.")


def autocasts(x: Tensor) -> bool:
    """Whether torch.autocast is on for the device of `x`."""
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


@constant_to_compilers
def _why_no_library() -> str | None:
    return status() if library() is None else None


@constant_to_compilers
def _has_triton() -> bool:
    return triton.installed()


def why_not(x: Tensor, has_gpu_kernel: bool = False) -> str | None:
    """Why no kernel, C++ or Triton, can take `x` now, in words; None if one can."""
    if chosen() == "torch":
        return "the torch backend is chosen"
    if transformed():
        return TRANSFORMED
    if x.device.type == "cuda":
        return _why_not_on_gpu(x, has_gpu_kernel)
    if (reason := _why_no_library()) is not None:
        return reason
    if x.device.type != "cpu":
        return f"the native kernels run on the CPU, x is on {x.device}"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the native kernels take float32 and float64, x is {x.dtype}"
    return None


def _why_not_on_gpu(x: Tensor, has_kernel: bool) -> str | None:
    if not has_kernel:
        return "there is no kernel for a GPU"
    if not _has_triton():
        return f"the kernel for a GPU needs triton: {triton.INSTALL}"
    if x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        return f"the kernel takes floating-point numbers of 16 bits or more, x is {x.dtype}"
    return None
