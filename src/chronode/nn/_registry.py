"""Names of models: what each is, and how to make one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeVar, cast

import torch

from .. import compiler
from .._checks import near, one_of
from ._cell import Cell
from ._layer import Layer

CellType = TypeVar("CellType", bound=type[Cell])


@dataclass(frozen=True)
class Model:
    """A registered model.

    Attributes:
        name: what `create` takes.
        cell: its Cell class.
        paper: where it comes from.
        time: "native" (dt moves the state), "feature" (dt is one more input) or "none" (dt is ignored).
        settings: settings that this name presets.
        layer: the Layer class of this name, such as `chronode.nn.LTC`; None for a plain `Layer`.
    """

    name: str
    cell: type[Cell]
    paper: str
    time: str
    settings: dict[str, Any] = field(default_factory=dict)
    layer: type[ModelLayer] | None = None

    def kernel(self) -> str:
        """For which settings of this model there is a native kernel, in words; "" if the default ones have none."""
        kernel = cast(Cell, self._example().cells[0]).kernel()
        return kernel.words() if kernel is not None and kernel.native else ""

    def path(self) -> compiler.Path:
        """How the default settings run where compiling is allowed: hand-written kernel, compiled, or loop and why."""
        paths = [compiler.explain(cell) for cell in compiler.cells_of(self._example(hidden_size=8))]
        return next((path for path in paths if path.name == "loop"), paths[-1])

    def parameters(self, input_size: int = 1, hidden_size: int = 64) -> int:
        """The number of parameters of one layer with the default settings."""
        return sum(p.numel() for p in self._example(input_size, hidden_size).parameters())

    def _example(self, input_size: int = 1, hidden_size: int = 64) -> Layer:
        with torch.random.fork_rng(devices=[]):
            return create(self.name, input_size, hidden_size)

    @property
    def summary(self) -> str:
        """The first line of the cell's docstring."""
        return (self.cell.__doc__ or "").strip().split("\n")[0]


_models: dict[str, Model] = {}


def register(name: str, *, paper: str, time: str, **settings: Any) -> Callable[[CellType], CellType]:
    """Adds a cell under a name; `settings` are presets that a user may override.

    Example:
        >>> import torch, chronode
        >>> @chronode.register("leaky-doc", paper="mine", time="native")
        ... class Leaky(chronode.nn.Cell):
        ...     '''h' = h e^(-dt) + tanh(W x + U h + b);  y = h'.'''
        ...     def __init__(self, input_size, hidden_size):
        ...         super().__init__(input_size, hidden_size)
        ...         self.inputs = torch.nn.Linear(input_size, hidden_size)
        ...         self.recurrent = torch.nn.Linear(hidden_size, hidden_size, bias=False)
        ...     def forward(self, x, state, dt):
        ...         (h,) = state
        ...         h = h * torch.exp(-dt) + torch.tanh(self.inputs(x) + self.recurrent(h))
        ...         return h, (h,)
        >>> y, _ = chronode.create("leaky-doc", 3, 5)(torch.randn(2, 7, 3))
        >>> y.shape
        torch.Size([2, 7, 5])
    """
    one_of("time", time, ("native", "feature", "none"))

    def add(cell: CellType) -> CellType:
        if not (isinstance(cell, type) and issubclass(cell, Cell)):
            raise TypeError(f"register({name!r}) takes a subclass of chronode.nn.Cell, got {cell!r}.")
        old = _models.get(name)
        # A notebook runs its class statement again: the same class may come back, another may not.
        if old is not None and (old.cell.__module__, old.cell.__qualname__) != (cell.__module__, cell.__qualname__):
            raise ValueError(f"the name {name!r} is taken by {old.cell.__module__}.{old.cell.__qualname__}.")
        _models[name] = Model(name, cell, paper, time, settings)
        return cell

    return add


def models(pattern: str = "*") -> dict[str, Model]:
    """The registered models by name.

    Args:
        pattern: Shell-style pattern that the names must match.

    Example:
        >>> import chronode
        >>> chronode.models()["ltc"].time
        'native'
        >>> list(chronode.models("*ode*"))
        ['gru-ode', 'latent-ode', 'neural-ode', 'ode-rnn']
    """
    return {name: model for name, model in sorted(_models.items()) if fnmatchcase(name, pattern)}


def find(name: str) -> Model:
    """The model of that name; a ValueError that lists the near ones if there is none."""
    if not isinstance(name, str):
        raise TypeError(f"name must be the name of a model such as 'ltc', got {name!r} ({type(name).__name__}).")
    if name not in _models:
        raise ValueError(
            f"there is no model {name!r}.{near(name.lower(), _models)} "
            "`chronode models` or chronode.models() lists all."
        )
    return _models[name]


def create(name: str, input_size: int, hidden_size: int, num_layers: int = 1, **settings: Any) -> Layer:
    """A layer of the named model, called like torch.nn.LSTM.

    Args:
        name: one of `chronode.models()`.
        input_size: features of the input.
        hidden_size: units of each layer.
        num_layers: cells stacked on each other.
        settings: the layer's (`dropout`, `bidirectional`, `batch_first`, `residual`, `missing`, `outputs`,
            `memory`; see `chronode.nn.Layer`) and the model's own.

    Example:
        >>> import torch, chronode
        >>> layer = chronode.create("unicornn", input_size=3, hidden_size=16, num_layers=2)
        >>> y, state = layer(torch.randn(4, 10, 3), dt=torch.rand(4, 10))
        >>> y.shape
        torch.Size([4, 10, 16])
    """
    model = find(name)
    if model.layer is not None:
        return model.layer(input_size, hidden_size, num_layers, **settings)
    return Layer(model.cell, input_size, hidden_size, num_layers, **{**model.settings, **settings})


class ModelLayer(Layer):
    """The layer of a registered model under a class name of its own, with the presets of the model.

    Args:
        input_size: Features of the input.
        hidden_size: Units of each layer.
        num_layers: Cells stacked on each other.
        settings: Those of `Layer` and of the model.
    """

    _model: ClassVar[str]

    def __init_subclass__(cls, model: str) -> None:
        cls._model = model
        _models[model] = replace(find(model), layer=cls)

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **settings: Any):
        model = find(self._model)
        super().__init__(model.cell, input_size, hidden_size, num_layers, **{**model.settings, **settings})
