"""Helpers for the tests of every cell: leave its round initial values, run it, differentiate it."""

from __future__ import annotations

import numpy as np
import torch
from oracles import assert_same, sequences
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

import chronode


def make(name, input_size=2, hidden_size=3, num_layers=1, *, seed=0, noise=0.3, **settings):
    """A layer made in float64; the noise lets no parameter hide behind an initial 0 or 1."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float64)  # not .double(): settings such as Δt would be rounded before
        try:
            layer = chronode.create(name, input_size, hidden_size, num_layers=num_layers, **settings)
        finally:
            torch.set_default_dtype(torch.float32)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter += noise * torch.randn_like(parameter)
    return layer


def assert_matches(layer, oracle, **shape):
    """The layer gives what `oracle(x, dt)` gives, by the torch loop and by a kernel where there is one."""
    x, dt = sequences(features=layer.input_size, **shape)
    expected = oracle(x, dt)
    for backend in ("torch", "auto"):
        with chronode.backend(backend):
            assert_same(layer(torch.from_numpy(x), dt=torch.from_numpy(dt)), expected)


def check_gradients(layer, batch=2, length=3):
    """Gradients of outputs and final state in x, dt and all parameters against finite differences."""
    names, parameters = zip(*((n, p) for n, p in layer.named_parameters() if p.requires_grad), strict=True)
    x, dt = (torch.from_numpy(a) for a in sequences(batch, length, layer.input_size))
    dt = dt + 0.1  # a finite difference must not make a time negative

    def outputs(x, dt, *values):
        y, state = functional_call(layer, dict(zip(names, values, strict=True)), (x,), {"dt": dt})
        return y, *state

    inputs = (x.requires_grad_(), dt.requires_grad_(), *parameters)
    with chronode.backend("torch"):  # the reference that the tests of a kernel compare its gradients with
        assert torch.autograd.gradcheck(outputs, inputs, atol=1e-6)


def assert_same_when_checkpointed(outputs, inputs, parameters):
    """The gradients of `outputs(*inputs)` have the same bits under both kinds of torch.utils.checkpoint."""
    tensors = [*inputs, *parameters]

    def gradients(call):
        for tensor in tensors:
            tensor.grad = None
        rng = torch.Generator().manual_seed(9)
        found = [y for y in call(*inputs) if y.requires_grad]
        sum((y * torch.randn(y.shape, dtype=y.dtype, generator=rng)).sum() for y in found).backward()
        return [tensor.grad for tensor in tensors]

    wanted = gradients(outputs)
    assert sum(grad is not None for grad in wanted) > len(inputs) // 2
    for use_reentrant in (True, False):
        found = gradients(lambda *inputs, kind=use_reentrant: checkpoint(outputs, *inputs, use_reentrant=kind))
        for index, (grad, other) in enumerate(zip(wanted, found, strict=True)):
            assert (grad is None and other is None) or torch.equal(grad, other), (use_reentrant, index)


def zeros(layer, batch):
    """For each cell of a stack the state it starts from, in NumPy."""
    return [tuple(s.numpy() for s in cell.initial_state(batch, torch.zeros(1).double())) for cell in layer.cells]


def jacobian(function, at):
    """d function(v) / d v of one row v, as a NumPy matrix."""
    return torch.autograd.functional.jacobian(function, at).detach().numpy()


def norm(matrix):
    return np.linalg.norm(matrix, 2)
