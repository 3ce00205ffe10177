"""A reference implementation of a stack: one sequence after another, step by step, without padding.

It shares no code with the driver, the layer and the kernels, so it is an independent check of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ..nn import Cell, Layer, State
from . import oracle
from .case import Case, agree, calling, cells, check, evaluate, require, same


def run_stack(
    layer: Layer, x: Tensor, dt: Tensor, lengths: Tensor, masks: Sequence[Tensor] | None = None
) -> tuple[Tensor, State]:
    """Returns the correct result of `layer(x, dt=dt, lengths=lengths)` for `x (B, T, D)` and `dt (B, T)`.

    The outputs of each layer are multiplied by its dropout mask, `masks (B, output_size)`, one per layer; a block has
    two, for the output of its cell and for its own.
    """
    outputs, states = [], []
    for i, n in enumerate(lengths.tolist()):
        own_masks = [mask[i] for mask in masks or []]
        y, state = _one_sequence(layer, x[i, :n], dt[i, :n], own_masks)
        outputs.append(torch.cat([y, y.new_zeros(x.shape[1] - n, y.shape[1])]))
        states.append(state)
    return torch.stack(outputs), tuple(torch.cat(parts, dim=1) for parts in zip(*states, strict=True))


def _one_sequence(layer: Layer, x: Tensor, dt: Tensor, masks: list[Tensor]) -> tuple[Tensor, State]:
    directions = 2 if layer.bidirectional else 1
    below, encoder_states = _encoded(layer, x, dt, directions)
    if layer.block:
        y, states = _blocks(layer, torch.cat(below, dim=-1) if layer.missing else x, dt, masks)
        return y, (*_packed(encoder_states), *_packed(states))
    levels, states = [below], []  # per level what each direction reads
    for index in range(layer.num_layers):
        outputs = []
        for direction in range(directions):
            inputs = levels[index][direction]
            # Layer l = index + 1 reads y[l-1], and y[l-S-1] if l > S; level 0 is the input.
            if layer.residual > 0 and index + 1 > layer.residual:
                inputs = torch.cat([inputs, levels[index - layer.residual][direction]], dim=-1)
            y, state = _run(cells(layer)[index * directions + direction], inputs, dt, direction)
            outputs.append(y)
            states.append(state)
        y = torch.cat(outputs, dim=-1) * (masks[index] if masks else 1)
        levels.append([y] * directions)
    return levels[-1][0], (*_packed(encoder_states), *_packed(states))


def _blocks(layer: Layer, x: Tensor, dt: Tensor, masks: list[Tensor]) -> tuple[Tensor, list[State]]:
    """Returns the output of a stack of residual blocks in evaluation, and the states of its cells."""
    directions, states = 2 if layer.bidirectional else 1, []
    weights = dict(layer.named_parameters()) | dict(layer.named_buffers())
    x = x @ weights["entry.weight"].T + weights["entry.bias"]
    for index in range(layer.num_layers):
        name, ones = f"blocks.{index}", torch.ones(1, dtype=x.dtype)
        after_cell, after_block = masks[2 * index : 2 * index + 2] if masks else (ones, ones)
        if layer.block_norm == "batch":
            mean, variance = weights[f"{name}.norm.running_mean"], weights[f"{name}.norm.running_var"]
            normalized = (x - mean) / (variance + 1e-5).sqrt()
        else:
            away = x - x.mean(-1, keepdim=True)
            normalized = away / (away.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            normalized = normalized * weights[f"{name}.norm.weight"] + weights[f"{name}.norm.bias"]
        runs = [_run(cells(layer)[index * directions + i], normalized, dt, i) for i in range(directions)]
        v = torch.cat([y for y, _ in runs], dim=-1)
        v = 0.5 * v * (1 + torch.erf(v / 2**0.5)) * after_cell
        value, gate = (v @ weights[f"{name}.gate.weight"].T + weights[f"{name}.gate.bias"]).chunk(2, dim=-1)
        x = x + value / (1 + torch.exp(-gate)) * after_block
        states += [state for _, state in runs]
    return x, states


def _encoded(layer: Layer, x: Tensor, dt: Tensor, directions: int) -> tuple[list[Tensor], list[State]]:
    """Returns the input of each direction: x, or with `missing` the encoding of a fully observed x."""
    if not layer.missing:
        return [x] * directions, []
    observed = torch.cat([x, torch.ones_like(x)], dim=-1)
    runs = [_run(cast(Cell, encoder), observed, dt, i) for i, encoder in enumerate(layer.encoders)]
    return [y for y, _ in runs], [state for _, state in runs]


def _packed(states: list[State]) -> State:
    """Returns each part of the cells' states as `(cells, 1, size)`; narrower parts are padded with zeros."""
    packed = []
    for parts in zip(*states, strict=True):
        stacked = parts[0].new_zeros(len(parts), 1, max(part.shape[1] for part in parts))
        for i, part in enumerate(parts):
            stacked[i, :, : part.shape[1]] = part
        packed.append(stacked)
    return tuple(packed)


def _run(cell: Cell, x: Tensor, dt: Tensor, direction: int) -> tuple[Tensor, State]:
    if direction == 0:
        return _forward(cell, x, dt)
    # Read from the last step: the gap before step n is then the one between n and n + 1.
    order = list(range(len(x) - 1, -1, -1))
    gaps = torch.stack([dt[0], *(dt[n + 1] for n in order[1:])])
    y, state = _forward(cell, x[order], gaps)
    return y[order], state


def _forward(cell: Cell, x: Tensor, dt: Tensor) -> tuple[Tensor, State]:
    state, outputs = cell.initial_state(1, x), []
    for n in range(len(x)):
        y, state = cell(cell.project(x[n : n + 1]), state, dt[n].view(1, 1))
        outputs.append(y)
    return torch.cat(outputs), state


def _agrees_with_the_oracle(case: Case, what: str, layer: Layer) -> None:
    x, dt, lengths = case.data()

    def plainly(x: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        return oracle.run_stack(layer, x, dt, lengths)

    got = evaluate(layer, calling(layer, lengths=lengths), x=x, dt=dt)
    wanted = evaluate(layer, plainly, x=x, dt=dt)
    agree(f"{what} against the cell alone, step by step", got, wanted, case.agreement)


@check
def plain_loop(case: Case) -> None:
    """One layer gives the same results as its cell step by step, including gradients, on every path."""
    _agrees_with_the_oracle(case, "the layer", case.layer())


@check
def stack_of_two(case: Case) -> None:
    """In a stack, each layer reads the one below."""
    _agrees_with_the_oracle(case, "a stack of two", case.stack())


@check
def both_directions(case: Case) -> None:
    """The reverse direction is the forward direction on reversed data and gaps."""
    _agrees_with_the_oracle(case, "both directions", case.layer(bidirectional=True))


@check
def residual_skips(case: Case) -> None:
    """With `residual=S` layer l > S also reads layer l - S - 1; blocks have skips of their own."""
    if case.settings.get("block"):
        return
    _agrees_with_the_oracle(
        case, "a stack of two with residual=1", case.stack(residual=case.settings.get("residual", 1))
    )


@check
def dropout_masks(case: Case) -> None:
    """Training draws one mask per sequence after every layer, shared over time; evaluation draws none."""
    x, dt, lengths = case.data()
    layer, p = case.stack(dropout=0.4), 0.4
    y = case.stack()(x, dt=dt)[0]
    same("y in evaluation with dropout against without", layer(x, dt=dt)[0], y, case.agreement)

    layer.training = True  # only the layer trains; the cells stay in evaluation mode
    masks = _masks_drawn(layer, x)
    for index, mask in enumerate(masks):
        wrong = (mask != 0) & ((mask * (1 - p) - 1).abs() > 1e-6)
        require(not bool(wrong.any()), f"the mask after layer {index} has values other than 0 and 1 / (1 - p)")
    drawn = torch.cat(masks, dim=-1)
    require(bool((drawn == 0).any()) and bool((drawn != 0).any()), "dropout=0.4 dropped all units or none")

    def plainly(x: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        return oracle.run_stack(layer, x, dt, lengths, masks)

    torch.manual_seed(0)
    got = evaluate(layer, calling(layer, lengths=lengths), x=x, dt=dt)
    agree("training with dropout against its masks", got, evaluate(layer, plainly, x=x, dt=dt), case.agreement)
    again = layer(x, dt=dt, lengths=lengths)[0]
    require(bool((got["y"] != again).any()), "two calls in training drew the same dropout masks")


def _masks_drawn(layer: Layer, x: Tensor) -> list[Tensor]:
    """Returns the masks `(B, output_size)`, one per layer, that the next call draws after the same seed."""
    torch.manual_seed(0)
    masks = layer._dropout_masks(x.transpose(0, 1))
    if masks is None:
        raise AssertionError("no dropout in training")
    sizes = [cell.output_size for cell in cells(layer)]
    if layer.block:
        sizes = [size for outputs in sizes for size in (outputs, layer.hidden_size)]
    for mask, size in zip(masks, sizes, strict=True):
        wanted = (len(x), size)
        require(tuple(mask.shape) == wanted, f"a dropout mask has shape {tuple(mask.shape)}, expected {wanted}")
    return masks


@check
def last_output(case: Case) -> None:
    """`outputs="last"` is the last valid output; for the reverse direction, the output at step 0. A block combines
    those of both directions.
    """
    x, dt, lengths = case.data()
    rows = torch.arange(len(x))
    y, state = case.layer()(x, dt=dt, lengths=lengths)
    got, after = case.layer(outputs="last")(x, dt=dt, lengths=lengths)
    same('outputs="last" against the last valid output', got, y[rows, lengths - 1], case.agreement)
    for i, part in enumerate(state):
        same(f'state[{i}] with outputs="last"', after[i], part, case.agreement)

    layer = case.layer(bidirectional=True)
    if layer.block:
        return
    y, _ = layer(x, dt=dt, lengths=lengths)
    half = layer.output_size // 2
    wanted = torch.cat([y[rows, lengths - 1, :half], y[:, 0, half:]], dim=-1)
    got, _ = case.layer(bidirectional=True, outputs="last")(x, dt=dt, lengths=lengths)
    same('outputs="last" of both directions', got, wanted, case.agreement)


@check
def low_memory(case: Case) -> None:
    """`memory="low"` gives the numbers of "fast", including gradients, for all outputs and for the last."""
    x, dt, lengths = case.data()
    for outputs in ("all", "last"):
        results = []
        for memory in ("low", "fast"):
            layer = case.layer(memory=memory, outputs=outputs)
            results.append(evaluate(layer, calling(layer, lengths=lengths), x=x, dt=dt))
        agree(f'memory="low" against "fast" with outputs={outputs!r}', results[0], results[1], case.agreement)


@check
def missing_values(case: Case) -> None:
    """With `missing=True`, missing values are never read and have no gradient; pieces give the whole."""
    layer, (x, dt, lengths) = case.layer(missing=True), case.data()
    everything = torch.ones_like(x, dtype=torch.bool)
    y = layer(x, dt=dt)[0]
    same("y with all observed against no mask", layer(x, dt=dt, observed=everything)[0], y, case.agreement)

    observed = torch.rand_like(x) < 0.6
    observed[0, 0], observed[0, 1] = False, True  # one sequence begins with missing values
    require(bool((layer(x, dt=dt, observed=observed)[0] != y).any()), "the mask of observed values has no effect")

    call = calling(layer, lengths=lengths, observed=observed)
    hidden = torch.where(observed, x, torch.nan)
    got, wanted = evaluate(layer, call, x=hidden, dt=dt), evaluate(layer, call, x=x, dt=dt)
    agree("NaN where nothing was observed against numbers there", got, wanted, case.agreement)
    require(not bool(got["the gradient by x"][~observed].any()), "missing values have a gradient")

    whole, last = layer(x, dt=dt, observed=observed)
    _, state = layer(x[:, :2], dt=dt[:, :2], observed=observed[:, :2])
    rest, state = layer(x[:, 2:], state, dt=dt[:, 2:], observed=observed[:, 2:])
    same("y of a second piece with missing values against whole", rest, whole[:, 2:], case.agreement)
    for i, part in enumerate(last):
        same(f"state[{i}] after two pieces with missing values", state[i], part, case.agreement)
