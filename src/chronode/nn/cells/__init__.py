"""The cells, a family a file: each docstring is the model's equations."""

from .closed_form import CfCCell
from .controlled import LogNCDECell, NCDECell
from .decay import CTLSTMCell, GRUDCell, RNNDecayCell, SubtractingDecayCell
from .equilibrium import EquilibriumCell
from .fast import FastGRNNCell, FastRNNCell
from .flow_jump import HeldInputCell, ODERNNCell, ReciprocalCell
from .gated import GRUCell, LSTMCell, RNNCell, UGRNNCell
from .independent import IndRNNCell, SRUCell
from .latent import LatentODECell, RNNVAECell
from .liquid import LTCCell
from .mixed_memory import MixedMemoryCell
from .orthogonal import ExpRNNCell, SpectralCell, UnitaryCell
from .oscillator import CoRNNCell
from .skip import SkipGRUCell, SkipLSTMCell
from .stable import AntisymmetricCell, LipschitzCell
from .timescales import CTGRUCell, GapPhasedLSTMCell, PhasedLSTMCell
from .unicornn import UnICORNNCell

__all__ = [
    "AntisymmetricCell",
    "CTGRUCell",
    "CTLSTMCell",
    "CfCCell",
    "CoRNNCell",
    "EquilibriumCell",
    "ExpRNNCell",
    "FastGRNNCell",
    "FastRNNCell",
    "GRUCell",
    "GRUDCell",
    "GapPhasedLSTMCell",
    "HeldInputCell",
    "IndRNNCell",
    "LSTMCell",
    "LTCCell",
    "LatentODECell",
    "LipschitzCell",
    "LogNCDECell",
    "MixedMemoryCell",
    "NCDECell",
    "ODERNNCell",
    "PhasedLSTMCell",
    "RNNCell",
    "RNNDecayCell",
    "RNNVAECell",
    "ReciprocalCell",
    "SRUCell",
    "SkipGRUCell",
    "SkipLSTMCell",
    "SpectralCell",
    "SubtractingDecayCell",
    "UGRNNCell",
    "UnICORNNCell",
    "UnitaryCell",
]
