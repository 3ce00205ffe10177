"""Checks of how a layer combines its cells: stacks, directions, skips, dropout, last outputs, low memory."""

from __future__ import annotations

import torch
from torch import Tensor

from ..nn import Layer, State
from . import oracle
from .case import Case, agree, calling, cells, check, evaluate, require, same


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
