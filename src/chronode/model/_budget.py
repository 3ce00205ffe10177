"""A limit on the size of new tensors, for models that are built from untrusted files."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_MAKERS = ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "eye", "arange", "linspace")
_makers = {getattr(torch, name) for name in _MAKERS}


class Budget(TorchFunctionMode):
    """Context in which torch's functions may create at most `limit` numbers.

    Example:
        >>> with Budget(1000):
        ...     layer = torch.nn.Linear(8, 8)
        >>> with Budget(1000):
        ...     layer = torch.nn.Linear(10**6, 10**6)
        Traceback (most recent call last):
        ValueError: this would create more than 1,000 numbers.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = self.left = limit

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Counts the numbers of a call before they are created."""
        kwargs = kwargs or {}
        if func in _makers:
            self.left -= _count(func, args, kwargs)
            if self.left < 0:
                raise ValueError(f"this would create more than {self.limit:,} numbers.")
        return func(*args, **kwargs)


def _count(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Returns how many numbers a call creates."""
    if func is torch.eye:
        return int(args[0]) * int(args[-1])
    if func in (torch.arange, torch.linspace, torch.randperm):
        return int(max([1, *(abs(float(value)) for value in args if isinstance(value, (int, float)))]))
    size = kwargs.get("size") or next((arg for arg in args if isinstance(arg, (tuple, list, torch.Size))), None)
    return math.prod(map(int, args if size is None else size))
