"""Checks of the shapes that a layer accepts, and of the independence of the rows of a batch."""

from __future__ import annotations

import torch

from .case import Case, agree, check, same


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
