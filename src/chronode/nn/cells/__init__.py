"""The cells, a file for each family of models; the docstring of a cell contains its equations.

`chronode.nn.find_model("gru-d").cell` is the class behind a name; variants such as `ernn` and `lstm-dt` share the
class of their base model.
"""

from .antisymmetric import AntisymmetricCell, LipschitzCell
from .cfc import CfCCell
from .decay import CTGRUCell, CTLSTMCell, DecayGRUCell, GRUDCell, RNNDecayCell, SubtractingDecayCell
from .elementwise import IndRNNCell, SRUCell
from .fastgrnn import FastGRNNCell, FastRNNCell
from .irnn import EquilibriumCell
from .latent import LatentODECell, RNNVAECell
from .linear import LinearCell, MinGRUCell, MinLSTMCell
from .linoss import DampedLinOSSCell, LinOSSCell
from .ltc import LTCCell
from .mmrnn import MixedMemoryCell
from .ncde import LogNCDECell, NCDECell
from .ode_rnn import HeldInputCell, ODERNNCell, ReciprocalCell
from .orthogonal import ExpRNNCell, SpectralCell, UnitaryCell
from .oscillators import CoRNNCell, LEMCell, UnICORNNCell
from .phased_lstm import GapPhasedLSTMCell, PhasedLSTMCell
from .skip import SkipGRUCell, SkipLSTMCell
from .state_space import LRUCell, S4DCell, S5Cell
from .textbook import GRUCell, LSTMCell, RNNCell, UGRNNCell

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
