"""One step of a stream: what a batch of observations changes, computed before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import id_keys
from ..model import LiveModel
from ._states import Records, States
from ._times import Intake, Observations


@dataclass(frozen=True)
class Step:
    """Changes made by a batch of observations.

    Attributes:
        taken: `(N,)` whether each observation is later than the last one of its id.
        outputs: `(N, K)` output of the model after each observation; a late one has that of the last one of its id.
        names: The ids that change.
        records: Their records after the batch.
        ids: `(N,)` id of each observation.
        observations: The observations.
    """

    taken: NDArray[np.bool_]
    outputs: Tensor
    names: Sequence[str]
    records: Records
    ids: Sequence[str]
    observations: Observations


class Stepping:
    """Computes steps of a model from the states of a stream."""

    def __init__(self, model: LiveModel, states: States, intake: Intake, missing: bool, equal_times: bool):
        self._model, self.states, self._intake = model, states, intake
        self.missing, self._equal_times = missing, equal_times

    def prepare(self, ids: Sequence[str], observations: Observations) -> Step:
        """Returns what the observations of ids change, in the order given."""
        taken = self._in_order(ids, observations.times)
        if len(ids) == 1 and taken[0]:
            outputs, record = self.single(ids[0], observations)
            return Step(taken, outputs, ids, record, ids, observations)
        outputs, names, records = self.states.outputs(ids), list[str](), [self.states.get([])]
        for batch in padded_batches(ids, taken):
            series = [ids[index] for index in batch[:, 0].tolist()]
            after, newest = self._run(series, observations, batch)
            inside = batch >= 0
            outputs[torch.from_numpy(batch[inside])] = newest[torch.from_numpy(inside)]
            names += series
            records.append(after)
        newest_place: dict[str, int] = {}
        for index, (name, was_taken) in enumerate(zip(ids, () if taken.all() else taken.tolist(), strict=False)):
            if was_taken:
                newest_place[name] = index
            elif name in newest_place:
                outputs[index] = outputs[newest_place[name]]
        return Step(taken, outputs, names, np.concatenate(records), ids, observations)

    def _in_order(self, ids: Sequence[str], times: NDArray[np.float64] | None) -> NDArray[np.bool_]:
        """Returns which observations come after all earlier ones of their id."""
        taken = np.ones(len(ids), dtype=bool)
        newest: dict[str, float] = {}
        for index, (name, time) in enumerate(zip(ids, () if times is None else times.tolist(), strict=False)):
            before = newest.get(name)
            if before is None:
                before = self.states.last(name)
            if time > before or (self._equal_times and time == before):
                newest[name] = time
            else:
                taken[index] = False
        return taken

    def single(self, name: str, observations: Observations) -> tuple[Tensor, Records]:
        """Returns the output `(1, K)` and the record of an id after one observation: `_run` in few operations."""
        record = self.states.get([name])
        is_known = observations.values == observations.values
        x = torch.from_numpy(observations.values if is_known.all() else np.where(is_known, observations.values, 0))
        gap, last = None, float(record["last"][0])
        if observations.times is not None:
            time = float(observations.times[0])
            gap, last = float(self._intake.gaps(time - last if last > -np.inf else 0.0)), time
        observed = torch.from_numpy(is_known) if self.missing else None
        output = self._model.step(x, self.states.vectors(record), gap, observed)
        if output is None:
            record, outputs = self._run([name], observations, np.zeros((1, 1), np.int64))
            return outputs[0], record
        record["last"], record["outputs"] = last, output.numpy()
        return output, record

    def _run(
        self, names: Sequence[str], observations: Observations, batch: NDArray[np.int64]
    ) -> tuple[Records, Tensor]:
        """Runs series as one padded batch; returns their records and the outputs `(B, T, K)` after each step."""
        records = self.states.get(names)
        valid = batch >= 0
        lengths = torch.from_numpy(valid.sum(1))
        values = observations.values[batch]
        observed = ~np.isnan(values) & valid[..., None]
        arguments: dict[str, Any] = {"lengths": lengths}
        if self.missing:
            arguments["observed"] = torch.from_numpy(observed)
        if observations.times is not None:
            times, last = observations.times[batch], records["last"]
            start = np.where(np.isfinite(last), last, times[:, 0])
            gaps = self._intake.gaps(np.diff(times, axis=1, prepend=start[:, None]))
            arguments["dt"] = torch.from_numpy(np.where(valid, gaps, 0).astype(values.dtype))
            records["last"] = times[np.arange(len(batch)), valid.sum(1) - 1]
        if self._model.has_own_maps:
            arguments["series"] = torch.from_numpy(id_keys(names))
        state = self.states.parts(records)
        x = torch.from_numpy(np.where(observed, values, 0))
        outputs, after = self._model.run(x, tuple(part.clone() for part in state), **arguments)
        for part, new in zip(state, after, strict=True):
            part.copy_(new)
        records["outputs"] = outputs[torch.arange(len(batch)), lengths - 1].numpy()
        return records, outputs


def padded_batches(ids: Sequence[str], taken: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Returns padded batches `(B, T)` of the places of taken observations, -1 at padding, one row per id, with ids of
    similar numbers of observations together.

    Example:
        >>> [batch.tolist() for batch in padded_batches("abaac", np.ones(5, bool))]
        [[[1], [4]], [[0, 2, 3]]]
    """
    numbers: dict[str, int] = {}
    places = np.flatnonzero(taken)
    series = np.array([numbers.setdefault(ids[index], len(numbers)) for index in places], dtype=np.int64)
    order = np.argsort(series, kind="stable")
    _, starts, counts = np.unique(series[order], return_index=True, return_counts=True)
    sizes = np.floor(np.log2(counts)).astype(int)
    batches = []
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        steps = np.arange(counts[chosen].max())
        at = starts[chosen, None] + steps
        inside = steps < counts[chosen, None]
        batches.append(np.where(inside, places[order[np.where(inside, at, 0)]], -1))
    return batches
