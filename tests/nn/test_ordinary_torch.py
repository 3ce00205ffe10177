"""Layers in ordinary PyTorch: packed sequences, torch's weights, Sequential, empty batches, free decoding, autocast."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

import chronode
from chronode import compiler
from chronode.settings import SettingError


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("lengths", [[5, 3, 1], [1, 5, 3]])
def test_packed_sequences_come_back_packed(batch_first, lengths):
    torch.manual_seed(0)
    layer = chronode.create("ct-rnn", 3, 4, batch_first=batch_first)
    sequences = [torch.randn(length, 3) for length in lengths]
    gaps = [torch.rand(length) for length in lengths]
    y, state = layer(pack_sequence(sequences, enforce_sorted=False), dt=pack_sequence(gaps, enforce_sorted=False))
    assert isinstance(y, PackedSequence)
    padded, found = pad_packed_sequence(y, batch_first=True)
    assert found.tolist() == lengths
    for row, (one, gap) in enumerate(zip(sequences, gaps, strict=True)):
        wanted, end = layer(one, dt=gap)
        torch.testing.assert_close(padded[row, : len(one)], wanted)
        torch.testing.assert_close(state[0][:, row], end[0])


def test_a_packed_sequence_in_order_and_last_outputs():
    layer = chronode.create("gru", 3, 4, outputs="last")
    x = torch.randn(2, 5, 3)
    y, _ = layer(pack_padded_sequence(x, [5, 2], batch_first=True))
    torch.testing.assert_close(y, layer(x, lengths=[5, 2])[0])
    with pytest.raises(SettingError) as refused:
        layer(pack_padded_sequence(x, [5, 2], batch_first=True), lengths=[5, 2])
    assert refused.value.argument == "lengths"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}])
def test_the_weights_of_torch_give_its_outputs_and_gradients(kind, settings):
    torch.manual_seed(0)
    original = kind(3, 4, batch_first=True, **settings).double()
    layer, x = chronode.nn.from_torch(original), torch.randn(2, 6, 3, dtype=torch.float64)
    wanted, end = original(x)
    y, state = layer(x)
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(state, end if isinstance(end, tuple) else (end,))
    wanted.square().sum().backward()
    y.square().sum().backward()
    torch.testing.assert_close(
        layer.cells[-1].recurrent.weight.grad, getattr(original, original._all_weights[-1][1]).grad
    )
    again, _ = original(x[:, :2], end)
    torch.testing.assert_close(layer(x[:, :2], state)[0], again)


def test_torch_layers_that_have_no_equal_are_refused():
    for module in (nn.LSTM(3, 4, proj_size=2), nn.Linear(3, 4)):
        with pytest.raises(SettingError) as refused:
            chronode.nn.from_torch(module)
        assert refused.value.argument == "module"


def test_the_nonlinearity_of_an_rnn_is_kept():
    original = nn.RNN(3, 4, nonlinearity="relu", batch_first=True)
    x = torch.randn(2, 6, 3)
    torch.testing.assert_close(chronode.nn.from_torch(original)(x)[0], original(x)[0])


def test_a_layer_without_states_is_a_part_of_a_sequential():
    layer = chronode.create("gru", 3, 4, return_state=False)
    model, x = nn.Sequential(layer, nn.Linear(4, 2)), torch.randn(2, 5, 3)
    assert model(x).shape == (2, 5, 2)
    layer.return_state = True
    torch.testing.assert_close(model[1](layer(x)[0]), model[1](layer(x)[0]))


@pytest.mark.parametrize("name", ["gru", "mmrnn", "unicornn"])
@pytest.mark.parametrize("outputs", ["all", "last"])
def test_a_batch_without_sequences_gives_empty_outputs(name, outputs):
    layer = chronode.create(name, 3, 4, num_layers=2, outputs=outputs)
    y, state = layer(torch.randn(0, 5, 3))
    one, ends = layer(torch.randn(1, 5, 3))
    assert y.shape == (0, *one.shape[1:])
    assert [part.shape for part in state] == [(part.shape[0], 0, *part.shape[2:]) for part in ends]
    with pytest.raises(ValueError, match="empty"):
        layer(torch.randn(2, 0, 3))


@pytest.mark.parametrize("name", ["gru-d", "mmrnn"])
def test_free_decoding_is_stepping_with_its_own_outputs(name):
    torch.manual_seed(0)
    layer, head = chronode.create(name, 3, 4).eval(), nn.Linear(4, 3)
    x, state = torch.randn(2, 3), layer(torch.randn(2, 5, 3))[1]
    y, end = layer.unroll(x, 4, head, state, dt=0.5)
    values, now = [], state
    for _ in range(4):
        value, now = layer.step(x, now, 0.5)
        values.append(value)
        x = head(value)
    torch.testing.assert_close(y, torch.stack(values, 1))
    torch.testing.assert_close(end, now)
    y.sum().backward()
    assert head.weight.grad is not None
    with torch.no_grad():
        torch.testing.assert_close(layer.unroll(torch.zeros(3), 2, head)[0].shape, torch.Size([2, 4]))


@pytest.mark.parametrize("name", ["gru", "unicornn"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_of_different_sizes_are_a_stack_of_layers(name, bidirectional):
    torch.manual_seed(0)
    stack = chronode.create(name, 3, [6, 4], bidirectional=bidirectional)
    first = chronode.create(name, 3, 6, bidirectional=bidirectional)
    second = chronode.create(name, first.output_size, 4, bidirectional=bidirectional)
    directions = 1 + bidirectional
    for index, cell in enumerate(stack.cells):
        (first if index < directions else second).cells[index % directions].load_state_dict(cell.state_dict())
    x = torch.randn(2, 5, 3)
    y, state = stack(x)
    torch.testing.assert_close(y, second(first(x)[0])[0])
    assert state[0].shape == (2 * directions, 2, 6)
    torch.testing.assert_close(stack(x, state)[0].shape, y.shape)
    if not bidirectional:
        stack.eval()
        torch.testing.assert_close(stack.step(x[:, 0])[0], stack(x[:, :1])[0][:, 0])


def test_numbers_of_units_and_layers_must_fit():
    for sizes, layers in (([6, 4], 3), ([], 1)):
        with pytest.raises(SettingError) as refused:
            chronode.create("gru", 3, sizes, num_layers=layers)
        assert refused.value.argument == "hidden_size"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_takes_the_compiled_path(dtype, monkeypatch):
    torch.manual_seed(0)
    layer, x = chronode.create("ugrnn", 3, 6), torch.randn(2, 5, 3)
    with chronode.backend("torch"):
        wanted, _ = layer(x.to(dtype).float())
    compiler.use(layer)
    monkeypatch.setattr("chronode.nn.driver._by_torch", lambda *arguments: pytest.fail("ran as a loop"))
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x.to(dtype))
        y.sum().backward()
    assert y.dtype == dtype
    assert state[0].dtype == torch.float32
    torch.testing.assert_close(y.float(), wanted, atol=1e-2 if dtype == torch.bfloat16 else 1e-5, rtol=0)
