"""Modes of torch for layers: torch.func, vmap, forward mode, the meta device, autocast, a device without float64."""

import copy

import pytest
import torch
from torch.func import functional_call, grad, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import chronode

MODELS = sorted(chronode.models())
every_model = pytest.mark.parametrize("name", MODELS)


def make(name, dtype=torch.float64, **settings):
    torch.manual_seed(0)
    return chronode.create(name, 3, 4, **settings).to(dtype).eval()


def batch(*sizes, dtype=torch.float64):
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*sizes, 3, dtype=dtype, generator=rng), torch.rand(*sizes, dtype=dtype, generator=rng) + 0.1


def loss_of(layer):
    """A loss as a function of the parameters, x and dt."""

    def loss(parameters, x, dt):
        return functional_call(layer, parameters, (x,), {"dt": dt, "lengths": [4, 2]})[0].square().sum()

    return loss


@pytest.mark.slow  # tracing takes a second or two for each model
@every_model
def test_compile_and_export(name):
    torch._dynamo.reset()  # the layers of other tests count towards its limit of recompilations
    layer, (x, dt) = make(name), batch(2, 2)
    wanted = layer(x, dt=dt)[0]
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, dt=dt)[0], wanted)
    exported = torch.export.export(layer, (x,), {"dt": dt}).module()
    torch.testing.assert_close(exported(x, dt=dt)[0], wanted)


@every_model
def test_func_grad_is_backward(name):
    layer, (x, dt) = make(name), batch(2, 4)
    parameters = {n: p.detach() for n, p in layer.named_parameters()}
    found = grad(loss_of(layer))(parameters, x, dt)
    loss_of(layer)(dict(layer.named_parameters()), x, dt).backward()
    for n, parameter in layer.named_parameters():
        wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if parameter.requires_grad:
            torch.testing.assert_close(found[n], wanted, msg=n)


@every_model
def test_vmap_is_one_after_the_other(name):
    layer, (x, dt) = make(name), batch(3, 2, 4)
    y, state = vmap(lambda x, dt: layer(x, dt=dt))(x, dt)
    for i in range(3):
        wanted, after = layer(x[i], dt=dt[i])
        torch.testing.assert_close(y[i], wanted)
        for part, whole in zip(after, state, strict=True):
            torch.testing.assert_close(whole[i], part)


@pytest.mark.parametrize("name", ["lstm", "mmrnn", "unicornn", "ltc", "irnn", "sru", "phased-lstm"])
def test_gradients_of_each_sample(name):
    """vmap of grad: the gradient of each sample on its own."""
    layer, (x, dt) = make(name), batch(3, 2, 4)
    parameters = {n: p.detach() for n, p in layer.named_parameters()}
    found = vmap(grad(loss_of(layer)), (None, 0, 0))(parameters, x, dt)
    for i in range(3):
        wanted = grad(loss_of(layer))(parameters, x[i], dt[i])
        for n in parameters:
            torch.testing.assert_close(found[n][i], wanted[n], msg=n)


# A skip RNN's gradient is not its slope: it goes straight through the rounding of its gate.
@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("skip-")])
def test_forward_mode_is_a_difference_quotient(name):
    layer, (x, dt) = make(name), batch(2, 4)
    _, ahead, *_ = jvp(lambda x: layer(x, dt=dt)[0], (x,), (torch.ones_like(x),))
    quotient = (layer(x + 1e-6, dt=dt)[0] - layer(x - 1e-6, dt=dt)[0]) / 2e-6
    torch.testing.assert_close(ahead, quotient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "mmrnn", "unicornn", "ltc", "irnn", "sru"])
def test_dual_numbers_carry_their_tangents(name):
    layer, (x, dt) = make(name), batch(2, 4)
    _, wanted, *_ = jvp(lambda x: layer(x, dt=dt)[0], (x,), (torch.ones_like(x),))
    with torch.autograd.forward_ad.dual_level():
        y, _ = layer(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)), dt=dt)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(y).tangent, wanted)


@every_model
def test_meta_gives_shapes_and_dtypes(name):
    layer, (x, dt) = make(name), batch(2, 4)
    y, state = layer(x, dt=dt, lengths=[4, 2])
    found, after = copy.deepcopy(layer).to("meta")(x.to("meta"), dt=dt.to("meta"), lengths=[4, 2])
    for got, wanted in zip((found, *after), (y, *state), strict=True):
        assert got.is_meta
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)


@pytest.mark.parametrize(
    ("name", "settings", "cure"),
    [
        ("mmrnn", {"solver": "dopri5"}, "use one of euler, midpoint, heun, rk4"),
        ("irnn", {"solver": "equilibrium", "recurrent": "full", "gamma": 2.0}, "use solver='steps'"),
    ],
)
def test_what_looks_at_values_says_so(name, settings, cure):
    layer, (x, dt) = make(name, **settings), batch(2, 4)
    with pytest.raises(RuntimeError, match=cure):
        vmap(lambda x: layer(x, dt=dt[:1])[0])(x.unsqueeze(1))
    with pytest.raises(RuntimeError, match=cure):
        layer.to("meta")(x.to("meta"))


@every_model
def test_autocast_refuses_float64_and_takes_others(name):
    layer, (x, dt) = make(name, torch.float32), batch(2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(TypeError, match=r"use x.to\(torch.float32\)"):
            layer(x, dt=dt)
        with pytest.raises(TypeError, match=r"use x.to\(torch.float32\)"):
            layer(x.long(), dt=dt)
        y, _ = layer(x.float(), dt=dt)
        y16, _ = layer(x.bfloat16(), dt=dt)
    torch.testing.assert_close(y.double(), layer(x.float(), dt=dt)[0].double(), rtol=0.1, atol=0.1)
    torch.testing.assert_close(y16.double(), y.double(), rtol=0.1, atol=0.1)


class No64(TorchDispatchMode):
    """A machine that has no float64, as Apple's GPUs have none."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        dtypes = {tensor.dtype for tensor in tree_leaves(result) if isinstance(tensor, torch.Tensor)}
        assert not dtypes & {torch.float64, torch.complex128}, f"{func} makes {dtypes}"
        return result


@every_model
@pytest.mark.parametrize("times", ["dt", "t"])
def test_float32_models_make_no_float64(name, times):
    layer, (x, dt) = make(name, torch.float32, dropout=0.3).train(), batch(2, 4, dtype=torch.float32)
    given = {times: dt if times == "dt" else dt.cumsum(1)}
    with chronode.backend("torch"), No64():
        y, state = layer(x.requires_grad_(), **given, lengths=[4, 2])
        (y.sum() + sum(part.sum() for part in state)).backward()
        layer.step(x[:, 0].detach(), state, 0.1)


def test_times_are_rounded_before_they_move():
    """float64 times of a float32 layer: only gaps of float32 go to the layer's device."""
    layer, (x, _) = make("mmrnn", torch.float32), batch(2, 4, dtype=torch.float32)
    t = torch.tensor([[1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.5, 1.7e9 + 2]] * 2, dtype=torch.float64)
    gaps = torch.tensor([[0, 0.25, 0.25, 1.5]] * 2)
    torch.testing.assert_close(layer(x, t=t), layer(x, dt=gaps), rtol=0, atol=0)
