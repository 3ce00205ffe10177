"""The Cell contract: one pure step of a recurrent network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .._checks import whole
from ..kernels import Kernel
from ..kernels._backend import constant_to_compilers
from . import _changes as changes

State = tuple[Tensor, ...]
"""The state of a cell: tensors of shape `(B, size)`."""
Step = Callable[[Tensor, State, Tensor], tuple[Tensor, State]]


class Cell(nn.Module):
    """One step `(x, state, dt) -> (y, state)`; everything over time is the driver's and the layer's job.

    A cell is pure: it reads its parameters and arguments, writes to neither, keeps nothing between
    calls and never branches on the values of tensors. Rows of a batch do not see each other.

    Set `state_parts` or write `initial_state` if the state is more than one zero vector, write `project` if part
    of the step depends on the input alone, and `forward`; or, in its place, `prepare` if part of it depends on
    the parameters alone.

    Attributes:
        input_size: features D of `x`.
        hidden_size: units H.
        output_size: features of `y`; `hidden_size` unless the cell sets another after `__init__`.
        state_parts: vectors of `hidden_size` in the state, all 0 at the start, unless `initial_state` says otherwise.
        sequence_kernel: what runs this class over a whole sequence at once, if there is such a kernel; it is used
            where `why_no_kernel` has nothing against it. A class that sets it also writes `kernel_reads`.
        per_layer: names of settings for which a stack takes a list, one value a layer.
        encoder: makes the cell that prepares D inputs with missing values, if it is not the usual one.
        for_reader: of an encoder: settings for the cell that reads its output.
        older_settings: values that hold for weights saved before the settings of these names existed, where they are
            not the defaults.
    """

    state_parts: ClassVar[int] = 1
    sequence_kernel: ClassVar[Kernel | None] = None
    written: ClassVar[Mapping[type, changes.Methods]] = {}  # the class that sequence_kernel is for, and its parts
    per_layer: ClassVar[tuple[str, ...]] = ()
    encoder: ClassVar[Callable[[int], Cell] | None] = None
    for_reader: ClassVar[dict[str, Any]] = {}
    older_settings: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        kernel = vars(cls).get("sequence_kernel")
        if kernel is not None:
            cls.written = {part: changes.Methods(part) for part in (cls, *kernel.parts)}

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self._constants: dict[str, float | list[list[float]]] = {}
        self.input_size = whole("input_size", input_size, at_least=1)
        self.hidden_size = whole("hidden_size", hidden_size, at_least=1)
        self.output_size = self.hidden_size

    def initial_state(self, batch: int, like: Tensor) -> State:
        """The state before the first step: a tuple of `(batch, size)` tensors with `like`'s dtype and device."""
        return (like.new_zeros(batch, self.hidden_size),) * self.state_parts

    def project(self, x: Tensor) -> Tensor:
        """What depends on the input alone: `x (..., D)`, often a whole sequence at once; becomes `forward`'s `x`."""
        return x

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step.

        Args:
            x: `(B, D)` input, or what `project` made of it.
            state: as from `initial_state` or the previous step.
            dt: `(B, 1)` time since the previous observation of the same sequence, never negative.

        Returns:
            `y (B, output_size)` and the new state.
        """
        if type(self).prepare is Cell.prepare:
            raise NotImplementedError(f"{type(self).__name__} must define forward(x, state, dt)")
        return self.prepare()(x, state, dt)

    def prepare(self) -> Step:
        """The step as a function, with what depends on the parameters alone computed: once for a whole sequence."""
        return self

    def project_sequence(self, x: Tensor, valid: Tensor | None) -> Tensor | None:
        """`project` of a whole sequence at once, for a projection in which steps see each other.

        Args:
            x: `(T, B, D)`.
            valid: `(T, B, 1)`, false at padding; None where nothing is padded.

        Returns:
            What `project` would give, made once for each call of a layer; None where `project` treats each step
            on its own, so that it may be called for pieces of a sequence.
        """
        return None

    # ---- constants --------------------------------------------------------------------------------------

    def constant(self, name: str, value: float | list[list[float]]) -> Tensor:
        """For the buffer `name`: the value, exact in any precision: `cell.double()` has 0.1, not 0.10000000149."""
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
        """Whether the tensor holds the constant to the precision that it has."""
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
        """The kernel that runs exactly this cell over a whole sequence at once, if there is one."""
        return self.sequence_kernel if self.why_no_kernel() is None else None

    def why_no_kernel(self) -> str | None:
        """Why no kernel runs exactly this cell, in words; None if one does."""
        return _why_no_kernel(self)

    def kernel_reads(self) -> Any:
        """All that the kernel reads of this cell: the typed tuple of its module, with weights as they are now."""
        raise NotImplementedError(f"{type(self).__name__} sets sequence_kernel, so it must define kernel_reads()")

    def setting(self, name: str) -> Any:
        """The value of a setting; a cell that keeps a part made from it under that name keeps it as `<name>_name`."""
        return getattr(self, f"{name}_name", None) or getattr(self, name)


@constant_to_compilers
def _why_no_kernel(cell: Cell) -> str | None:
    kernel, name = cell.sequence_kernel, type(cell).__name__
    if kernel is None:
        return f"{name} has no kernel"
    for setting, values in kernel.settings.items():
        if cell.setting(setting) not in values:
            return f"{name} has no kernel for {setting}={cell.setting(setting)!r} (only for {kernel.words()})"
    return changes.why_changed(cell, cell.written)


def counter(like: Tensor, batch: int, features: int = 1, value: float = 0.0) -> Tensor:
    """A part of a state `(batch, features)` that is added up over time, in at least float32.

    In bfloat16 256 + 1 is 256: clocks and counters would stop there.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.full((batch, features), value, dtype=dtype, device=like.device)
