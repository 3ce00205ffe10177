"""Checks on the CPU for mistakes that would make a GPU slow or wrong."""

import sys

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from chronode.compiler import _choice
from chronode.kernels import _modes
from chronode.nn import _inputs


class Looks(TorchDispatchMode):
    """Counts the operators that give a number of a tensor, or a shape that depends on numbers, to Python.

    Args:
        but: functions whose looks do not count, because they work on the CPU wherever the model is.
    """

    WAITING = ("aten._local_scalar_dense", "aten.nonzero", "aten.equal", "aten.is_nonzero", "aten.unique", "aten.item")

    def __init__(self, but=()):
        super().__init__()
        self.count = 0
        self.but = but

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if str(func).startswith(self.WAITING) and not self._excepted():
            self.count += 1
        return func(*args, **(kwargs or {}))

    def _excepted(self):
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_name not in self.but:
            frame = frame.f_back
        return frame is not None


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Numbers may not be looked at without waiting."""
    for module in (_modes, _inputs, _choice):
        monkeypatch.setattr(module, "may_look", lambda x: False)
