"""C functions bound to their arguments, for repeated calls on the same memory without overhead."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from . import ops
from ._library import library


class BoundCall:
    """The C function `chronode_<name>_<f32|f64>` with arguments as `ops.call` takes them, converted once.

    The tensors are kept; each call reads and writes what is in them at that time, except for weights, which a kernel
    may read at the first call only.
    """

    def __init__(self, name: str, dtype: torch.dtype, *arguments: ops.Argument):
        self._name, self._kept = name, arguments
        self._failure = ctypes.create_string_buffer(ops.FAILURE_BYTES)
        lib = cast(ctypes.CDLL, library())
        self._function = getattr(lib, ops.c_name(name, dtype))
        passed = (ops.as_c(name, dtype, argument) for argument in arguments)
        cache = ctypes.c_void_p(lib.chronode_new_weight_cache())
        weakref.finalize(self, lib.chronode_delete_weight_cache, cache)
        self._passed = (*passed, ctypes.c_int64(torch.get_num_threads()), cache, self._failure)

    def __call__(self) -> None:
        """Calls the function; the errors are those of `ops.call`."""
        status = self._function(*self._passed)
        if status:
            raise ops.error(self._name, status, self._failure.value.decode(), self._kept)


State = tuple[Tensor, ...]
Bound = tuple[BoundCall, Tensor]
"""A step over fixed arrays, and the array that holds its y after each call."""


class _Pair(ctypes.Structure):
    """Two arrays of the same size, as `ChronodePair` of native/memory.cpp."""

    _fields_ = (("first", ctypes.c_void_p), ("second", ctypes.c_void_p), ("bytes", ctypes.c_int64))


class Snapshot:
    """Copy of the bits of CPU tensors, to detect later changes of any kind."""

    def __init__(self, tensors: Sequence[Tensor]):
        self._tensors, self._places = tensors, [tensor.data_ptr() for tensor in tensors]
        self._copies = [tensor.detach().clone() for tensor in tensors]
        both = zip(self._places, self._copies, strict=True)
        pairs = [_Pair(address, copy.data_ptr(), copy.nbytes) for address, copy in both]
        self._passed = (_Pair * len(pairs))(*pairs), ctypes.c_int64(len(pairs))
        self._same_bits = cast(ctypes.CDLL, library()).chronode_same_bits

    @staticmethod
    def possible(tensors: Sequence[Tensor]) -> bool:
        """Returns whether their memory can be compared: on the CPU, without gaps, and with the native library."""
        return library() is not None and all(tensor.is_cpu and tensor.is_contiguous() for tensor in tensors)

    def holds(self) -> bool:
        """Returns whether the tensors are where they were, with the same bits."""
        return [tensor.data_ptr() for tensor in self._tensors] == self._places and self._same_bits(*self._passed) == 1
