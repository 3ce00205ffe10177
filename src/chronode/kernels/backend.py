"""Which path runs: native kernels where there are any, or torch alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from .._checks import one_of
from .library import library, status

NAMES = ("auto", "torch", "native")
_chosen: ContextVar[str | None] = ContextVar("chronode_backend", default=None)


class backend:
    """Chooses the path, from here on or within a `with` block.

    "auto" runs a native kernel where there is one, else torch; "torch" never runs one; "native" refuses to run
    where there is none. The environment variable CHRONODE_BACKEND sets the default.

    Example:
        >>> import chronode
        >>> with chronode.backend("torch"):
        ...     layer = chronode.create("ltc", 3, 8)
    """

    def __init__(self, name: str):
        self._token: Token[str | None] = _chosen.set(one_of("backend", name, NAMES))

    def __enter__(self) -> backend:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _chosen.reset(self._token)


def _constant_to_compilers(function: Callable[[], Any]) -> Callable[[], Any]:
    """torch.compile takes the function's result as it is while compiling.

    It is `torch.compiler.assume_constant_result`, which would import the compiler together with chronode.
    """
    function._dynamo_marked_constant = True  # pyrefly: ignore[missing-attribute]
    return function


@_constant_to_compilers
def chosen() -> str:
    """The backend in force: "auto", "torch" or "native"."""
    name = _chosen.get()
    return name if name is not None else one_of("CHRONODE_BACKEND", os.environ.get("CHRONODE_BACKEND", "auto"), NAMES)


@_constant_to_compilers
def _why_no_library() -> str | None:
    return status() if library() is None else None


def why_not(x: Tensor) -> str | None:
    """Why no native kernel can take `x` now, in words; None if one can."""
    if chosen() == "torch":
        return "the torch backend is chosen"
    if (reason := _why_no_library()) is not None:
        return reason
    if x.device.type != "cpu":
        return f"the native kernels run on the CPU, x is on {x.device}"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the native kernels take float32 and float64, x is {x.dtype}"
    return None
