"""RNN-VAE: one GRU encodes, another decodes."""

from __future__ import annotations

from torch import Tensor

from .._registry import register
from ._latent import LatentCell
from .gru import GRUCell


@register("rnn-vae", paper="Rubanova, Chen & Duvenaud 2019, RNN-VAE", time="native")
class RNNVAECell(LatentCell):
    """RNN-VAE: a GRU with dt as an input encodes, and another GRU moves the latent state.

        encode: h' = GRU((x, dt), h);   move: GRU(dt, z)

    State: (h, z, divergence). The rest of the equations: see `LatentCell`.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H of the encoder and of y.
        latent_size: Size of z; half of H by default.
    """

    def __init__(self, input_size: int, hidden_size: int, latent_size: int | None = None):
        super().__init__(input_size, hidden_size, latent_size)
        self.encoder_cell = GRUCell(input_size, hidden_size, sees_dt=True)
        self.mover = GRUCell(1, self.latent_size)

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the encoder."""
        return self.encoder_cell.project(x)

    def encode(self, x: Tensor, h: Tensor, dt: Tensor) -> Tensor:
        """h'."""
        return self.encoder_cell(x, (h,), dt)[0]

    def move(self, z: Tensor, dt: Tensor) -> Tensor:
        """Returns the latent state `dt` later."""
        return self.mover(self.mover.project(dt), (z,), dt)[0]
