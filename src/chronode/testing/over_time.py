"""Checks of shapes and along the time axis: padding, pieces, single steps, gaps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..nn import Layer, State
from .case import Case, agree, calling, check, evaluate, finite, require, same


@check
def padding_changes_nothing(case: Case) -> None:
    """Each sequence of a padded batch has the results that it has alone: outputs, final state and gradients."""
    layer, (x, dt, lengths) = case.layer(), case.data()
    state = case.state(layer, len(x))

    def padded(x: Tensor, dt: Tensor, state: State) -> tuple[Tensor, State]:
        return layer(x, state, dt=dt, lengths=lengths)

    def alone(x: Tensor, dt: Tensor, state: State) -> tuple[Tensor, State]:
        return _each_alone(layer, x, dt, state, lengths)

    got, wanted = (evaluate(layer, call, x=x, dt=dt, state=state) for call in (padded, alone))
    agree("padded batch against each sequence alone", got, wanted, case.agreement)


def _each_alone(layer: Layer, x: Tensor, dt: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
    outputs, states = [], []
    for i, n in enumerate(lengths.tolist()):
        row = slice(i, i + 1)
        y, after = layer(x[row, :n], tuple(part[:, row] for part in state), dt=dt[row, :n])
        outputs.append(F.pad(y, (0, 0, 0, x.shape[1] - n)))
        states.append(after)
    return torch.cat(outputs), tuple(torch.cat(parts, dim=1) for parts in zip(*states, strict=True))


@check
def padding_is_never_read(case: Case) -> None:
    """Padding may hold anything: NaN in x, negative gaps."""
    layer, (x, dt, lengths) = case.layer(), case.data()
    padding = torch.arange(x.shape[1]) >= lengths[:, None]
    spoiled_x, spoiled_dt = x.clone(), dt.clone()
    spoiled_x[padding], spoiled_dt[padding] = torch.nan, -1.0

    call = calling(layer, lengths=lengths)
    got, wanted = evaluate(layer, call, x=spoiled_x, dt=spoiled_dt), evaluate(layer, call, x=x, dt=dt)
    agree("NaN in the padding against numbers there", got, wanted, case.agreement)
    require(not bool(got["y"][padding].any()), "y is not 0 at padded steps")


@check
def pieces_make_the_whole(case: Case) -> None:
    """A sequence in two pieces with the carried state gives the same results as the whole, including gradients."""
    layer, (x, dt, _) = case.layer(), case.data()

    def in_pieces(x: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        first, state = layer(x[:, :2], layer.initial_state(len(x)), dt=dt[:, :2])
        second, state = layer(x[:, 2:], state, dt=dt[:, 2:])
        return torch.cat([first, second], dim=1), state

    got, wanted = (evaluate(layer, call, x=x, dt=dt) for call in (in_pieces, calling(layer)))
    agree("in two pieces against whole", got, wanted, case.agreement)


@check
def step_is_the_sequence(case: Case) -> None:
    """Repeated calls of `step` give the outputs and the state of the whole sequence."""
    layer, (x, dt, _) = case.layer(), case.data()
    y, last = layer(x, dt=dt)
    state: Any = None
    for n in range(x.shape[1]):
        # Both shapes that step accepts.
        gap = dt[:, n] if n % 2 else dt[:, n : n + 1]
        y_n, state = layer.step(x[:, n], state, gap)
        same(f"y of step {n} against the sequence's", y_n, y[:, n], case.agreement)
    for i, part in enumerate(last):
        same(f"state[{i}] after the last step against the sequence's", state[i], part, case.agreement)
    y_0, _ = layer.step(x[0, 0], None, dt[0, 0])
    same("y of step for one sequence of shape (features,)", y_0, y[0, 0], case.agreement)


@check
def times_are_gaps(case: Case) -> None:
    """Absolute times `t` give the same results as their gaps `dt`, with 0 before the first step."""
    layer, (x, dt, _) = case.layer(), case.data()
    t = 7.0 + dt.cumsum(1)
    gaps = torch.cat([torch.zeros_like(dt[:, :1]), t.diff(dim=1)], dim=1)
    same("y with t against y with dt", layer(x, t=t)[0], layer(x, dt=gaps)[0], case.agreement)


@check
def gaps_in_every_shape(case: Case) -> None:
    """dt as `(B, T)`, `(B, T, 1)`, a number and a tensor without axes mean the same; no dt means 1."""
    layer, (x, dt, _) = case.layer(), case.data()
    y = layer(x, dt=dt)[0]
    same("y with dt of shape (B, T, 1) against (B, T)", layer(x, dt=dt.unsqueeze(-1))[0], y, case.agreement)
    y = layer(x, dt=torch.full_like(dt, 0.5))[0]
    same("y with dt=0.5 against a tensor of 0.5", layer(x, dt=0.5)[0], y, case.agreement)
    same("y with dt=tensor(0.5) against (B, T)", layer(x, dt=torch.tensor(0.5))[0], y, case.agreement)
    same("y without dt against dt=1", layer(x)[0], layer(x, dt=torch.ones_like(dt))[0], case.agreement)


@check
def zero_gaps(case: Case) -> None:
    """dt = 0 gives finite outputs, states and gradients: for a whole batch, and for some steps of it."""
    layer, (x, dt, _) = case.layer(), case.data()
    some = dt.clone()
    some[0, 1:3], some[1, 0] = 0.0, 0.0
    for what, gaps in {"dt = 0 everywhere": torch.zeros_like(dt), "dt = 0 at some steps": some}.items():
        finite(what, evaluate(layer, calling(layer), x=x, dt=gaps))


@check
def time_as_registered(case: Case) -> None:
    """dt matters, or is ignored, as the model was registered: time="native" or "feature", or "none"."""
    layer, (x, dt, _) = case.layer(), case.data()
    y, longer = layer(x, dt=dt)[0], layer(x, dt=2 * dt)[0]
    if case.time == "none":
        same(f"{case.name} is registered with time='none', but with doubled dt its y", longer, y, case.agreement)
    else:
        apart = float((longer - y).detach().abs().max())
        require(
            apart > 10 * case.agreement,
            f"{case.name} is registered with time={case.time!r}, but doubling dt changes y by only {apart:.2g}",
        )


@check
def as_many_sequences_as_units(case: Case) -> None:
    """B = H, where rows and units are easily mixed up, gives the results of batches of 1."""
    layer, (x, dt, _) = case.layer(), case.data(batch=case.hidden_size)
    y, state = layer(x, dt=dt)
    for i in range(len(x)):
        y_i, state_i = layer(x[i : i + 1], dt=dt[i : i + 1])
        same(f"y of sequence {i} among B = H against it in a batch of 1", y[i : i + 1], y_i, case.agreement)
        for j, part in enumerate(state_i):
            what = f"state[{j}] of sequence {i} among B = H against it in a batch of 1"
            same(what, state[j][:, i : i + 1], part, case.agreement)


@check
def one_step(case: Case) -> None:
    """T = 1, for a batch and for one sequence, gives the first step of a longer sequence."""
    layer, (x, dt, _) = case.layer(), case.data()
    y, _ = layer(x, dt=dt)
    first, _ = layer(x[:, :1], dt=dt[:, :1])
    same("y of T = 1 against the first of T = 5", first, y[:, :1], case.agreement)
    alone, _ = layer(x[:1, :1], dt=dt[:1, :1], lengths=[1])
    same("y of B = T = 1 against the first of T = 5", alone, y[:1, :1], case.agreement)


@check
def unbatched_is_a_batch_of_one(case: Case) -> None:
    """x of shape `(T, D)` with dt `(T,)` gives the results of a batch of 1, without the batch axis."""
    layer, (x, dt, _) = case.layer(), case.data(batch=1)
    y, state = layer(x, case.state(layer, 1), dt=dt)
    before = tuple(part.squeeze(1) for part in case.state(layer, 1))
    got, after = layer(x[0], before, dt=dt[0])
    same("y of (T, D) against (1, T, D)", got, y[0], case.agreement)
    for i, part in enumerate(state):
        same(f"state[{i}] of (T, D) against (1, T, D)", after[i], part.squeeze(1), case.agreement)


@check
def time_first(case: Case) -> None:
    """`batch_first=False` gives the transpose, also for `step`."""
    layer, (x, dt, lengths) = case.layer(), case.data()
    y, state = layer(x, dt=dt, lengths=lengths)
    turned = case.layer(batch_first=False)
    got, after = turned(x.transpose(0, 1), dt=dt.T, lengths=lengths)
    same("y with batch_first=False against the transpose", got, y.transpose(0, 1), case.agreement)
    for i, part in enumerate(state):
        same(f"state[{i}] with batch_first=False", after[i], part, case.agreement)
    got, _ = turned.step(x[:, 0], None, dt[:, 0])
    same("y of step with batch_first=False", got, layer.step(x[:, 0], None, dt[:, 0])[0], case.agreement)


@check
def rows_do_not_see_each_other(case: Case) -> None:
    """Changing the first sequence (x, dt, state, length) does not change the others."""
    layer, (x, dt, _) = case.layer(), case.data()
    steps, state = x.shape[1], case.state(layer, len(x))
    y, after = layer(x, state, dt=dt)
    x, dt, state = x.clone(), dt.clone(), tuple(part.clone() for part in state)
    for changed in (x[0], dt[0], *(part[:, 0] for part in state)):
        changed *= 3
    got, got_after = layer(x, state, dt=dt, lengths=torch.tensor([steps - 1, *[steps] * (len(x) - 1)]))
    results = {"y": got[1:], **{f"state[{i}]": part[:, 1:] for i, part in enumerate(got_after)}}
    wanted = {"y": y[1:], **{f"state[{i}]": part[:, 1:] for i, part in enumerate(after)}}
    agree("other sequences after the first one has changed", results, wanted, case.agreement)
