"""Residual blocks around the cells of any model; the shared suite compares them with an independent implementation."""

from __future__ import annotations

import pytest
import torch
from layer_checks import check_gradients, make
from torch import nn

import chronode
from chronode import ModelSpec
from chronode.data import from_list
from chronode.lab.analysis._instrumented import Instrumented
from chronode.settings import SettingError

LENGTHS = torch.tensor([6, 2, 4])


def block_layer(name="gru", **settings):
    return make(name, 2, 4, num_layers=2, block="residual", **settings)


def test_sizes():
    """Blocks have as many features as units, whatever their cells put out."""
    for name, settings in (("urnn", {}), ("gru", {"bidirectional": True}), ("dense-indrnn", {})):
        layer = chronode.create(name, 3, 4, num_layers=2, block="residual", **settings)
        assert layer.output_size == 4 and [cell.input_size for cell in layer.cells] == [4] * len(layer.cells)
        assert layer(torch.randn(2, 5, 3))[0].shape == (2, 5, 4)


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("extra", [0, 9])
def test_batch_norm_counts_valid_steps_only(backend, extra):
    """The normalized input of the first cell, and the running statistics, are torch's for the valid rows alone."""
    layer = block_layer("linoss").train()
    x = 3 + torch.randn(3, 6 + extra, 2).double()
    rows = [layer.entry(one[:n]) for one, n in zip(x, LENGTHS, strict=True)]
    norm = nn.BatchNorm1d(4, affine=False).double()
    wanted = norm(torch.cat(rows))
    seen = []
    layer.blocks[0].norm.register_forward_hook(lambda module, inputs, found: seen.append(found))
    with chronode.backend(backend):
        y, _ = layer(x, lengths=LENGTHS)
    valid = torch.arange(6 + extra) < LENGTHS[:, None]
    torch.testing.assert_close(seen[0].transpose(0, 1)[valid], wanted)
    torch.testing.assert_close(layer.blocks[0].norm.running_mean, norm.running_mean)
    torch.testing.assert_close(layer.blocks[0].norm.running_var, norm.running_var)
    assert not y.transpose(0, 1)[~valid.T].any()


def test_single_steps_use_running_statistics_in_training_too():
    layer = block_layer().train()
    layer(5 + torch.randn(3, 6, 2).double())
    before = layer.blocks[0].norm.running_mean.clone()
    x = torch.randn(1, 2).double()
    y, _ = layer.step(x)
    assert torch.equal(layer.blocks[0].norm.running_mean, before)
    torch.testing.assert_close(layer.eval().step(x)[0], y)


def test_dropout_is_drawn_twice_for_each_block():
    layer = block_layer(dropout=0.5).train()
    shapes = [mask.shape for mask in layer._dropout_masks(torch.zeros(6, 3, 2))]
    assert shapes == [(3, 4)] * 4
    x = torch.randn(3, 6, 2).double()
    assert not torch.equal(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_gradients(norm):
    check_gradients(block_layer(block_norm=norm).eval())


def test_what_does_not_fit_is_refused():
    for settings, argument in (
        ({"block": "dense"}, "block"),
        ({"block": "residual", "block_norm": "instance"}, "block_norm"),
        ({"block": "residual", "residual": 1}, "residual"),
    ):
        with pytest.raises(SettingError) as caught:
            chronode.create("gru", 2, 3, num_layers=2, **settings)
        assert caught.value.argument == argument
    with pytest.raises(ValueError, match="analyze the same model without block"):
        Instrumented(block_layer())


def test_weights_belong_to_a_norm():
    saved = block_layer().state_dict()
    block_layer(seed=1).load_state_dict(saved)
    with pytest.raises((ValueError, RuntimeError), match="block_norm='batch'|Missing key"):
        block_layer(block_norm="layer").load_state_dict(saved)


@pytest.mark.parametrize("name", ["linoss", "d-linoss", "lru", "s5", "s4d"])
def test_state_space_models_have_blocks_in_a_model_for_data(name):
    """Without a block they would be linear; another choice is kept."""
    series = from_list([[1.0, 2.0], [3.0]], target=["a", "b"])
    assert ModelSpec.for_data(series, name).settings == {"block": "residual"}
    assert ModelSpec.for_data(series, name, block=None).settings == {"block": None}
    assert ModelSpec.for_data(series, name, num_layers=2, residual=1).settings == {"residual": 1}
    assert ModelSpec.for_data(series, "gru").settings == {}
    assert chronode.create(name, 2, 3).block is None
