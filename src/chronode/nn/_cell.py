"""The base class of cells: one pure step of a recurrent network."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..compiler import Methods, methods_of, why_changed
from ..kernels import Kernel, constant_to_compilers
from ..settings import SettingTypeError, near, whole

State = tuple[Tensor, ...]
"""The state of a cell: tensors of shape `(B, size)`."""
Step = Callable[[Tensor, State, Tensor], tuple[Tensor, State]]
"""One step of a cell with prepared weights: `(x, state, dt) -> (y, state)`."""


class Cell(nn.Module):
    """Base class of one step `(x, state, dt) -> (y, state)`; the driver and the layer handle everything over time.

    A cell is pure: it reads its parameters and arguments, modifies neither, keeps nothing between calls and never
    branches on the values of tensors. The rows of a batch are independent.

    Subclasses define `forward`, or `prepare` instead if part of the step depends on the parameters alone. They set
    `state_parts` or override `initial_state` if the state is not a single zero vector, and override `project` if part
    of the step depends on the input alone.

    Attributes:
        input_size: Number of features D of `x`.
        hidden_size: Number of units H.
        output_size: Number of features of `y`; `hidden_size` unless the cell sets it after `__init__`.
        state_parts: Number of vectors of `hidden_size` in the state, all initially 0, unless `initial_state` is
            overridden.
        sequence_kernel: The kernel that runs this class over a whole sequence, if there is one; it is used where
            `why_no_kernel` returns None. A class that sets it must also define `kernel_reads`.
        per_layer: Names of settings for which a stack accepts a list with one value per layer.
        encoder: Makes the cell that prepares D inputs with missing values, if it is not the default one.
        for_reader: Settings that an encoder gives to the cell that reads its output.
        for_data: Settings of layers of this cell in a model for data (`ModelSpec.for_data`), unless others are given.
    """

    state_parts: ClassVar[int] = 1
    sequence_kernel: ClassVar[Kernel | None] = None
    written: ClassVar[Mapping[type, Methods]] = {}  # the class for which sequence_kernel was written, and its parts
    per_layer: ClassVar[tuple[str, ...]] = ()
    encoder: ClassVar[Callable[[int], Cell] | None] = None
    for_reader: ClassVar[dict[str, Any]] = {}
    for_data: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        kernel = vars(cls).get("sequence_kernel")
        if kernel is not None:
            cls.written = {part: methods_of(part) for part in (cls, *kernel.parts)}

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self._constants: dict[str, float | list[list[float]]] = {}
        self.input_size = whole("input_size", input_size, at_least=1)
        self.hidden_size = whole("hidden_size", hidden_size, at_least=1)
        self.output_size = self.hidden_size

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns the state before the first step: a tuple of `(batch, size)` tensors with the dtype and device of
        `like`.
        """
        return (like.new_zeros(batch, self.hidden_size),) * self.state_parts

    def project(self, x: Tensor) -> Tensor:
        """Computes what depends on the input alone: `x (..., D)`, often a whole sequence; becomes the `x` of
        `forward`.
        """
        return x

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step.

        Args:
            x: `(B, D)` input, or the result of `project`.
            state: State from `initial_state` or from the previous step.
            dt: `(B, 1)` time since the previous observation of the same sequence, never negative.

        Returns:
            `y (B, output_size)` and the new state.
        """
        if type(self).prepare is Cell.prepare:
            raise NotImplementedError(f"{type(self).__name__} must define forward(x, state, dt)")
        return self.prepare()(x, state, dt)

    def prepare(self) -> Step:
        """Returns the step as a function in which everything that depends on the parameters alone is computed once."""
        return self

    def project_sequence(self, x: Tensor, valid: Tensor | None) -> Tensor | None:
        """Applies `project` to a whole sequence, for projections in which a step depends on other steps.

        Args:
            x: `(T, B, D)`.
            valid: `(T, B, 1)`, False at padding; None if nothing is padded.

        Returns:
            The result of `project`, computed once per call of a layer; None if `project` treats each step on its
            own, so that it may be called for pieces of a sequence.
        """
        return None

    # ---- constants --------------------------------------------------------------------------------------

    def constant(self, name: str, value: float | list[list[float]]) -> Tensor:
        """Returns the value for the buffer `name`, exact in any precision: after `cell.double()` it is 0.1, not
        0.10000000149.
        """
        self._constants[name] = value
        return torch.tensor(value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Cell:
        unchanged = self._unchanged_constants()
        super()._apply(fn, recurse)
        self._restore(unchanged)
        return self

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        names = [name for name in self._constants if isinstance(state_dict.get(prefix + name), Tensor)]
        self._restore([name for name in names if self._is_constant(name, state_dict[prefix + name])])

    def _unchanged_constants(self) -> list[str]:
        return [name for name in self._constants if self._is_constant(name, self._buffers[name])]

    def _is_constant(self, name: str, tensor: Tensor | None) -> bool:
        """Returns whether the tensor holds the constant, up to its precision."""
        if tensor is None or tensor.is_meta or not tensor.is_floating_point():
            return False
        return torch.equal(tensor, torch.tensor(self._constants[name], dtype=tensor.dtype, device=tensor.device))

    def _restore(self, names: Sequence[str]) -> None:
        for name in names:
            buffer = self._buffers[name]
            if buffer is not None and buffer.is_floating_point():
                buffer.copy_(torch.tensor(self._constants[name], dtype=buffer.dtype))

    # ---- the kernel -------------------------------------------------------------------------------------

    def kernel(self) -> Kernel | None:
        """Returns the kernel that runs exactly this cell over a whole sequence, if there is one."""
        return self.sequence_kernel if self.why_no_kernel() is None else None

    def why_no_kernel(self) -> str | None:
        """Explains why no kernel runs exactly this cell; None if there is one."""
        return _why_no_kernel(self)

    def kernel_reads(self) -> Any:
        """Returns everything that the kernel reads from this cell, with the current weights, as a typed tuple."""
        raise NotImplementedError(f"{type(self).__name__} sets sequence_kernel, so it must define kernel_reads()")

    def setting(self, name: str) -> Any:
        """Returns the value of a setting; a cell that stores an object under that name keeps the value in
        `<name>_name`.
        """
        return getattr(self, f"{name}_name", None) or getattr(self, name)


class InputMapCell(Cell):
    """Base class of cells that see the input through one linear map, `inputs`: `forward` gets W x + b as its x."""

    inputs: nn.Linear

    def project(self, x: Tensor) -> Tensor:
        """Returns the result of the map."""
        return self.inputs(x)


@constant_to_compilers
def _why_no_kernel(cell: Cell) -> str | None:
    kernel, name = cell.sequence_kernel, type(cell).__name__
    if kernel is None:
        return f"{name} has no kernel"
    for setting, values in kernel.settings.items():
        if cell.setting(setting) not in values:
            return f"{name} has no kernel for {setting}={cell.setting(setting)!r} (only for {kernel.words()})"
    return why_changed(cell, cell.written)


def counter(like: Tensor, batch: int, features: int = 1, value: float = 0.0) -> Tensor:
    """Returns a part of a state, `(batch, features)`, that accumulates over time, in at least float32.

    In bfloat16, 256 + 1 is 256: clocks and counters would stop there.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.full((batch, features), value, dtype=dtype, device=like.device)


class ForwardFill(Cell):
    """Carries the last observed value forward and adds the mask and the time since that observation.

        filled = x where observed, else the last observed x (0 before the first)
        since  = 0 where observed, else since + dt
        y      = (filled, observed, since)

    Its input is `(x, observed)`, `2 D` features; its output has `3 D`. State: (filled, since).
    """

    def __init__(self, features: int):
        super().__init__(2 * features, features)
        self.output_size = 3 * features

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a state without observations."""
        return like.new_zeros(batch, self.hidden_size), counter(like, batch, self.hidden_size)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        value, observed = x.chunk(2, dim=-1)
        filled, since = state
        is_observed = observed > 0
        filled = torch.where(is_observed, value, filled)
        since = torch.where(is_observed, torch.zeros_like(since), since + dt)
        return torch.cat([filled, observed, since.to(x.dtype)], dim=-1), (filled, since)


LAYER_SETTINGS = (
    *("num_layers", "dropout", "bidirectional", "batch_first", "residual", "block", "block_norm", "missing"),
    *("outputs", "memory", "return_state", "max_gap"),
)
"""The settings of every layer, independent of its cell."""


def cell_settings(
    cell_class: type[Cell], settings: dict[str, Any], index: int, num_layers: int, *, defaults: bool = False
) -> dict[str, Any]:
    """Returns the settings of the cell of layer `index`; rejects unknown names and lists of the wrong length."""
    parameters = {
        name: parameter.default
        for name, parameter in inspect.signature(cell_class).parameters.items()
        if name not in ("input_size", "hidden_size")
    }
    chosen = dict(parameters) if defaults else {}
    for name, value in settings.items():
        if name not in parameters:
            raise SettingTypeError(
                f"{cell_class.__name__} has no setting {name!r}; it has {', '.join(parameters) or 'none'}."
                + near(name, [*parameters, *LAYER_SETTINGS]),
                argument=name,
            )
        if name in cell_class.per_layer and isinstance(value, (list, tuple)):
            if len(value) != num_layers:
                raise ValueError(f"{name} has {len(value)} values for num_layers={num_layers}; pass one per layer.")
            value = value[index]
        chosen[name] = value
    return chosen


def as_bytes(settings: dict[str, Any]) -> Tensor:
    """Returns settings as JSON in a tensor of bytes."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def differing(cell_class: type[Cell], own: Tensor, saved: Tensor) -> dict[str, Any]:
    """Returns the saved settings that are not those of the layer; both are results of `as_bytes`.

    A setting that the cell did not have when the weights were saved counts as its default.
    """
    here, there = (json.loads(bytes(settings.tolist()).decode()) for settings in (own, saved))
    defaults = cell_settings(cell_class, {}, 0, 1, defaults=True)
    there = {name: defaults.get(name) for name in here} | there
    return {name: there[name] for name in sorted(there) if there[name] != here.get(name)}
