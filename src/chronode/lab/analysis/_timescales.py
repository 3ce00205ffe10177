"""Intrinsic time scales of models, for comparison with the gaps in the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ...model import SequenceModel
from ...nn import Cell, CTRNNFlow, Layer, LeakyFlow
from ...nn.cells.decay import CTGRUCell, CTLSTMCell, GRUDCell, RNNDecayCell
from ...nn.cells.ltc import LTCCell
from ...nn.cells.oscillators import CoRNNCell, UnICORNNCell
from ...nn.cells.phased_lstm import PhasedLSTMCell
from ...storage import Result
from ._instrumented import Inputs, Inside, Instrumented, as_layer

FADED, RESOLVED = 5.0, 1.0
"""Gaps of this many time scales are too long: less than 1% of a decaying state remains, and oscillations are missed."""


@dataclass(frozen=True)
class TimeScales(Result):
    """Intrinsic time scales of the units of a model.

    Attributes:
        what: Description of the time scale.
        values: Time scales of all units of all layers, shortest first, in the unit of dt; infinite for a constant unit.
        most: Number of time scales above which a gap is too long.
    """

    what: str
    values: NDArray[np.float64]
    most: float

    @property
    def low(self) -> float:
        """The 10% quantile."""
        return float(np.quantile(self.values, 0.1, method="nearest"))

    @property
    def high(self) -> float:
        """The 90% quantile."""
        return float(np.quantile(self.values, 0.9, method="nearest"))


@torch.no_grad()
def time_scales(model: Layer | SequenceModel, x: Tensor, **times: Any) -> TimeScales | None:
    """Returns the time scale of every unit, for models that have them; None for all others.

    The scales of LTC and CT-LSTM depend on the data: the median over all steps is used. CT-RNN, RNN-decay, GRU-D,
    CT-GRU and phased LSTM have fixed ones (decay times, or periods), UnICORNN and coRNN the time that their
    oscillators need for one unit of their own time, 1 / (Δt σ(c)) and 1 / Δt. An mmRNN only has them with the flow
    "ctrnn".

    Args:
        model: A layer or a `SequenceModel` (whose layer is analyzed).
        x: Input of the layer.
        times: dt, t, lengths and observed, as for the layer.

    Example:
        >>> import chronode
        >>> result = time_scales(chronode.create("unicornn", 1, 4, delta_t=0.5), torch.zeros(1, 3, 1))
        >>> result.what, result.values.round().tolist()
        ('the time of an oscillator 1/(Δt σ(c))', [4.0, 4.0, 4.0, 4.0])
    """
    instrumented = Instrumented(as_layer(model, 1, 1, 0))
    inputs = instrumented.enter(x, **times)
    scales_of_cells = [_of_cell(one, _valid(inputs)) for one in instrumented.inside(inputs)]
    defined = [one for one in scales_of_cells if one is not None]
    if not defined:
        return None
    values = torch.cat([scales.flatten() for _, scales in defined]).sort().values.numpy()
    most = RESOLVED if isinstance(instrumented.cells[0], (UnICORNNCell, CoRNNCell)) else FADED
    return TimeScales(defined[0][0], values, most)


def _valid(inputs: Inputs) -> Tensor:
    """Returns the mask of steps that are not padding, `(T, B)`."""
    steps, batch = inputs.x.shape[:2]
    ends = torch.full((batch,), steps) if inputs.lengths is None else inputs.lengths
    return torch.arange(steps)[:, None] < ends


def _of_cell(inside: Inside, valid: Tensor) -> tuple[str, Tensor] | None:
    """Returns a description and the time scale of each unit."""
    cell: Any = inside.cell
    if isinstance(cell, LTCCell):
        now = cell.time_constants(inside.inputs[valid], (inside.states[valid],))
        return "the time constant τ_sys", now.median(0).values
    if isinstance(cell, CTLSTMCell):
        rates = inside.states[valid].unflatten(-1, (4, -1))[:, 2]
        return "the decay time 1/δ of the memory", 1 / rates.median(0).values
    if isinstance(cell, UnICORNNCell):
        return "the time of an oscillator 1/(Δt σ(c))", 1 / (cell.delta_t * torch.sigmoid(cell.c))
    if isinstance(cell, CoRNNCell):
        return "the time of an oscillator 1/Δt", 1 / cell.delta_t.expand(cell.hidden_size)
    if isinstance(cell, CTGRUCell):
        return "the decay time τ of the traces", cell.log_tau.exp()
    if isinstance(cell, PhasedLSTMCell):
        return "the period", cell.log_period.exp()
    return _of_decay(cell)


def _of_decay(cell: Cell) -> tuple[str, Tensor] | None:
    """Returns the decay times of cells whose decay rate does not depend on the data."""
    text = "the decay time of the state"
    if isinstance(cell, RNNDecayCell):
        return text, 1 / F.softplus(cell.tau)
    if isinstance(cell, GRUDCell):
        return text, 1 / cell.decay.weight.sum(1).clamp(min=0)  # if all inputs were observed at the last step
    flow = getattr(cell, "flow", None)
    if isinstance(flow, LeakyFlow):
        return text, 1 / F.softplus(flow.rate)
    if isinstance(flow, CTRNNFlow):
        return text, torch.ones(cell.hidden_size, dtype=torch.float64)
    return None
