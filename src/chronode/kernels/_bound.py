"""A C function with its arguments: called again and again over the same memory, at the cost of the call alone."""

from __future__ import annotations

import ctypes

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
        """Calls it; the errors are those of `ops.call`."""
        status = self._function(*self._passed)
        if status:
            raise ops.error(self._name, status, self._failure.value.decode(), self._kept)


State = tuple[Tensor, ...]
Bound = tuple[BoundCall, Tensor]
"""A step over fixed arrays, and the array that holds its y after each call."""
