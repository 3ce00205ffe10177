"""Calls from Python into the compiled kernels: pointers, errors, and unsupported derivatives."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._library import library

LARGE = 4 * 2**20
"""Size in bytes above which an array is put on huge pages."""
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}
FAILURE_BYTES = 256  # as in native/entry.h
_DONE, _INVALID, _OUT_OF_MEMORY = range(3)  # the order in native/entry.h


class _Array(ctypes.Structure):
    """A tensor's memory, as `Array` of native/entry.h; without one, no bytes at a null pointer."""

    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_int64))


Argument = Tensor | list[Tensor | None] | int | float | ctypes.c_void_p | None


def call(name: str, dtype: torch.dtype, *arguments: Argument) -> None:
    """Calls the C function `chronode_<name>_<f32|f64>`.

    Tensors are passed as arrays (None as an empty one), whole numbers as int64_t, other numbers as double, a list of
    tensors as a pointer to their arrays (there a tensor may have any strides that do not go back). Every kernel's last
    arguments, the number of threads, no weight cache and the room for an error message, are added here. The GIL is
    released meanwhile.

    Raises:
        ValueError: An argument does not fit the others (a size, a length beyond the time steps), or a tensor is not
            contiguous, not on the CPU, or of another dtype. Every kernel checks what it could read or write out of
            bounds.
        MemoryError: The kernel's work arrays could not be allocated.
    """
    lib = library()
    if lib is None:
        raise RuntimeError(f"the native kernel {name} was called, but no native library is loaded.")
    tensors = tensors_of(arguments)
    for tensor in tensors:
        prefer_huge_pages(tensor)
    function = getattr(lib, c_name(name, dtype))
    passed = [as_c(name, dtype, argument) for argument in arguments]
    failure = ctypes.create_string_buffer(FAILURE_BYTES)
    status = function(*passed, ctypes.c_int64(torch.get_num_threads()), None, failure)
    if status != _DONE:
        raise error(name, status, failure.value.decode(), arguments)


def c_name(name: str, dtype: torch.dtype) -> str:
    """Returns the name of a kernel's function for tensors of `dtype`."""
    return f"chronode_{name}_{_SUFFIX[dtype]}"


def error(name: str, status: int, failure: str, arguments: Sequence[Argument]) -> Exception:
    """Returns the exception for a kernel that did not return _DONE."""
    if status == _INVALID:
        return ValueError(f"{name}: {failure}.")
    if status != _OUT_OF_MEMORY:
        return RuntimeError(f"{name}: {failure}.")
    asked = f"{int(failure):,} bytes more" if failure else "its work arrays"
    tensors = tensors_of(arguments)
    largest = max(tensors, key=lambda tensor: tensor.nbytes)
    return MemoryError(
        f"out of memory: the native kernel {name} could not allocate {asked}; its arguments and results have "
        f"{sum(tensor.nbytes for tensor in tensors):,} bytes, the largest of them the shape {tuple(largest.shape)}."
    )


def tensors_of(arguments: Sequence[Argument]) -> list[Tensor]:
    """Returns the tensors among the arguments and in their lists."""
    lists = [argument if isinstance(argument, list) else [argument] for argument in arguments]
    return [argument for one in lists for argument in one if isinstance(argument, Tensor)]


def as_c(name: str, dtype: torch.dtype, argument: Argument) -> Any:
    """Converts an argument for the C functions."""
    if argument is None:
        return _Array(None, 0)
    if isinstance(argument, list):
        return (_Array * len(argument))(*(_strided(name, dtype, tensor) for tensor in argument))
    if isinstance(argument, ctypes.c_void_p):
        return argument
    if isinstance(argument, Tensor):
        if argument.device.type != "cpu" or argument.dtype not in (dtype, torch.int64) or not argument.is_contiguous():
            raise ValueError(
                f"{name}: a kernel takes contiguous CPU tensors of {dtype}; got {argument.dtype} on {argument.device}, "
                f"shape {tuple(argument.shape)}, strides {argument.stride()}."
            )
        return _Array(argument.data_ptr(), argument.nbytes)
    if isinstance(argument, (bool, int)):
        return ctypes.c_int64(argument)
    return ctypes.c_double(argument)


def sizes(name: str, tensor: Tensor, dimensions: int) -> tuple[int, ...]:
    """Returns the shape of an operator's argument, which must have that many dimensions."""
    if tensor.dim() != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got shape {tuple(tensor.shape)}.")
    return tuple(tensor.shape)


def _strided(name: str, dtype: torch.dtype, tensor: Tensor | None) -> _Array:
    """Returns the memory from a tensor's first element to its last."""
    if tensor is None or tensor.numel() == 0:
        return _Array(None, 0)
    if not tensor.is_cpu or tensor.dtype not in (dtype, torch.int64):
        raise ValueError(f"{name}: a kernel takes CPU tensors of {dtype}; got {tensor.dtype} on {tensor.device}.")
    if tensor.is_contiguous():
        return _Array(tensor.data_ptr(), tensor.nbytes)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return _Array(tensor.data_ptr(), (last + 1) * tensor.element_size())


def prefer_huge_pages(tensor: Tensor) -> None:
    """Hints that a large array, fresh from the system, is about to be written: fewer page faults, same contents."""
    if tensor.nbytes < LARGE or not tensor.is_cpu:
        return
    if (lib := library()) is not None:
        lib.chronode_prefer_huge_pages(ctypes.c_void_p(tensor.data_ptr()), ctypes.c_int64(tensor.nbytes))


def dense(tensor: Tensor) -> Tensor:
    """Returns `tensor.contiguous()`, with a large copy on huge pages."""
    if tensor.is_contiguous():
        return tensor
    copy = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    prefer_huge_pages(copy)
    return copy.copy_(tensor)


def apart(states: Tensor) -> Tensor:
    """Returns a copy of the states as outputs, which the caller may modify in place."""
    return states.clone() if states.requires_grad else states


def needs_backward(*tensors: Tensor | None) -> bool:
    """Returns whether a result of these may be differentiated: only then is anything kept for the backward."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def refuse_double_backward(backward_op: Any) -> None:
    """Makes second derivatives of a kernel an error that names the alternative."""

    def refuse(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(
            "native kernels have no second derivatives: compute them with the torch path, "
            "`with chronode.backend('torch'):` around the forward call."
        )

    backward_op.register_autograd(refuse)
