"""Phased LSTM, and the variant in the code of the mmRNN paper."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...settings import number
from .._cell import Cell, State, counter
from .._registry import register
from .textbook import LSTMCell


@register("phased-lstm", paper="Neil, Pfeiffer & Liu 2016, Phased LSTM", time="native")
class PhasedLSTMCell(Cell):
    """Phased LSTM: an LSTM whose units are updated only in the open phase of their own rhythm.

        t' = t + dt;   φ = ((t' - s) mod τ) / τ
        k = 2φ/r if φ < r/2;   2 - 2φ/r if r/2 ≤ φ < r;   α φ else
        (h̃, c̃) = LSTM(x, h, c);   c' = k ⊙ c̃ + (1 - k) ⊙ c;   y = h' = k ⊙ h̃ + (1 - k) ⊙ h

    State: (h, c, t): t is the time since the start of each sequence.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        shortest: Smallest initial period τ; the periods are evenly spaced on a log scale.
        longest: Largest initial period τ.
        ratio_on: r, the share of its period for which a unit is open.
        leak: α, the openness of closed units.
        forget_bias: Initial forget bias of the LSTM.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        shortest: float = 1.0,
        longest: float = 1000.0,
        ratio_on: float = 0.05,
        leak: float = 1e-3,
        forget_bias: float = 1.0,
    ):
        super().__init__(input_size, hidden_size)
        self.lstm = LSTMCell(input_size, hidden_size, forget_bias=forget_bias)
        low = math.log(number("shortest", shortest, above=0))
        high = math.log(number("longest", longest, at_least=shortest))
        log_period = torch.empty(hidden_size).uniform_(low, high)
        self.log_period = nn.Parameter(log_period)
        self.shift = nn.Parameter(torch.rand(hidden_size) * log_period.exp())
        self.register_buffer("ratio_on", self.constant("ratio_on", number("ratio_on", ratio_on, above=0, below=1)))
        self.register_buffer("leak", self.constant("leak", number("leak", leak, at_least=0)))

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a zero LSTM state at time 0."""
        return (*self.lstm.initial_state(batch, like), counter(like, batch))

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the gates."""
        return self.lstm.project(x)

    def openness(self, t: Tensor) -> Tensor:
        """Returns k `(B, H)` at the times `t (B, 1)`."""
        period = torch.exp(self.log_period)
        phase = torch.remainder(t - self.shift, period) / period
        rising = 2 * phase / self.ratio_on
        opening = torch.where(phase < self.ratio_on / 2, rising, 2 - rising)
        return torch.where(phase < self.ratio_on, opening, self.leak * phase)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h, c, t = state
        t = t + dt
        _, (new_h, new_c) = self.lstm(x, (h, c), dt)
        k = self.openness(t).to(h.dtype)
        h, c = h + k * (new_h - h), c + k * (new_c - c)
        return h, (h, c, t)


@register("phased-lstm-mmrnn", paper="Phased LSTM as in the code of the mmRNN paper", time="native")
class GapPhasedLSTMCell(Cell):
    """Phased LSTM as in the code of the mmRNN paper: one rhythm for all units, with the phase of the gap instead of
    the time.

        τ, s, r = softplus of one trained number each;   φ = ((dt - s) mod τ) / τ
        k = 2φ r if φ < r/2;   2 - 2φ/r if r/2 ≤ φ < r;   α φ else
        (h̃, c̃) = LSTM(x, h, c);   c' = k c̃ + (1 - k) c;   y = h' = k h̃ + (1 - k) h

    The first slope is 2φ/r in the Phased LSTM paper ("phased-lstm"), and 2φ r in this code.

    State: (h, c).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        leak: α, the openness of closed units.
        forget_bias: Initial forget bias of the LSTM.
    """

    state_parts = 2

    def __init__(self, input_size: int, hidden_size: int, leak: float = 1e-3, forget_bias: float = 1.0):
        super().__init__(input_size, hidden_size)
        self.lstm = LSTMCell(input_size, hidden_size, forget_bias=forget_bias)
        self.rhythm = nn.Parameter(torch.zeros(3))
        self.register_buffer("leak", self.constant("leak", number("leak", leak, at_least=0)))

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the gates."""
        return self.lstm.project(x)

    def openness(self, dt: Tensor) -> Tensor:
        """Returns k `(B, 1)` after the gaps `dt (B, 1)`."""
        period, shift, ratio_on = F.softplus(self.rhythm)
        phase = torch.remainder(dt - shift, period) / period
        opening = torch.where(phase < ratio_on / 2, 2 * phase * ratio_on, 2 - 2 * phase / ratio_on)
        return torch.where(phase < ratio_on, opening, self.leak * phase)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h, c = state
        _, (new_h, new_c) = self.lstm(x, state, dt)
        k = self.openness(dt)
        h, c = h + k * (new_h - h), c + k * (new_c - c)
        return h, (h, c)
