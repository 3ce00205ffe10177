"""Layer: a stack of cells over time, called like torch.nn.LSTM."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .. import kernels
from ..compiler import remake_weights
from ..kernels import weight_of
from ..settings import SettingError, flag, number, one_of, whole
from . import driver
from ._block import BLOCK_NORMS, BLOCKS, ResidualBlock
from ._cell import LAYER_SETTINGS, Cell, ForwardFill, State, as_bytes, cell_settings, differing
from ._inputs import Call, LayerInput, check_inputs, check_state, warn_of_divergence
from ._step_cache import StepCache
from ._stepper import Stepper, enter_step
from ._torch import has_no_sequences, run_packed, without_sequences


class Layer(nn.Module):
    """Stack of recurrent cells over time.

    Args:
        cell_class: The Cell to run.
        input_size: Number of input features D.
        hidden_size: Number of units H of each cell, or a list with one number per layer.
        num_layers: Number of stacked layers, unless `hidden_size` is a list.
        dropout: Variational dropout after every layer: one mask per sequence, shared over time.
        bidirectional: Whether a second stack reads each sequence backwards; the outputs are concatenated.
        batch_first: Whether x is `(B, T, D)` (True) or `(T, B, D)` (False).
        residual: S >= 1: layer l > S also receives the output of layer l - S - 1, where layer 0 is the input, so
            its input matrix is (V, Λ) in `V y[l-1] + Λ y[l-S-1]`. 0: no skip connections.
        block: "residual" puts a block around each cell, in which state-space models are usually trained; the input is
            first mapped to `hidden_size` features, and so many features come out:
            v = cell(norm(x));   v = dropout(gelu(v));   y = x + dropout((W₁ v + b₁) ⊙ σ(W₂ v + b₂)).
        block_norm: Normalization in the blocks: "batch" (over batch and valid steps, by running statistics in
            evaluation and for single steps) or "layer" (over features).
        missing: Whether values of x may be missing; then pass `observed` with x.
        outputs: "all" returns y of every step, "last" only that of the last valid step of each sequence.
        memory: "fast" keeps what the backward pass needs, "low" recomputes it, "auto" chooses.
        return_state: Whether a call returns (y, state), or y alone, for `torch.nn.Sequential`.
        max_gap: Upper limit for gaps: longer gaps are replaced by it. None means no limit. A `RuntimeWarning` names
            the longest gap if the outputs diverge.
        settings: Settings of the cell; those named in `cell_class.per_layer` may be lists with one value per layer.

    Example:
        >>> import torch, chronode
        >>> layer = chronode.create("mmrnn", input_size=3, hidden_size=8)
        >>> x, dt = torch.randn(2, 5, 3), torch.rand(2, 5)
        >>> y, state = layer(x, dt=dt, lengths=torch.tensor([5, 3]))
        >>> y.shape, [tuple(s.shape) for s in state]
        (torch.Size([2, 5, 8]), [(1, 2, 8), (1, 2, 8)])
    """

    def __init__(
        self,
        cell_class: type[Cell],
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        bidirectional: bool = False,
        batch_first: bool = True,
        residual: int = 0,
        block: str | None = None,
        block_norm: str = "batch",
        missing: bool = False,
        outputs: str = "all",
        memory: str = "auto",
        return_state: bool = True,
        max_gap: float | None = None,
        **settings: Any,
    ):
        super().__init__()
        self.cell_class = cell_class
        self.input_size = whole("input_size", input_size, at_least=1)
        self.hidden_sizes = _hidden_sizes(hidden_size, num_layers)
        self.hidden_size = self.hidden_sizes[-1]
        self.num_layers = len(self.hidden_sizes)
        self.dropout = number("dropout", dropout, at_least=0, below=1)
        self.bidirectional = flag("bidirectional", bidirectional)
        self.batch_first = flag("batch_first", batch_first)
        self.residual = whole("residual", residual, at_least=0)
        if self.residual and self.residual >= self.num_layers:
            raise ValueError(
                f"residual={residual} has no effect in a stack of num_layers={num_layers}: use a smaller value."
            )
        self.block = None if block is None else one_of("block", block, BLOCKS)
        self.block_norm = one_of("block_norm", block_norm, BLOCK_NORMS)
        if self.block and len(set(self.hidden_sizes)) > 1:
            raise SettingError(
                f"layers of different sizes {self.hidden_sizes} have no residual blocks",
                argument="hidden_size",
                cure="use one number, or leave out block",
            )
        if self.block and self.residual:
            raise SettingError(
                f"residual={residual} and block={block!r} are two kinds of skip connections",
                argument="residual",
                cure="choose one of them",
            )
        self.missing = flag("missing", missing)
        self.outputs = one_of("outputs", outputs, ("all", "last"))
        self.memory = one_of("memory", memory, ("auto", "fast", "low"))
        self.return_state = flag("return_state", return_state)
        self.max_gap = None if max_gap is None else number("max_gap", max_gap, above=0)
        self.settings = settings
        self._steps = StepCache()
        self._build()

    def _build(self) -> None:
        directions = 2 if self.bidirectional else 1
        sizes = [self.input_size]  # output features of the input (0) and of each layer
        encoder_class = self.cell_class.encoder or ForwardFill
        encoders = [encoder_class(self.input_size) for _ in range(directions if self.missing else 0)]
        if encoders:
            sizes = [encoders[0].output_size]
        cells: list[Cell] = []
        for index in range(self.num_layers):
            features = sizes[index] + (sizes[index - self.residual] if self._skips(index) else 0)
            settings = cell_settings(self.cell_class, self.settings, index, self.num_layers)
            if encoders and index == 0 and not self.block:
                settings |= encoders[0].for_reader
            for _ in range(directions):
                cells.append(
                    self.cell_class(self.hidden_size if self.block else features, self.hidden_sizes[index], **settings)
                )
            sizes.append(directions * cells[-1].output_size)
        self.encoders, self.cells = nn.ModuleList(encoders), nn.ModuleList(cells)
        self.output_size: int = sizes[-1]
        if self.block:
            self.output_size = self.hidden_size
            self.entry = nn.Linear(max(len(encoders), 1) * sizes[0], self.hidden_size)
            blocks = [ResidualBlock(self.hidden_size, outputs, self.block_norm) for outputs in sizes[1:]]
            self.blocks = nn.ModuleList(blocks)

    def _skips(self, index: int) -> bool:
        # `index` counts from 0, the paper's l from 1: l > S.
        return self.residual > 0 and index >= self.residual

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: State | None = None,
        *,
        dt: Tensor | float | None = None,
        t: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        observed: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Runs the stack over a batch of sequences.

        Args:
            x: `(B, T, D)`, or `(T, D)` for one sequence; `(T, B, D)` if not `batch_first`. A `PackedSequence` is
                returned as one, with `dt`, `t` and `observed` packed or padded; a batch without sequences gives
                empty outputs.
            state: State returned by an earlier call, to continue from.
            dt: Time since the previous observation of the same sequence: `(B, T)`, `(B, T, 1)` or a number; 1
                if neither `dt` nor `t` is given.
            t: Absolute times instead of `dt`; the first step then has `dt = 0`.
            lengths: `(B,)` valid steps of each sequence.
            observed: True where a value of x was observed; requires `missing=True`.

        Returns:
            y: `(B, T, output_size)`, 0 at padding, or `(B, output_size)` with `outputs="last"` (for each direction
            the output after its last step); and the state after the last valid step of each sequence, a tuple of
            `(num_layers * directions, B, size)` tensors (with `missing`, those of the encoders come first; where cells
            differ in size, smaller states are padded with zeros). With `return_state=False`, y alone.
        """
        times = {"dt": dt, "t": t, "lengths": lengths, "observed": observed}
        if isinstance(x, PackedSequence):
            y, end = run_packed(self, self._over_time, x, state, **times)
        elif has_no_sequences(self, x):
            y, end = without_sequences(self, x)
        else:
            y, end = self._over_time(x, state, **times)
        return cast(Any, (y, end) if self.return_state else y)

    def _over_time(
        self,
        x: Tensor,
        state: State | None,
        dt: Tensor | float | None,
        t: Tensor | None,
        lengths: Tensor | Sequence[int] | None,
        observed: Tensor | None,
    ) -> tuple[Tensor, State]:
        unbatched = isinstance(x, Tensor) and x.dim() == 2
        batch = check_inputs(self.call(), x, dt, t, lengths, observed, state is not None)
        y, states = self._run(batch, self.unpack(state, batch.x, unbatched))
        if unbatched:
            return y.squeeze(0 if self.outputs == "last" else 1), self.pack(states, unbatched)
        if self.outputs == "all" and self.batch_first:
            y = y.transpose(0, 1)
        return y, self.pack(states, unbatched)

    def _run(self, batch: LayerInput, states: list[State]) -> tuple[Tensor, list[State]]:
        y, states = self._run_stack(batch, states)
        warn_of_divergence(self.cell_class.__name__, y, states, batch)
        return y, states

    def step(
        self,
        x: Tensor,
        state: State | None = None,
        dt: Tensor | float = 1.0,
        *,
        observed: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Performs one step on live data, `x (B, D)` or `(D,)`, `dt (B,)`, `(B, 1)` or a number; same results as
        `forward`.

        In training, variational dropout draws a new mask at every call.
        """
        if observed is None and (done := self._steps.step(self, x, state, dt)) is not None:
            return done
        batch = enter_step(self, x, dt, observed, has_state=state is not None)
        unbatched = x.dim() == 1
        y, states = self._run(batch, self.unpack(state, batch.x, unbatched))
        if self.outputs == "all":
            y = y.squeeze(0)
        return (y.squeeze(0) if unbatched else y), self.pack(states, unbatched)

    def unroll(
        self,
        x: Tensor,
        steps: int,
        feedback: Callable[[Tensor], Tensor],
        state: State | None = None,
        dt: Tensor | float = 1.0,
    ) -> tuple[Tensor, State]:
        """Decodes freely: each input is computed from the output before it.

        Args:
            x: First input, `(B, D)` or `(D,)`.
            steps: Number of steps.
            feedback: Computes the next input from y, such as a head.
            state: State to continue from, for example after a known beginning.
            dt: Gap of every step.

        Returns:
            The outputs, `(B, steps, output_size)` in the layout of `forward`, and the state after the last step.

        Example:
            >>> import torch, chronode
            >>> layer, head = chronode.create("gru", 3, 8), torch.nn.Linear(8, 3)
            >>> _, state = layer(torch.randn(2, 5, 3))
            >>> layer.unroll(torch.zeros(2, 3), 4, head, state)[0].shape
            torch.Size([2, 4, 8])
        """
        outputs: list[Tensor] = []
        for _ in range(whole("steps", steps, at_least=1)):
            y, state = self.step(feedback(outputs[-1]) if outputs else x, state, dt)
            outputs.append(y)
        return torch.stack(outputs, dim=1 if self.batch_first and x.dim() == 2 else 0), cast(State, state)

    def stepper(self, batch: int | None = None) -> Stepper:
        """Returns a `Stepper` for live data at full speed: it keeps the state and the prepared weights.

        Args:
            batch: Number of sequences processed together; None for a single one without a batch axis.

        Example:
            >>> import torch, chronode
            >>> stepper = chronode.create("ltc", 3, 8).eval().stepper(batch=2)
            >>> stepper(torch.randn(2, 3), 0.5).shape
            torch.Size([2, 8])
        """
        return Stepper(self, batch)

    def initial_state(self, batch: int) -> State:
        """Returns the state before the first step, in the form that `forward` takes."""
        like = self.like()
        cells = [cell.initial_state(batch, like) for cell in self.all_cells()]
        return self.pack(cells, unbatched=False)

    # ---- the stack ------------------------------------------------------------------------------------

    def _run_stack(self, batch: LayerInput, states: list[State]) -> tuple[Tensor, list[State]]:
        directions = 2 if self.bidirectional else 1
        masks = self._dropout_masks(batch.x)
        plan = driver.Plan(batch.lengths, memory=self.memory)
        below, after = self._encode(batch, states, plan)
        states = states[len(self.encoders) :]
        alone = self.bidirectional or self.block
        kernel = None if alone else kernels.find_stack(list(self.cells), below[0])

        def cell_by_cell() -> tuple[Tensor, list[State]]:
            ends: list[State] = []

            def advance(index: int, x: Tensor) -> Tensor:
                last = self.outputs == "last" and index >= len(self.cells) - directions
                cell_plan = plan._replace(reverse=index % directions == 1, last=last)
                y, end = driver.run(cast(Cell, self.cells[index]), x, states[index], batch.dt, cell_plan)
                ends.append(end)
                return y

            return self.through(below, advance, masks, plan), ends

        if kernel is None or kernel.stack is None:
            y, ends = cell_by_cell()
            return y, after + ends
        remake_weights(self.cells)
        reads = [cast(Cell, cell).kernel_reads() for cell in self.cells]
        cell_plan = plan._replace(last=self.outputs == "last")
        y, ends = kernel.stack(reads, below[0], states, batch.dt, masks, self.residual, cell_plan)
        given = [below[0], batch.dt, *(part for state in states for part in state)]
        y, ends = driver.with_second_derivatives(list(self.cells), y, ends, given, cell_by_cell)
        return y, after + ends

    def through(
        self,
        inputs: list[Tensor],
        advance: Callable[[int, Tensor], Tensor],
        masks: list[Tensor] | None = None,
        plan: driver.Plan | None = None,
    ) -> Tensor:
        """Runs the stack from the bottom to the top, with its residuals; returns the output of the last layer.

        Args:
            inputs: Input of the first cell of each direction.
            advance: `(index of a cell, its input) -> its output`, for one step or for all.
            masks: Factor for the outputs of each layer; with blocks, two for each of them.
            plan: Lengths of whole sequences; None for single steps.
        """
        if self.block:
            return self._through_blocks(inputs, advance, masks, plan or driver.Plan())
        levels = [inputs]  # for each level, the input of each direction
        for index in range(self.num_layers):
            below = levels[index]
            if self._skips(index):
                below = [torch.cat(pair, dim=-1) for pair in zip(below, levels[index - self.residual], strict=True)]
            outputs = [advance(index * len(inputs) + direction, x) for direction, x in enumerate(below)]
            y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            levels.append([y if masks is None else y * masks[index]] * len(inputs))
        return levels[-1][0]

    def _through_blocks(
        self,
        inputs: list[Tensor],
        advance: Callable[[int, Tensor], Tensor],
        masks: list[Tensor] | None,
        plan: driver.Plan,
    ) -> Tensor:
        x = self.entry(torch.cat(inputs, dim=-1) if len(self.encoders) > 1 else inputs[0])
        valid = plan.valid(x)
        for index, block in enumerate(cast(list[ResidualBlock], list(self.blocks))):
            below = block.normalized(x, valid)
            outputs = [advance(index * len(inputs) + direction, below) for direction in range(len(inputs))]
            v = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            if v.dim() < x.dim():  # only those after the last steps
                x, valid = driver.last_step(x, plan.lengths), None
            x = block(x, v, None if masks is None else (masks[2 * index], masks[2 * index + 1]))
        return x if valid is None else torch.where(valid, x, torch.zeros_like(x))

    def _encode(self, batch: LayerInput, states: list[State], plan: driver.Plan) -> tuple[list[Tensor], list[State]]:
        """Returns the input of the first cell of each direction, and the states of the encoders."""
        if not self.encoders:
            return [batch.x] * (2 if self.bidirectional else 1), []
        runs = [
            driver.run(cast(Cell, encoder), batch.x, states[i], batch.dt, plan._replace(reverse=i == 1))
            for i, encoder in enumerate(self.encoders)
        ]
        return [y for y, _ in runs], [state for _, state in runs]

    def _dropout_masks(self, x: Tensor) -> list[Tensor] | None:
        if not self.training or self.dropout == 0:
            return None
        directions = 2 if self.bidirectional else 1
        sizes = [directions * cell.output_size for cell in cast(list[Cell], list(self.cells))[::directions]]
        if self.block:
            sizes = [size for outputs in sizes for size in (outputs, self.hidden_size)]
        return [nn.functional.dropout(x.new_ones(x.shape[1], size), self.dropout) for size in sizes]

    # ---- state in and out ------------------------------------------------------------------------------

    def all_cells(self) -> list[Cell]:
        """Returns the encoders, then the cells of all layers."""
        return cast(list[Cell], [*self.encoders, *self.cells])

    def pack(self, states: list[State], unbatched: bool) -> State:
        """Stacks the states: one tensor per component, as wide as the widest; first the encoders, then the cells."""
        groups = [states[: len(self.encoders)], states[len(self.encoders) :]]
        packed = [_stack(parts) for group in groups if group for parts in zip(*group, strict=True)]
        return tuple(part.squeeze(1) for part in packed) if unbatched else tuple(packed)

    def unpack(self, state: State | None, x: Tensor, unbatched: bool) -> list[State]:
        """Checks a state passed by the user and splits it by cell; returns the initial state for None."""
        fresh = [cell.initial_state(x.shape[1], x) for cell in self.all_cells()]
        if state is None:
            return fresh
        name = type(self).__name__ if type(self) is not Layer else self.cell_class.__name__
        check_state(state, self.pack(fresh, unbatched), x.device, name)
        parts = [part.unsqueeze(1) for part in state] if unbatched else list(state)
        count = len(fresh[0]) if self.encoders else 0
        states = [*zip(*(part.unbind(0) for part in parts[:count]), strict=True)]
        states += zip(*(part.unbind(0) for part in parts[count:]), strict=True)
        return [
            tuple(part[:, : initial.shape[1]] for part, initial in zip(state, initials, strict=True))
            for state, initials in zip(states, fresh, strict=True)
        ]

    # ---- what is saved ----------------------------------------------------------------------------------

    def get_extra_state(self) -> Tensor:
        """Returns the settings as JSON bytes, so that a state_dict is not loaded into a different model unnoticed."""
        return as_bytes(self._facts())

    def set_extra_state(self, state: Tensor) -> None:
        """Rejects the weights of a layer with other settings (buffers such as Δt are loaded, not compared)."""
        saved = self.other_settings(state)
        if saved:
            settings = self._facts()
            there = ", ".join(f"{name}={value!r}" for name, value in saved.items())
            here = ", ".join(f"{name}={settings.get(name)!r}" for name in saved)
            raise ValueError(
                f"these weights belong to a layer with other settings: they were saved with {there}, but this layer "
                f"has {here}. Build the layer with the settings they were saved with."
            )

    def other_settings(self, state: Tensor) -> dict[str, Any]:
        """Returns the settings in which saved weights differ from this layer (`state`: their `get_extra_state`)."""
        return differing(self.cell_class, self.get_extra_state(), state)

    def _facts(self) -> dict[str, Any]:
        """Returns the settings that determine the meaning of the weights and are not part of the state_dict."""
        facts = {"cell": self.cell_class.__name__, "num_layers": self.num_layers, "residual": self.residual}
        facts |= {"max_gap": self.max_gap} | (
            {"block": self.block, "block_norm": self.block_norm} if self.block else {}
        )
        buffers = {name for name, _ in self.cells[0].named_buffers()}
        described = cell_settings(self.cell_class, self.settings, 0, self.num_layers, defaults=True)
        return facts | {key: value for key, value in described.items() if key not in buffers}

    def call(self) -> Call:
        """Returns the properties of this layer that the argument checks need."""
        weight = weight_of(self)
        dtype = None if weight is None else weight.dtype
        return Call(self.input_size, self.batch_first, dtype, self.missing, max_gap=self.max_gap)

    def like(self) -> Tensor:
        """Returns a tensor with the dtype and device of the weights, torch's default ones if there are none."""
        weight = weight_of(self)
        return torch.empty(0) if weight is None else weight

    def extra_repr(self) -> str:
        """Returns the sizes and every setting that differs from its default."""
        differ = len(set(self.hidden_sizes)) > 1
        sizes = f"{self.input_size}, {self.hidden_sizes if differ else self.hidden_size}"
        cell = [self.cell_class.__name__] if type(self) is Layer else []
        defaults = inspect.signature(Layer).parameters
        layer = {name: getattr(self, name) for name in LAYER_SETTINGS if getattr(self, name) != defaults[name].default}
        usual = cell_settings(self.cell_class, {}, 0, 1, defaults=True)
        changed = {name: value for name, value in self.settings.items() if value != usual[name]}
        return ", ".join([*cell, sizes, *(f"{name}={value!r}" for name, value in {**layer, **changed}.items())])


def _hidden_sizes(hidden_size: int | Sequence[int], num_layers: int) -> list[int]:
    """Returns the number of units of each layer."""
    count = whole("num_layers", num_layers, at_least=1)
    if not isinstance(hidden_size, (list, tuple)):
        return [whole("hidden_size", cast(int, hidden_size), at_least=1)] * count
    if not hidden_size or count not in (1, len(hidden_size)):
        raise SettingError(
            f"hidden_size has {len(hidden_size)} numbers, num_layers is {num_layers}",
            argument="hidden_size",
            cure="pass one number per layer, or leave out num_layers",
        )
    return [whole("hidden_size", size, at_least=1) for size in hidden_size]


def _stack(parts: Sequence[Tensor]) -> Tensor:
    """Stacks the states `(B, size)` of cells into one tensor; smaller ones are padded with 0."""
    widest = max(part.shape[1] for part in parts)
    return torch.stack([nn.functional.pad(p, (0, widest - p.shape[1])) if p.shape[1] < widest else p for p in parts])
