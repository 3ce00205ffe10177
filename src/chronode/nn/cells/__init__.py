"""The cells: the file of a model has the name of the model, and the docstring of the cell contains its equations.

A variant is in the file of its base model: `ernn` and `sirnn` in `irnn.py`, `neural-ode` and `gru-ode` in
`ct_rnn.py`, `lstm-dt` in `lstm.py`. Files that begin with `_` hold shared code.
"""

from ._linear import LinearCell
from .antisymmetric import AntisymmetricCell
from .cfc import CfCCell
from .cornn import CoRNNCell
from .ct_gru import CTGRUCell
from .ct_lstm import CTLSTMCell
from .ct_rnn import HeldInputCell
from .d_linoss import DampedLinOSSCell
from .decay_gru import DecayGRUCell
from .exprnn import ExpRNNCell
from .fastgrnn import FastGRNNCell
from .fastrnn import FastRNNCell
from .gru import GRUCell
from .gru_d import GRUDCell
from .indrnn import IndRNNCell
from .irnn import EquilibriumCell
from .latent_ode import LatentODECell
from .lem import LEMCell
from .linoss import LinOSSCell
from .lipschitz import LipschitzCell
from .log_ncde import LogNCDECell
from .lru import LRUCell
from .lstm import LSTMCell
from .ltc import LTCCell
from .mingru import MinGRUCell
from .minlstm import MinLSTMCell
from .mmrnn import MixedMemoryCell
from .ncde import NCDECell
from .ode_rnn import ODERNNCell
from .phased_lstm import GapPhasedLSTMCell, PhasedLSTMCell
from .reciprocal import ReciprocalCell
from .rnn import RNNCell
from .rnn_decay import RNNDecayCell, SubtractingDecayCell
from .rnn_vae import RNNVAECell
from .s4d import S4DCell
from .s5 import S5Cell
from .skip_gru import SkipGRUCell
from .skip_lstm import SkipLSTMCell
from .spectral import SpectralCell
from .sru import SRUCell
from .ugrnn import UGRNNCell
from .unicornn import UnICORNNCell
from .urnn import UnitaryCell

__all__ = [
    "AntisymmetricCell",
    "CTGRUCell",
    "CTLSTMCell",
    "CfCCell",
    "CoRNNCell",
    "DampedLinOSSCell",
    "DecayGRUCell",
    "EquilibriumCell",
    "ExpRNNCell",
    "FastGRNNCell",
    "FastRNNCell",
    "GRUCell",
    "GRUDCell",
    "GapPhasedLSTMCell",
    "HeldInputCell",
    "IndRNNCell",
    "LEMCell",
    "LRUCell",
    "LSTMCell",
    "LTCCell",
    "LatentODECell",
    "LinOSSCell",
    "LinearCell",
    "LipschitzCell",
    "LogNCDECell",
    "MinGRUCell",
    "MinLSTMCell",
    "MixedMemoryCell",
    "NCDECell",
    "ODERNNCell",
    "PhasedLSTMCell",
    "RNNCell",
    "RNNDecayCell",
    "RNNVAECell",
    "ReciprocalCell",
    "S4DCell",
    "S5Cell",
    "SRUCell",
    "SkipGRUCell",
    "SkipLSTMCell",
    "SpectralCell",
    "SubtractingDecayCell",
    "UGRNNCell",
    "UnICORNNCell",
    "UnitaryCell",
]
