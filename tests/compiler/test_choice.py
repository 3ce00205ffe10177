"""When compiled kernels are used: on demand, or where it was decided before."""

import pytest
import torch

import chronode
from chronode import compiler


@pytest.fixture
def calls(monkeypatch):
    """The names of the compiled kernels that the driver found."""
    made = []
    original = compiler.find

    def counted(*arguments, **options):
        kernel = original(*arguments, **options)
        made.extend([kernel.key] if kernel is not None else [])
        return kernel

    monkeypatch.setattr(compiler, "find", counted)
    return made


def test_auto_compiles_nothing_by_itself(calls):
    chronode.create("ugrnn", 3, 6)(torch.randn(2, 4, 3))
    assert not calls


def test_native_compiles_at_once_and_torch_never(calls):
    layer, x = chronode.create("ugrnn", 3, 6), torch.randn(2, 4, 3)
    with chronode.backend("native"):
        y, _ = layer(x)
    assert len(calls) == 1
    with chronode.backend("torch"):
        expected, _ = layer(x)
    assert len(calls) == 1
    assert torch.allclose(y, expected, atol=1e-6)


def test_use_is_for_one_model_and_can_be_undone(calls):
    layer, other, x = chronode.create("ugrnn", 3, 6), chronode.create("ugrnn", 3, 6), torch.randn(2, 4, 3)
    compiler.use(layer)
    layer(x)
    other(x)
    assert len(calls) == 1
    compiler.use(layer, compiled=False)
    layer(x)
    assert len(calls) == 1


def test_hand_written_kernels_stay(calls):
    layer = chronode.create("unicornn", 3, 6)
    compiler.use(layer)
    layer(torch.randn(2, 4, 3))
    assert not calls
    assert compiler.explain(layer.cells[0]).name == "hand-written"


def test_stacks_directions_and_single_steps(calls):
    layer, x = chronode.create("ugrnn", 3, 6, num_layers=2, bidirectional=True), torch.randn(2, 4, 3)
    expected, _ = layer(x, lengths=[4, 2])
    compiler.use(layer)
    y, _ = layer(x, lengths=[4, 2])
    assert len(calls) == 4
    assert torch.allclose(y, expected, atol=1e-6)
    live = chronode.create("ugrnn", 3, 6)
    compiler.use(live)
    y, _ = live.step(x[:, 0])
    again, _ = live(x)
    assert torch.equal(y, again[:, 0])


def test_the_plan_weighs_the_work_ahead_against_the_compiler():
    layer = chronode.create("ugrnn", 3, 6)
    assert not compiler.plan(layer, steps=100).compiled
    long = compiler.plan(layer, steps=10_000_000)
    assert long.compiled
    assert "compiled" in long.text
    assert not compiler.plan(chronode.create("unicornn", 3, 6), steps=10_000_000).compiled
    with chronode.backend("torch"):
        assert not compiler.plan(layer, steps=10_000_000).compiled


def test_second_derivatives_run_on_the_path_of_torch_with_a_note():
    layer = chronode.create("ugrnn", 3, 6).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    compiler.use(layer)
    with pytest.warns(UserWarning, match="UGRNNCell"):
        assert torch.autograd.gradgradcheck(lambda x: layer(x, lengths=[2, 4])[0], x, fast_mode=True)


def test_second_derivatives_of_other_weights_are_refused():
    layer = chronode.create("ugrnn", 3, 6)
    x = torch.randn(2, 4, 3, requires_grad=True)
    weights = {name: (2 * weight).detach().requires_grad_() for name, weight in layer.named_parameters()}
    with chronode.backend("native"):
        y, _ = torch.func.functional_call(layer, weights, (x,))
    assert torch.autograd.grad(y.sum(), x, retain_graph=True)[0].isfinite().all()
    with pytest.raises(RuntimeError, match="other weights"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_precisions_run_as_a_loop(dtype, calls):
    layer = chronode.create("ugrnn", 3, 6).to(dtype)
    compiler.use(layer)
    with pytest.warns(UserWarning, match="float32 and float64"):
        layer(torch.randn(2, 4, 3, dtype=dtype))
    assert not calls
