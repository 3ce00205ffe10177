"""Layers, readings and mistakes for the tests of single steps."""

import torch

import chronode

NATIVE = ["unicornn", "ltc"]  # with kernels written by hand


def make(name, input_size=3, hidden_size=5, dtype=torch.float64, **settings):
    torch.manual_seed(0)
    return chronode.create(name, input_size, hidden_size, **settings).to(dtype).eval()


def readings(count, *shape, dtype=torch.float64):
    rng = torch.Generator().manual_seed(3)
    gaps = (torch.rand(count, generator=rng) * 2).tolist()
    return list(zip(torch.randn(count, *shape, 3, dtype=dtype, generator=rng), gaps, strict=True))


REFUSED = [
    (lambda s: s(torch.zeros(2, 4).double()), ValueError, "4 features"),
    (lambda s: s(torch.zeros(3, 3).double()), ValueError, r"shape \(2, 3\)"),
    (lambda s: s(torch.zeros(3).double()), ValueError, r"shape \(2, 3\)"),
    (lambda s: s(torch.zeros(2, 3)), TypeError, "x is torch.float32"),
    (lambda s: s([[1.0] * 3] * 2), ValueError, "x must have shape"),
    (lambda s: s(torch.full((2, 3), torch.nan).double()), ValueError, r"x\[0, 0\] is not finite"),
    (lambda s: s(torch.full((2, 3), torch.inf).double()), ValueError, r"x\[0, 0\] is not finite"),
    (lambda s: s(torch.zeros(2, 3).double(), -1.0), ValueError, "negative or not finite"),
    (lambda s: s(torch.zeros(2, 3).double(), torch.nan), ValueError, "negative or not finite"),
    (lambda s: s(torch.zeros(2, 3).double(), torch.tensor([1.0, -1.0])), ValueError, r"dt\[1\] is negative"),
    (lambda s: s(torch.zeros(2, 3).double(), torch.ones(3)), ValueError, "dt must"),
    (lambda s: s(torch.zeros(2, 3).double(), observed=torch.ones(2, 3) > 0), ValueError, "missing=True"),
]
