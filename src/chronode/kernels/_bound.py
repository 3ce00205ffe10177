"""C functions bound to their arguments, for repeated calls on the same memory without overhead."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from . import _ops as ops
from ._library import library


class BoundCall:
    """The C function `chronode_<name>_<f32|f64>` with arguments as `ops.call` takes them, converted once.

    The tensors are kept; each call reads and writes what is in them at that time.
    """

    def __init__(self, name: str, dtype: torch.dtype, *arguments: Tensor | int | float | None):
        self._name, self._kept = name, arguments
        self._failure = ctypes.create_string_buffer(ops.FAILURE_BYTES)
        self._function = getattr(library(), ops.c_name(name, dtype))
        passed = (ops.as_c(name, dtype, argument) for argument in arguments)
        self._passed = (*passed, ctypes.c_int64(torch.get_num_threads()), self._failure)

    def __call__(self) -> None:
        """Calls the function; the errors are those of `ops.call`."""
        status = self._function(*self._passed)
        if status:
            raise ops.error(self._name, status, self._failure.value.decode(), self._kept)


State = tuple[Tensor, ...]
Bound = tuple[BoundCall, Tensor]
"""A step over fixed arrays, and the array that holds its y after each call."""


class Snapshot:
    """Copy of the bits of CPU tensors, to detect later changes of any kind."""

    def __init__(self, tensors: Sequence[Tensor]):
        self._tensors = [(tensor, tensor.data_ptr()) for tensor in tensors]
        self._copies = [tensor.detach().clone() for tensor in tensors]
        self._compare = ctypes.CDLL(None).memcmp
        self._passed = [
            (ctypes.c_void_p(tensor.data_ptr()), ctypes.c_void_p(copy.data_ptr()), ctypes.c_size_t(copy.nbytes))
            for tensor, copy in zip(tensors, self._copies, strict=True)
        ]

    @staticmethod
    def possible(tensors: Sequence[Tensor]) -> bool:
        """Returns whether their memory can be compared: on the CPU, without gaps."""
        return all(tensor.is_cpu and tensor.is_contiguous() for tensor in tensors)

    def holds(self) -> bool:
        """Returns whether the tensors are where they were, with the same bits."""
        if any(tensor.data_ptr() != place for tensor, place in self._tensors):
            return False
        return not any(self._compare(*passed) for passed in self._passed)
