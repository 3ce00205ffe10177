"""Layer classes by model: `chronode.nn.LTC(3, 8)` is `chronode.create("ltc", 3, 8)`."""

from __future__ import annotations

from . import cells  # noqa: F401 - importing them registers the names
from ._registry import ModelLayer


class MMRNN(ModelLayer, model="mmrnn"):
    """mmRNN over time: a stack of `MixedMemoryCell`.

    Example:
        >>> import torch
        >>> y, (c, h) = MMRNN(3, 8, variant="paper", flow="ctrnn")(torch.randn(2, 5, 3), dt=torch.rand(2, 5))
        >>> y.shape
        torch.Size([2, 5, 8])
    """


class UnICORNN(ModelLayer, model="unicornn"):
    """UnICORNN over time: a stack of `UnICORNNCell`.

    Example:
        >>> import torch
        >>> layer = UnICORNN(3, 16, num_layers=3, delta_t=[0.05, 0.1, 0.2], alpha=9.0, residual=2)
        >>> y, (y_n, z_n) = layer(torch.randn(2, 20, 3))
        >>> y_n.shape
        torch.Size([3, 2, 16])
    """


class LTC(ModelLayer, model="ltc"):
    """LTC over time: a stack of `LTCCell`.

    Example:
        >>> import torch
        >>> y, _ = LTC(3, 16, wiring="ncp", motor=2)(torch.randn(2, 5, 3), dt=torch.rand(2, 5))
        >>> y.shape
        torch.Size([2, 5, 2])
    """


class IRNN(ModelLayer, model="irnn"):
    """iRNN over time: a stack of `EquilibriumCell`.

    Example:
        >>> import torch
        >>> y, (h,) = IRNN(3, 8, K=3, rank=2)(torch.randn(2, 5, 3))
        >>> y.shape
        torch.Size([2, 5, 8])
    """


class SiRNN(ModelLayer, model="sirnn"):
    """iRNN with K = 1: one step of the recursion per observation."""


class ERNN(ModelLayer, model="ernn"):
    """ERNN over time: the recursion of iRNN with K = 3; `depth` gives a deeper transition."""
