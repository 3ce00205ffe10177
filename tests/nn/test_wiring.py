"""Wiring masks: who may listen to whom, that nobody is left alone, and that a seed is a wiring."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.nn._wiring import make_wiring

property_test = settings(max_examples=60, deadline=None, derandomize=True)
densities = st.sampled_from([1e-6, 0.1, 0.5, 1.0])


def assert_mask(mask, shape):
    assert tuple(mask.shape) == shape
    assert set(mask.unique().tolist()) <= {0.0, 1.0}


def test_full():
    wiring = make_wiring("full", 3, 5)
    assert torch.equal(wiring.inputs, torch.ones(3, 5)) and torch.equal(wiring.recurrent, torch.ones(5, 5))
    assert wiring.outputs == 5


@property_test
@given(st.integers(1, 8), st.integers(1, 20), densities, st.integers(0, 10**6))
def test_sparse(inputs, hidden, density, seed):
    wiring = make_wiring("sparse", inputs, hidden, density, seed=seed)
    assert_mask(wiring.inputs, (inputs, hidden))
    assert_mask(wiring.recurrent, (hidden, hidden))
    assert wiring.outputs == hidden
    for mask in (wiring.inputs, wiring.recurrent):
        assert (mask.sum(0) > 0).all()  # every neuron hears something,
        assert (mask.sum(1) > 0).all()  # and everything is heard
    if density == 1.0:
        assert wiring.inputs.all() and wiring.recurrent.all()


def test_density_is_the_share_of_connections():
    wiring = make_wiring("sparse", 100, 200, 0.3)
    assert abs(float(wiring.inputs.mean()) - 0.3) < 0.02 and abs(float(wiring.recurrent.mean()) - 0.3) < 0.02


@property_test
@given(st.integers(1, 8), st.integers(3, 30), st.integers(1, 6), densities, st.integers(0, 10**6))
def test_ncp(inputs, hidden, motor, density, seed):
    motor = min(motor, hidden - 2)
    wiring = make_wiring("ncp", inputs, hidden, density, motor, seed)
    assert_mask(wiring.inputs, (inputs, hidden))
    assert_mask(wiring.recurrent, (hidden, hidden))
    assert wiring.outputs == motor
    # The inter neurons are those that hear inputs; the motor neurons are the last.
    inter = int((wiring.inputs.sum(0) > 0).sum())
    command = hidden - motor - inter
    assert inter >= 1 and command >= 1
    inters, commands, motors = range(inter), range(inter, inter + command), range(inter + command, hidden)
    assert (wiring.inputs[:, inters].sum(1) > 0).all() and not wiring.inputs[:, inter:].any()
    allowed = torch.zeros(hidden, hidden)
    for sources, targets in ((inters, commands), (commands, commands), (commands, motors)):
        block = wiring.recurrent[sources.start : sources.stop, targets.start : targets.stop]
        allowed[sources.start : sources.stop, targets.start : targets.stop] = 1
        assert (block.sum(0) > 0).all() and (block.sum(1) > 0).all()
    assert not (wiring.recurrent * (1 - allowed)).any()


@property_test
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 5), densities)
def test_ncp_with_several_inter_layers(inter, motor, command, density):
    """Each layer is connected to the next one only; nobody is left alone."""
    sizes = [*inter, command, motor]
    wiring = make_wiring("ncp", 3, sum(sizes), density, motor, inter=inter)
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    groups = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    allowed = torch.zeros(sum(sizes), sum(sizes))
    pairs = [*itertools.pairwise(groups), (groups[-2], groups[-2])]
    for sources, targets in pairs:
        block = wiring.recurrent[sources.start : sources.stop, targets.start : targets.stop]
        allowed[sources.start : sources.stop, targets.start : targets.stop] = 1
        assert (block.sum(0) > 0).all() and (block.sum(1) > 0).all()
    assert not (wiring.recurrent * (1 - allowed)).any()
    assert (wiring.inputs[:, : inter[0]].sum(0) > 0).all() and not wiring.inputs[:, inter[0] :].any()
    assert wiring.outputs == motor


def test_one_inter_layer_is_the_default_wiring():
    usual, same = make_wiring("ncp", 4, 16, motor=2), make_wiring("ncp", 4, 16, motor=2, inter=8)
    assert torch.equal(usual.inputs, same.inputs) and torch.equal(usual.recurrent, same.recurrent)


@pytest.mark.parametrize("form", ["synaptic", "dense"])
def test_own_connections(form):
    """A chain: the input reaches neuron 0, which reaches neuron 1, which is the output."""
    chain = [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 1, 0]]
    layer = chronode.create("ltc", 1, 3, form=form, wiring="own", connections=chain, motor=2, unfolds=1)
    x = torch.randn(1, 4, 1, requires_grad=True)
    y, (v,) = layer(x)
    assert y.shape == (1, 4, 2)
    for neuron, reached in ((0, [3]), (1, [2]), (2, [])):
        (gradient,) = torch.autograd.grad(v[0, 0, neuron], x, retain_graph=True, allow_unused=True)
        touched = [] if gradient is None else gradient[0, :, 0].nonzero().flatten().tolist()
        assert touched[-1:] == reached
    again = chronode.create("ltc", 1, 3, form=form, wiring="own", connections=chain, motor=2, unfolds=1)
    again.load_state_dict(layer.state_dict())


@pytest.mark.parametrize("kind", ["sparse", "ncp"])
def test_a_seed_is_a_wiring(kind):
    first, again, other = (make_wiring(kind, 4, 16, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.inputs, again.inputs) and torch.equal(first.recurrent, again.recurrent)
    assert not torch.equal(first.recurrent, other.recurrent)


@pytest.mark.parametrize("kind", ["full", "sparse", "ncp"])
def test_the_default_dtype_changes_the_type_of_a_mask_not_the_wiring(kind):
    single = make_wiring(kind, 4, 16)
    torch.set_default_dtype(torch.float64)
    try:
        double = make_wiring(kind, 4, 16)
    finally:
        torch.set_default_dtype(torch.float32)
    for a, b in ((single.inputs, double.inputs), (single.recurrent, double.recurrent)):
        assert (a.dtype, b.dtype) == (torch.float32, torch.float64) and torch.equal(a.double(), b)


def test_wiring_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    make_wiring("ncp", 4, 16, seed=5)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("form", ["synaptic", "dense"])
def test_masks_are_buffers_and_cut_connections_stay_cut(form):
    torch.manual_seed(0)
    layer = chronode.create("ltc", 3, 12, form=form, wiring="ncp", motor=2)
    masks = {name for name, _ in layer.named_buffers() if "mask" in name}
    assert len(masks) == 2 and masks <= layer.state_dict().keys()
    cell = layer.cells[0]
    wiring = make_wiring("ncp", 3, 12, motor=2)

    def state_after(v):
        return cell(torch.zeros(1, 3), (v.unsqueeze(0),), torch.full((1, 1), 0.1))[1][0].squeeze(0)

    reach = torch.autograd.functional.jacobian(state_after, torch.full((12,), 0.5)).T  # (from, to)
    # Six unfolds reach up to six connections far; without a path, and but for a neuron itself, nothing.
    paths = torch.eye(12)
    for _ in range(6):
        paths = ((paths + paths @ wiring.recurrent) > 0).float()
    assert not (reach * (1 - paths)).any()
    assert ((reach != 0) | (wiring.recurrent == 0)).all()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"kind": "dense"}, ValueError, "sparse"),
        ({"kind": "sparse", "density": 0.0}, ValueError, "density"),
        ({"kind": "sparse", "density": 1.5}, ValueError, "density"),
        ({"kind": "sparse", "motor": 2}, ValueError, "motor"),
        ({"kind": "ncp", "motor": 0}, ValueError, "motor"),
        ({"kind": "ncp", "motor": 7}, ValueError, "hidden_size"),
        ({"kind": "ncp", "seed": -1}, ValueError, "seed"),
        ({"kind": "ncp", "inter": [4, 4]}, ValueError, "hidden_size"),
        ({"kind": "ncp", "inter": [4, 0]}, ValueError, "inter"),
        ({"kind": "ncp", "inter": []}, ValueError, "hidden_size"),
        ({"kind": "sparse", "inter": 3}, ValueError, "inter=3 needs wiring='ncp'"),
        ({"kind": "own"}, ValueError, "connections"),
        ({"kind": "full", "connections": [[1]]}, ValueError, "connections"),
        ({"kind": "own", "connections": [[1] * 8] * 9}, ValueError, "10 rows"),
        ({"kind": "own", "connections": [[1] * 8] * 9 + [[2] * 8]}, ValueError, "zeros and ones"),
        ({"kind": "own", "connections": [[1] * 8] * 10, "motor": 9}, ValueError, "motor=9"),
    ],
)
def test_refusals(arguments, error, words):
    with pytest.raises(error, match=words):
        make_wiring(input_size=2, hidden_size=8, **arguments)
