"""IndRNN, densely connected IndRNN, SRU."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_gated as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode


def stack(layer, steps):
    return lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt)


def indrnn_parameters(cell):
    p = {"W": array(cell.inputs.weight), "b": array(cell.inputs.bias), "u": array(cell.u)}
    return p | {"bound": float(cell.bound)}


@pytest.mark.parametrize("name", ["indrnn", "dense-indrnn"])
@pytest.mark.parametrize("bound", [1.0, 0.4])
def test_indrnn(name, bound):
    layer = make(name, num_layers=3, bound=bound)
    step = models.dense_indrnn if name.startswith("dense") else models.indrnn
    assert_matches(layer, stack(layer, [lambda *a, c=c: step(*a, indrnn_parameters(c)) for c in layer.cells]))
    check_gradients(make(name))


def test_dense_layers_read_all_layers_below():
    layer = chronode.create("dense-indrnn", 2, 4, num_layers=3)
    assert [cell.input_size for cell in layer.cells] == [2, 6, 10] and layer.output_size == 14
    x = torch.randn(3, 5, 2)
    assert torch.equal(layer(x)[0][..., :2], x)


def test_units_are_independent():
    """The Jacobian of the new state by the old is diagonal."""
    cell = make("indrnn", 2, 5).cells[0]
    x = cell.project(torch.randn(1, 2).double())
    jacobian = torch.autograd.functional.jacobian(lambda h: cell(x, (h,), x)[0], torch.rand(1, 5).double())
    matrix = array(jacobian[0, :, 0])
    np.testing.assert_array_equal(matrix, np.diag(np.diag(matrix)))


def test_layer_norm_leaves_sequences_alone():
    layer = make("indrnn", 2, 5, norm="layer").train()
    x = torch.randn(3, 6, 2).double()
    torch.testing.assert_close(layer(x)[0][1], layer(x[1:2])[0][0])
    torch.testing.assert_close(layer(x)[0][:, :4], layer(x[:, :4])[0])


def test_batch_norm():
    """In training by the statistics of the batch, afterwards by the running ones: then sequences are alone."""
    layer = make("indrnn", 2, 5, norm="batch")
    x = 3 + torch.randn(30, 6, 2).double()
    for _ in range(100):
        a = layer.cells[0].project(x.transpose(0, 1))
    assert a.shape == (6, 30, 5)
    norm = layer.cells[0].norm
    torch.testing.assert_close(((a - norm.bias) / norm.weight).mean((0, 1)), torch.zeros(5).double(), rtol=0, atol=1e-9)
    layer.eval()
    torch.testing.assert_close(layer(x)[0][1], layer(x[1:2])[0][0])
    torch.testing.assert_close(layer.cells[0].project(x.transpose(0, 1)), a, rtol=0, atol=0.05)


def normalized(cell, rows):
    """Batch normalization of the valid rows `(N, D)` alone, by torch: the input's share, and the norm after it."""
    norm = torch.nn.BatchNorm1d(cell.hidden_size).double()
    norm.load_state_dict(cell.norm.state_dict())
    return norm(torch.nn.functional.linear(rows, cell.inputs.weight, cell.inputs.bias)), norm


BATCH_NORM = [
    (backend, memory, dense) for backend in ("native", "torch") for memory in ("fast", "low") for dense in (False, True)
]


@pytest.mark.parametrize(("backend", "memory", "dense"), BATCH_NORM)
@pytest.mark.parametrize("extra", [0, 20])
def test_batch_norm_does_not_count_padding(backend, memory, dense, extra):
    """Outputs, gradients and running means are those of the valid steps, however much padding follows them."""
    layer = make("indrnn", 2, 5, norm="batch", dense=dense, memory=memory)
    cell, lengths = layer.cells[0], torch.tensor([7, 3, 5, 1])
    x = torch.randn(4, 7 + extra, 2).double().requires_grad_()
    valid = torch.arange(7 + extra) < lengths[:, None]

    share, norm = normalized(cell, x[valid])
    a = torch.zeros(4, 7 + extra, 5).double().masked_scatter(valid.unsqueeze(-1), share)
    u, rows = cell.u.clamp(-1, 1), []
    for one, n in zip(a, lengths, strict=True):
        h = [torch.zeros(5).double()]
        for step in one[:n]:
            h.append(torch.relu(step + u * h[-1]))
        rows.append(torch.stack(h[1:]))
    wanted = torch.cat(rows)

    with chronode.backend(backend):
        y, _ = layer(x, lengths=lengths)
    found = y[valid][:, -5:]
    torch.testing.assert_close(found, wanted)
    inputs = [x, cell.inputs.weight, cell.u]
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), inputs), torch.autograd.grad(wanted.square().sum(), inputs)
    )
    torch.testing.assert_close(cell.norm.running_mean, norm.running_mean)
    torch.testing.assert_close(cell.norm.running_var, norm.running_var)
    assert int(cell.norm.num_batches_tracked) == 1


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("lengths", [None, [9, 4]])
def test_low_memory_normalizes_the_whole_sequence_once(backend, lengths):
    results = []
    for memory in ("fast", "low"):
        layer = make("indrnn", 2, 5, norm="batch", memory=memory)
        with chronode.backend(backend):
            y, _ = layer(torch.linspace(-1, 3, 36).view(2, 9, 2).double(), lengths=lengths)
        y.square().sum().backward()  # the chunks are computed again
        results.append([y, *(p.grad for p in layer.parameters()), *layer.buffers()])
    for low, fast in zip(*results, strict=True):
        torch.testing.assert_close(low, fast)


@pytest.mark.parametrize("input_size", [2, 3])
def test_sru(input_size):
    """With as many inputs as units the highway is the input itself."""
    layer = make("sru", input_size, 3, highway_bias=-1.0)
    (cell,) = layer.cells
    W = np.split(array(cell.inputs.weight), cell.blocks)
    p = {"W_f": W[0], "W_r": W[1], "W_c": W[2], "W_y": W[3] if input_size != 3 else None}
    for name, values in (("v", cell.v), ("b", cell.b)):
        p |= dict(zip((f"{name}_f", f"{name}_r"), np.split(array(values), 2), strict=True))
    p["scale"] = np.sqrt(1 + 2 * np.exp(-1.0))
    assert_matches(layer, stack(layer, [lambda *a: models.sru(*a, p)]))
    check_gradients(layer)


def test_bad_settings():
    with pytest.raises(ValueError, match="norm='instance' is not supported"):
        chronode.create("indrnn", 2, 3, norm="instance")
    with pytest.raises(ValueError, match="bound must be greater than 0"):
        chronode.create("indrnn", 2, 3, bound=0.0)
