"""Calls from Python into the compiled kernels: argument checks, pointers, and what autograd must refuse."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from .library import library

LARGE = 4 * 2**20
"""Bytes from which an array is put on huge pages."""
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def call(name: str, dtype: torch.dtype, *arguments: Tensor | int | float | None) -> None:
    """Calls the C function `chronode_<name>_<f32|f64>`.

    Tensors are passed as pointers (None as a null pointer), whole numbers as int64_t, other numbers as double. The
    last argument of every kernel is the number of threads, added here. The GIL is released meanwhile.

    Every tensor must be contiguous, on the CPU, and of `dtype` (or int64): the kernels cannot check that.
    """
    lib = library()
    if lib is None:
        raise RuntimeError(f"the native kernel {name} was called, but no native library is loaded.")
    for argument in arguments:
        if isinstance(argument, Tensor):
            prefer_huge_pages(argument)
    function = getattr(lib, f"chronode_{name}_{_SUFFIX[dtype]}")
    function.restype = None
    function(*(_as_c(name, dtype, argument) for argument in arguments), ctypes.c_int64(torch.get_num_threads()))


def _as_c(name: str, dtype: torch.dtype, argument: Tensor | int | float | None) -> Any:
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, Tensor):
        if argument.device.type != "cpu" or argument.dtype not in (dtype, torch.int64) or not argument.is_contiguous():
            raise RuntimeError(
                f"{name}: a kernel takes contiguous CPU tensors of {dtype}; got {argument.dtype} on {argument.device}, "
                f"shape {tuple(argument.shape)}, strides {argument.stride()}."
            )
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, (bool, int)):
        return ctypes.c_int64(argument)
    return ctypes.c_double(argument)


def prefer_huge_pages(tensor: Tensor) -> None:
    """Hints that a large array, fresh from the system, is about to be written: fewer page faults, same contents."""
    lib = library()
    if lib is not None and tensor.nbytes >= LARGE:
        lib.chronode_prefer_huge_pages(ctypes.c_void_p(tensor.data_ptr()), ctypes.c_int64(tensor.nbytes))


def dense(tensor: Tensor) -> Tensor:
    """As `tensor.contiguous()`, with a large copy on huge pages."""
    if tensor.is_contiguous():
        return tensor
    copy = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    prefer_huge_pages(copy)
    return copy.copy_(tensor)


def needs_backward(*tensors: Tensor | None) -> bool:
    """Whether a result of these may be differentiated: only then is anything kept for the backward."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def refuse_double_backward(backward_op: Any) -> None:
    """Makes differentiating a kernel's backward op an error that names the way out."""

    def refuse(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(
            "native kernels have no second derivatives: compute them with the torch path, "
            "`with chronode.backend('torch'):` around the forward call."
        )

    backward_op.register_autograd(refuse)
