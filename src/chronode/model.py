"""SequenceModel: a layer and a readout head, from a padded batch to logits or values."""

from __future__ import annotations

from torch import Tensor, nn

from .nn.layer import Layer


class SequenceModel(nn.Module):
    """A layer with a linear readout of its output: of the last step (`outputs="last"`) or of every step.

    Example:
        >>> import torch, chronode
        >>> layer = chronode.create("mmrnn", 1, 8, outputs="last")
        >>> SequenceModel(layer, 2)(torch.randn(4, 6, 1), dt=torch.rand(4, 6)).shape
        torch.Size([4, 2])
    """

    def __init__(self, layer: Layer, num_outputs: int):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(layer.output_size, num_outputs)

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Logits or values; `times` are the layer's dt, t, lengths and observed."""
        y, _ = self.layer(x, **times)
        return self.head(y)
