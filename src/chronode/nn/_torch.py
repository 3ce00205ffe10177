"""Layers in ordinary PyTorch: packed sequences, empty batches, and weights of torch's own layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ..settings import SettingError
from ._cell import State

if TYPE_CHECKING:
    from ._layer import Layer

_NAMES: dict[type[nn.RNNBase], str] = {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "rnn"}


def run_packed(
    layer: Layer, run: Callable[..., tuple[Tensor, State]], x: PackedSequence, state: State | None, **times: Any
) -> tuple[Tensor | PackedSequence, State]:
    """Runs a layer over a packed sequence; all outputs are packed in the same way."""
    if times.pop("lengths") is not None:
        raise SettingError("a packed sequence has lengths of its own", argument="lengths", cure="leave it out")
    padded, lengths = pad_packed_sequence(x, layer.batch_first)
    times = {
        name: pad_packed_sequence(value, layer.batch_first)[0] if isinstance(value, PackedSequence) else value
        for name, value in times.items()
    }
    y, end = run(padded, state, lengths=lengths, **times)
    if layer.outputs == "last":
        return y, end
    if x.sorted_indices is not None:
        y, lengths = y.index_select(0 if layer.batch_first else 1, x.sorted_indices), lengths[x.sorted_indices.cpu()]
    packed = pack_padded_sequence(y, lengths, layer.batch_first)
    return PackedSequence(packed.data, packed.batch_sizes, x.sorted_indices, x.unsorted_indices), end


def has_no_sequences(layer: Layer, x: Any) -> bool:
    """Returns whether x is a batch without sequences, whose other axes fit."""
    if not isinstance(x, Tensor) or x.dim() != 3:
        return False
    batch, time, features = x.shape if layer.batch_first else (x.shape[1], x.shape[0], x.shape[2])
    return batch == 0 and time > 0 and features == layer.input_size


def without_sequences(layer: Layer, x: Tensor) -> tuple[Tensor, State]:
    """Returns the outputs and the state of a batch without sequences."""
    y = x.new_zeros((0,) if layer.outputs == "last" else x.shape[:2])
    return y.unsqueeze(-1).expand(*y.shape, layer.output_size), layer.initial_state(0)


def from_torch(module: nn.LSTM | nn.GRU | nn.RNN) -> Layer:
    """Returns the layer with the weights, the settings and the outputs of a recurrent layer of torch.

    Dropout between layers is kept but draws one mask per sequence, not one per step as torch does, and also applies
    after the last layer; in evaluation both give the same outputs. Biases that torch's layer does not have are 0
    and are not trained.

    Args:
        module: `torch.nn.LSTM`, `GRU` or `RNN`, of any number of layers and directions, without `proj_size`.

    Example:
        >>> import torch, chronode
        >>> lstm = torch.nn.LSTM(3, 8, num_layers=2, batch_first=True)
        >>> layer, x = chronode.nn.from_torch(lstm), torch.randn(2, 5, 3)
        >>> torch.allclose(layer(x)[0], lstm(x)[0], atol=1e-6)
        True
    """
    from ._registry import create

    name = _NAMES.get(type(module))
    if name is None:
        raise SettingError(
            f"module is a {type(module).__name__}", argument="module", cure="pass a torch.nn.LSTM, GRU or RNN"
        )
    if module.proj_size:
        raise SettingError(
            f"module has proj_size={module.proj_size}, which lstm does not have",
            argument="module",
            cure="use a layer without a projection",
        )
    settings = {"activation": module.nonlinearity} if isinstance(module, nn.RNN) else {}
    layer = create(
        name,
        module.input_size,
        module.hidden_size,
        num_layers=module.num_layers,
        dropout=module.dropout,
        bidirectional=module.bidirectional,
        batch_first=module.batch_first,
        **settings,
    )
    weight: Any = module.weight_ih_l0
    layer.to(weight.device, weight.dtype).train(module.training)
    directions = 2 if module.bidirectional else 1
    with torch.no_grad():
        for index, cell in enumerate(layer.cells):
            suffix = f"_l{index // directions}{'_reverse' if index % directions else ''}"
            linear: list[tuple[Any, str]] = [(cell.inputs, "ih"), (cell.recurrent, "hh")]
            for part, kind in linear:
                part.weight.copy_(getattr(module, f"weight_{kind}{suffix}"))
                if module.bias:
                    part.bias.copy_(getattr(module, f"bias_{kind}{suffix}"))
                else:
                    part.bias.zero_().requires_grad_(False)
    return layer
