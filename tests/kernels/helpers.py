"""A layer's native path against its torch path: outputs, final state, and the gradient of everything."""

from __future__ import annotations

import torch

import chronode

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


def batch(layer, size, steps, dtype, seed=0, ragged=True):
    """x, dt (zeros included), lengths (or None) and a state for `layer`, all but lengths wanting gradients."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, dtype=dtype, generator=rng)

    x = normal(size, steps, layer.input_size)
    dt = torch.rand(size, steps, dtype=dtype, generator=rng) * (torch.rand(size, steps, generator=rng) > 0.2)
    lengths = torch.randint(1, steps + 1, (size,), generator=rng) if ragged else None
    state = tuple(normal(*part.shape).requires_grad_() for part in layer.initial_state(size))
    return x.requires_grad_(), dt.requires_grad_(), lengths, state


def results(layer, backend, x, dt, lengths, state):
    """Everything a call gives, by name: the output, the final state, and the gradients of a loss that sees both."""
    torch.manual_seed(4)  # the dropout masks
    observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(7)) < 0.6 if layer.missing else None
    with chronode.backend(backend):
        y, final = layer(x, state, dt=dt, lengths=lengths, observed=observed)
    rng = torch.Generator().manual_seed(9)  # in float64, so that the loss is the same in every precision
    weights = (torch.randn(part.shape, dtype=torch.float64, generator=rng).to(part) for part in (y, *final))
    loss = sum((part * weight).sum() for part, weight in zip((y, *final), weights, strict=True))
    inputs = {"x": x, "dt": dt, **{f"state {n}": part for n, part in enumerate(state)}}
    inputs = {n: tensor for n, tensor in (inputs | dict(layer.named_parameters())).items() if tensor.requires_grad}
    grads = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
    named = {f"gradient of {name}": grad for name, grad in zip(inputs, grads, strict=True)}
    return {"y": y, **{f"final state {n}": part for n, part in enumerate(final)}, **named}


def assert_close(got, wanted):
    """Each result to the tolerance of its dtype, relative to the largest element."""
    assert got.keys() == wanted.keys()
    for name, tensor in wanted.items():
        scale = float(tensor.detach().abs().nan_to_num(posinf=0).max().clamp(min=1e-3))
        tolerance = TOLERANCE[tensor.dtype]
        torch.testing.assert_close(
            got[name],
            tensor,
            rtol=0,
            atol=tolerance * scale,
            equal_nan=True,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def assert_same_as_torch(layer, *call):
    """The native path gives what the torch path gives."""
    assert_close(results(layer, "native", *call), results(layer, "torch", *call))


def assert_same_where_not_finite(layer, x, dt, lengths, state, value):
    """An element of each part of the state, if it is `value`, reaches the same outputs as on the torch path."""
    for spoilt in range(len(state)):
        parts = tuple(part.detach().clone() for part in state)
        parts[spoilt][0, 1, 0] = value
        found = []
        for backend in ("native", "torch"):
            with chronode.backend(backend):
                y, final = layer(x, parts, dt=dt, lengths=lengths)
            found.append({"y": y, **{f"final state {n}": part for n, part in enumerate(final)}})
        native, plain = found
        for name in plain:
            assert torch.equal(native[name].isfinite(), plain[name].isfinite()), name
        assert_close(native, plain)


def assert_compiles_and_exports(layer, x, dt):
    """torch.compile sees one graph, torch.export too, and both give the same numbers."""
    torch._dynamo.reset()  # the layers of other tests count towards its limit of recompilations
    wanted = layer(x, dt=dt)[0]
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, dt=dt)[0], wanted)
    compiled(x, dt=dt)[0].sum().backward()
    exported = torch.export.export(layer, (x.detach(),), {"dt": dt.detach()})
    torch.testing.assert_close(exported.module()(x.detach(), dt=dt.detach())[0], wanted)
