"""One step of a stream: what a batch of observations changes, computed before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._followed import Followed
from ._grouping import by_count, groups, repeat
from ._intake import Intake, Observations
from ._states import Records, States

_ONE_STEP = torch.tensor([1])


@dataclass(frozen=True)
class Step:
    """Changes made by a batch of observations.

    Attributes:
        taken: `(N,)` whether each observation is later than the last one of its id.
        outputs: `(N, K)` output of the model after each observation; a late one has that of the last one of its id.
        names: The ids that change.
        records: Their records after the batch.
    """

    taken: NDArray[np.bool_]
    outputs: Tensor
    names: list[str]
    records: Records


class _Run(NamedTuple):
    """Outputs `(B, T, K)` of series, and their records after the last step."""

    outputs: Tensor
    records: Records


class Stepping:
    """Computes steps of a model from the states of a stream.

    Args:
        model: The model.
        states: The states, which are only read.
        intake: Converts gaps between times.
        missing: Whether values may be missing.
        equal_times: Whether an observation may have the time of the last one of its id.
    """

    def __init__(self, model: Followed, states: States, intake: Intake, missing: bool, equal_times: bool):
        self._model, self._states, self._intake = model, states, intake
        self.missing, self._equal_times = missing, equal_times

    def prepare(self, ids: Sequence[str], found: Observations) -> Step:
        """Returns what the observations of ids change, in the order given."""
        taken = self._in_order(ids, found.times)
        if taken.all():
            return self._changes(ids, found)
        places = np.flatnonzero(taken)
        outputs = self._states.outputs(ids)
        change = self._changes([ids[place] for place in places], found.at(places))
        outputs[torch.from_numpy(places)] = change.outputs
        repeat(outputs, taken, groups(ids))
        return Step(taken, outputs, change.names, change.records)

    def _in_order(self, ids: Sequence[str], times: NDArray[np.float64] | None) -> NDArray[np.bool_]:
        """Returns which observations come after all earlier ones of their id."""
        taken = np.ones(len(ids), dtype=bool)
        newest: dict[str, float] = {}
        for place, (name, time) in enumerate(zip(ids, () if times is None else times.tolist(), strict=False)):
            before = newest.get(name)
            if before is None:
                before = self._states.last(name)
            if time > before or (self._equal_times and time == before):
                newest[name] = time
            else:
                taken[place] = False
        return taken

    def _changes(self, ids: Sequence[str], found: Observations) -> Step:
        """Returns what observations change, each of which is taken."""
        if not ids:
            return Step(np.ones(0, bool), self._states.outputs([]), [], self._states.get([]))
        taken = np.ones(len(ids), dtype=bool)
        if len(ids) == 1:
            return Step(taken, *self.single(ids[0], found))
        parts = by_count(groups(ids))
        names = [ids[place] for part in parts for place in part[:, 0].tolist()]
        runs = [self._run([ids[place] for place in part[:, 0].tolist()], found, part) for part in parts]
        outputs = runs[0].outputs.new_empty(len(ids), runs[0].outputs.shape[-1])
        for part, run in zip(parts, runs, strict=True):
            outputs[torch.from_numpy(part[part >= 0])] = run.outputs[torch.from_numpy(part >= 0)]
        return Step(taken, outputs, names, np.concatenate([run.records for run in runs]))

    def single(self, name: str, found: Observations) -> tuple[Tensor, list[str], Records]:
        """Returns (the output `(1, K)`, the id, its record) after one observation: `_run` in few operations."""
        before = self._states.get([name])
        known = ~np.isnan(found.values)
        x = torch.from_numpy(np.where(known, found.values, 0))
        arguments: dict[str, Any] = {"lengths": _ONE_STEP}
        if self.missing:
            arguments["observed"] = torch.from_numpy(known)[None]
        last = float(before["last"][0])
        if found.times is not None:
            time = float(found.times[0])
            gap = self._intake.gaps(time - last if last > -np.inf else 0.0)
            arguments["dt"], last = x.new_full((1, 1), gap), time
        outputs, state = self._model.run(x[None], self._states.unpack(before), **arguments)
        return outputs[0], [name], self._states.pack(last, outputs[0], state)

    def _run(self, names: Sequence[str], found: Observations, part: NDArray[np.int64]) -> _Run:
        """Runs series of similar length as one padded batch.

        Args:
            names: `(B,)` ids of the series.
            found: The observations.
            part: `(B, T)` places of their observations; -1 at padding.
        """
        before = self._states.get(names)
        valid = part >= 0
        lengths = torch.from_numpy(valid.sum(1))
        values = found.values[part]
        known = ~np.isnan(values) & valid[..., None]
        arguments: dict[str, Any] = {"lengths": lengths}
        if self.missing:
            arguments["observed"] = torch.from_numpy(known)
        last: NDArray[np.float64] = before["last"]
        if found.times is not None:
            times = found.times[part]
            start = np.where(np.isfinite(last), last, times[:, 0])
            gaps = self._intake.gaps(np.diff(times, axis=1, prepend=start[:, None]))
            arguments["dt"] = torch.from_numpy(np.where(valid, gaps, 0).astype(values.dtype))
            last = times[np.arange(len(part)), valid.sum(1) - 1]
        x = torch.from_numpy(np.where(known, values, 0))
        outputs, state = self._model.run(x, self._states.unpack(before), **arguments)
        newest = outputs[torch.arange(len(part)), lengths - 1]
        return _Run(outputs, self._states.pack(last, newest, state))
