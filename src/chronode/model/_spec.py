"""ModelSpec: everything needed to build a SequenceModel, as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from ..data import known_channels
from ..nn import find_model
from ..settings import SettingError, flag, named, number, one_of, whole
from ..storage import LAYERS, parse

if TYPE_CHECKING:
    from ..data import Sequences

POOLS = ("last", "mean", "sum", "max")


_SHARED = ("input_size", "num_outputs", "per_step", "static", "symbols", "relative", "known")


@dataclass(frozen=True)
class ModelSpec:
    """Everything needed to build a SequenceModel, as plain data.

    Attributes:
        model: Name of a registered model.
        input_size: Channels of the data; 1 with `symbols`.
        num_outputs: Number of logits (one per class) or values.
        hidden_size: Units of each layer.
        num_layers: Number of stacked layers.
        per_step: Whether there is an output at every step instead of one after the last step.
        missing: Whether values may be missing.
        symbols: Number of symbols if the data are symbols, each with a learned vector; None for numbers.
        embedding_size: Size of these vectors.
        embedding_dropout: Dropout of their entries in training.
        word_dropout: Share of the symbols whose vectors are set to 0 throughout a training batch.
        head_init: "uniform" (PyTorch's default for linear layers) or "normal" (He et al. 2015, with zero biases).
        start: Features of the linear model that the network starts from, as `LinearStart` takes them; the head is then
            0 at first. None for a network alone.
        relative: For a model that forecasts from windows: the indices of the channels that it continues, seen relative
            to the level and scale of each window.
        known: With `relative`, the indices of the channels whose values are known over the horizon; the last static
            values of a window are these values.
        static: Number of static values of a series, which modulate the output of the layer and enter the head.
        pool: Input of the head for a whole series: the output after the "last" step, or the "mean", "sum" (divided
            by √n) or "max" over all n valid steps.
        baseline: Naive forecast that takes the place of the linear start because it is better, such as "last value";
            empty otherwise.
        ensemble: Number of networks with different initial weights, whose outputs are averaged; each learns on its own.
        settings: Settings of the layer (dropout, bidirectional, residual, memory) and of the model.
        members: Further models, complete with their starts, whose outputs are averaged with those of this one.

    Example:
        >>> spec = ModelSpec("ltc", input_size=3, num_outputs=2, hidden_size=8)
        >>> ModelSpec.from_dict(spec.as_dict()) == spec
        True
        >>> import torch
        >>> from chronode import SequenceModel
        >>> SequenceModel.build(spec)(torch.randn(4, 6, 3)).shape
        torch.Size([4, 2])
    """

    model: str
    input_size: int
    num_outputs: int
    hidden_size: int = 64
    num_layers: int = 1
    per_step: bool = False
    missing: bool = False
    symbols: int | None = None
    embedding_size: int = 64
    embedding_dropout: float = 0.0
    word_dropout: float = 0.0
    head_init: str = "uniform"
    settings: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] | None = None
    relative: tuple[int, ...] | None = None
    static: int = 0
    known: tuple[int, ...] = ()
    pool: str = "last"
    baseline: str = ""
    ensemble: int = 1
    members: tuple[ModelSpec, ...] = ()

    def __post_init__(self) -> None:
        find_model(self.model)
        for name in ("input_size", "num_outputs", "hidden_size", "num_layers", "embedding_size", "ensemble"):
            # Plain ints: NumPy integers cannot be written as JSON.
            object.__setattr__(self, name, whole(name, getattr(self, name), at_least=1))
        if self.num_layers > LAYERS.value:
            raise ValueError(f"num_layers={self.num_layers:,} is more than {LAYERS.value:,}. {LAYERS.cure}")
        object.__setattr__(self, "static", whole("static", self.static, at_least=0))
        flag("per_step", self.per_step)
        flag("missing", self.missing)
        number("embedding_dropout", self.embedding_dropout, at_least=0, below=1)
        number("word_dropout", self.word_dropout, at_least=0, below=1)
        one_of("head_init", self.head_init, ("uniform", "normal"))
        one_of("pool", self.pool, POOLS)
        if self.per_step and self.pool != "last":
            raise ValueError(f"pool={self.pool!r} needs one target per series; here every step has one: omit pool.")
        self._check_start()
        for member in self.members:
            if member.members or any(getattr(member, name) != getattr(self, name) for name in _SHARED):
                raise ValueError("the members of an ensemble must have the same inputs and outputs.")
        if self.symbols is not None:
            whole("symbols", self.symbols, at_least=2)
            if self.input_size != 1:
                raise ValueError(f"symbols need a single channel; these data have {self.input_size}.")
        taken = {"outputs": "per_step", "missing": "missing"}
        for name in taken.keys() & self.settings.keys():
            raise ValueError(f"{name!r} cannot be set here: it follows from {taken[name]}.")

    def _check_start(self) -> None:
        if self.start is not None and self.symbols is not None:
            raise ValueError("symbols have no linear start: leave start out.")
        if self.relative is None:
            return
        channels = [whole("relative", channel, at_least=0) for channel in self.relative]
        if not channels or max(channels) >= self.input_size or self.num_outputs % len(channels) or self.per_step:
            sizes = f"{self.input_size} channels and {self.num_outputs} outputs per window"
            raise ValueError(f"relative={channels} does not fit {sizes}.")

    @classmethod
    def for_data(
        cls, data: Sequences, model: str = "mmrnn", hidden_size: int = 64, num_layers: int = 1, **settings: Any
    ) -> ModelSpec:
        """Returns the spec of a model that reads `data` and predicts its target.

        Args:
            data: Series with a target; all of training, validation and test if some of them have missing values.
            model: Name of a registered model.
            hidden_size: Units of each layer.
            num_layers: Number of stacked layers.
            settings: Any other field of ModelSpec; the rest is passed to the layer and the model. State-space models
                have `block="residual"` unless another one is given.

        Example:
            >>> from chronode.data import from_list
            >>> s = from_list([[1.0, 2.0], [3.0]], target=["a", "b"])
            >>> spec = ModelSpec.for_data(s, "gru", hidden_size=4)
            >>> spec.input_size, spec.num_outputs, spec.per_step, spec.missing
            (1, 2, False, False)
        """
        target = data.target
        if target is None:
            raise SettingError(
                f"these series have no target: pass {named('target', ...)} when reading them.", argument="target"
            )
        given = {name: settings.pop(name) for name in _names() & settings.keys() - {"settings"}}
        fields: dict[str, Any] = {
            "input_size": data.num_channels,
            "num_outputs": target.num_outputs,
            "per_step": target.per_step,
            "missing": data.has_missing,
            "static": data.num_static,
            "symbols": None if data.base_values.dtype.kind == "f" else count_symbols(data),
        }
        if given.get("relative") is not None:
            fields["known"] = known_channels(data)
        settings |= given.pop("settings", {})
        if not settings.keys() & {"block", "residual"}:
            settings = find_model(model).cell.for_data | settings
        return cls(model, hidden_size=hidden_size, num_layers=num_layers, **{**fields, **given}, settings=settings)

    def as_dict(self) -> dict[str, Any]:
        """Returns the spec as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> ModelSpec:
        """Returns the spec that `as_dict` described."""
        return parse(cls, description)


def _names() -> set[str]:
    return {field.name for field in fields(ModelSpec)}


def count_symbols(data: Sequences) -> int:
    """Returns the number of symbols: those named by the data, or else the largest one that occurs plus 1."""
    named = data.categories.get(data.channels[0], ())
    return max(len(named), int(data.base_values.max()) + 1, 2)


# ---- specs of untrusted files ------------------------------------------------------------------------------

_MAKERS = ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "eye", "arange", "linspace")
_makers = {getattr(torch, name) for name in _MAKERS}


class Budget(TorchFunctionMode):
    """Context in which torch's functions may create at most `limit` numbers.

    Example:
        >>> with Budget(1000):
        ...     layer = torch.nn.Linear(8, 8)
        >>> with Budget(1000):
        ...     layer = torch.nn.Linear(10**6, 10**6)
        Traceback (most recent call last):
        ValueError: this would create more than 1,000 numbers.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = self.left = limit

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Counts the numbers of a call before they are created."""
        kwargs = kwargs or {}
        if func in _makers:
            self.left -= _count(func, args, kwargs)
            if self.left < 0:
                raise ValueError(f"this would create more than {self.limit:,} numbers.")
        return func(*args, **kwargs)


def _count(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Returns how many numbers a call creates."""
    if func is torch.eye:
        return int(args[0]) * int(args[-1])
    if func in (torch.arange, torch.linspace, torch.randperm):
        return int(max([1, *(abs(float(value)) for value in args if isinstance(value, (int, float)))]))
    size = kwargs.get("size") or next((arg for arg in args if isinstance(arg, (tuple, list, torch.Size))), None)
    return math.prod(map(int, args if size is None else size))
