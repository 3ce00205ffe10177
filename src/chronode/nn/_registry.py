"""Registry of models: their names, cells and presets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeVar, cast

import torch

from .. import compiler
from ..settings import near, one_of
from ..system import load_installed
from ._cell import Cell
from ._layer import Layer

CellType = TypeVar("CellType", bound=type[Cell])


@dataclass(frozen=True)
class Model:
    """A registered model.

    Attributes:
        name: Name that `create` takes.
        cell: Cell class.
        paper: Paper that introduced the model.
        time: "native" (dt moves the state), "feature" (dt is an additional input) or "none" (dt is ignored).
        settings: Settings preset by this name.
        layer: Layer class of this name, such as `chronode.nn.LTC`; None for a plain `Layer`.
    """

    name: str
    cell: type[Cell]
    paper: str
    time: str
    settings: dict[str, Any] = field(default_factory=dict)
    layer: type[ModelLayer] | None = None

    def kernel(self) -> str:
        """Describes the settings of this model that have a native kernel; "" if the default settings have none."""
        kernel = cast(Cell, self._example().cells[0]).kernel()
        return kernel.words() if kernel is not None and kernel.native else ""

    def path(self) -> compiler.Path:
        """Returns how the default settings run if compiling is enabled: hand-written kernel, compiled, or loop with
        the reason.
        """
        paths = [compiler.explain(cell) for cell in compiler.cells_of(self._example(hidden_size=8))]
        return next((path for path in paths if path.name == "loop"), paths[-1])

    def parameters(self, input_size: int = 1, hidden_size: int = 64) -> int:
        """Returns the number of parameters of one layer with the default settings."""
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
    """Registers a cell under a name; `settings` are presets that a user may override.

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
        # A notebook may execute its class statement again: the same class may be registered twice, another may not.
        if old is not None and (old.cell.__module__, old.cell.__qualname__) != (cell.__module__, cell.__qualname__):
            raise ValueError(f"the name {name!r} is already used by {old.cell.__module__}.{old.cell.__qualname__}.")
        _models[name] = Model(name, cell, paper, time, settings)
        return cell

    return add


def models(pattern: str = "*") -> dict[str, Model]:
    """Returns the registered models by name.

    Args:
        pattern: Shell-style pattern that the names must match.

    Example:
        >>> import chronode
        >>> chronode.models()["ltc"].time
        'native'
        >>> list(chronode.models("*ode*"))
        ['gru-ode', 'latent-ode', 'neural-ode', 'ode-rnn']
    """
    load_installed()
    return {name: model for name, model in sorted(_models.items()) if fnmatchcase(name, pattern)}


def find_model(name: str) -> Model:
    """Returns the model of the given name; otherwise raises a ValueError that lists similar names."""
    if not isinstance(name, str):
        raise TypeError(f"name must be the name of a model such as 'ltc', got {name!r} ({type(name).__name__}).")
    if name not in _models:
        load_installed()
    if name not in _models:
        raise ValueError(
            f"there is no model {name!r}.{near(name.lower(), _models)} "
            "`chronode models` or chronode.models() lists all models; a model of your own is registered when its "
            "module is imported (command line: --plugin)."
        )
    return _models[name]


def create(name: str, input_size: int, hidden_size: int | Sequence[int], num_layers: int = 1, **settings: Any) -> Layer:
    """Creates a layer of the named model, with the call signature of torch.nn.LSTM.

    Args:
        name: One of `chronode.models()`.
        input_size: Number of input features.
        hidden_size: Units of each layer, or a list with one number per layer.
        num_layers: Number of stacked layers.
        settings: Settings of the layer (`dropout`, `bidirectional`, `batch_first`, `residual`, `missing`, `outputs`,
            `memory`; see `chronode.nn.Layer`) and of the model.

    Example:
        >>> import torch, chronode
        >>> layer = chronode.create("unicornn", input_size=3, hidden_size=16, num_layers=2)
        >>> y, state = layer(torch.randn(4, 10, 3), dt=torch.rand(4, 10))
        >>> y.shape
        torch.Size([4, 10, 16])
    """
    model = find_model(name)
    if model.layer is not None:
        return model.layer(input_size, hidden_size, num_layers, **settings)
    return Layer(model.cell, input_size, hidden_size, num_layers, **{**model.settings, **settings})


class ModelLayer(Layer):
    """Layer of a registered model with its own class name and the presets of the model."""

    _model: ClassVar[str]

    def __init_subclass__(cls, model: str) -> None:
        cls._model = model
        _models[model] = replace(find_model(model), layer=cls)

    def __init__(self, input_size: int, hidden_size: int | Sequence[int], num_layers: int = 1, **settings: Any):
        model = find_model(self._model)
        super().__init__(model.cell, input_size, hidden_size, num_layers, **{**model.settings, **settings})
