"""The Cell contract: one pure step of a recurrent network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from .._checks import whole
from ..kernels import Kernel

State = tuple[Tensor, ...]
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
        kernel_for: in words, the settings for which `kernel` gives a native kernel ("" if for none).
        per_layer: names of settings for which a stack takes a list, one value a layer.
        encoder: makes the cell that prepares D inputs with missing values, if it is not the usual one.
        for_reader: of an encoder: settings for the cell that reads its output.
        older_settings: values that hold for weights saved before the settings of these names existed, where they are
            not the defaults.
    """

    state_parts: ClassVar[int] = 1
    kernel_for: ClassVar[str] = ""
    per_layer: ClassVar[tuple[str, ...]] = ()
    encoder: ClassVar[Callable[[int], Cell] | None] = None
    for_reader: ClassVar[dict[str, Any]] = {}
    older_settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
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

    def kernel(self) -> Kernel | None:
        """The kernel that runs these settings over a whole sequence at once, if there is one."""
        return None


def overrides(cell: Cell, base: type[Cell]) -> bool:
    """Whether the cell's class changes a method of `base`: a kernel written for `base` is then not for it."""
    own = {name: method for name, method in vars(base).items() if callable(method) and not name.startswith("__")}
    return any(getattr(type(cell), name) is not method for name, method in own.items())
