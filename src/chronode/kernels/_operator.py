"""Operators for torch: a kernel, its shapes and its gradient under one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("chronode", "FRAGMENT")


class Operator:
    """An operator `chronode::NAME`, to be called as a function.

    It does what `torch.library.custom_op` does, without importing `torch._dynamo` at the first call, which takes about
    as long as importing torch.

    Attributes:
        kernels: Device ("cpu", "cuda", or "" for every device) -> the function that runs there.
    """

    def __init__(self, function: Callable[..., Any], devices: str):
        self.name = f"chronode::{function.__name__}"
        self.kernels: dict[str, Callable[..., Any]] = {}
        schema = torch.library.infer_schema(function, mutates_args=())
        _LIBRARY.define(function.__name__ + schema, tags=(torch.Tag.pt2_compliant_tag,))
        self.register_kernel(devices)(function)
        self.overload = getattr(torch.ops.chronode, function.__name__).default
        self.__doc__ = function.__doc__

    def __call__(self, *inputs: Any) -> Any:
        return self.overload(*inputs)

    def register_kernel(self, device: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates the function that runs on tensors of `device`."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.kernels[device] = function
            key = device.upper() if device else "CompositeExplicitAutograd"
            _LIBRARY.impl(self.name, lambda *inputs: self.kernels[device](*inputs), key)
            return function

        return add

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates the function that makes results of the right shapes without computing anything."""
        torch.library.register_fake(self.name, function, lib=_LIBRARY)
        return function

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., None] | None = None
    ) -> None:
        """Sets the gradient, as `torch.library.register_autograd` takes it."""
        torch.library.register_autograd(self.name, backward, setup_context=setup_context, lib=_LIBRARY)


def operator(devices: str = "") -> Callable[[Callable[..., Any]], Operator]:
    """Decorates a function of tensors and plain values, which becomes an operator of its name.

    Args:
        devices: Device that the function is for; by default every device.

    Example:
        >>> @operator()
        ... def twice(x: torch.Tensor) -> torch.Tensor:
        ...     return 2 * x
        >>> twice(torch.ones(2))
        tensor([2., 2.])
    """
    return lambda function: Operator(function, devices)
