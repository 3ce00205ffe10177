"""The states of many series: one record per id in a growing array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..model import SequenceModel

_FIRST_CAPACITY = 1024
_ROWS_AT_A_TIME = 65_536

Records = NDArray[np.void]
"""Records of ids: `last`, the time of the last observation, `outputs` after it, and the parts `state.0`, ..."""


class Content(NamedTuple):
    """Records of ids, a part at a time."""

    ids: list[str]
    layout: np.dtype[Any]
    parts: Iterator[Records]


class States:
    """State, last time and last output of every id.

    The record of an id holds all three, so that they can only change together: `put` writes the records of a batch in
    one call, which no signal and no exception interrupts.

    Args:
        initial: State of a new id, each part `(cells, 1, size)`.
        num_outputs: Number of outputs of the model.

    Attributes:
        rows: The row of each id.
        layout: The fields of a record.
    """

    def __init__(self, initial: Sequence[Tensor], num_outputs: int):
        arrays = [part[:, 0].numpy() for part in initial]
        self._parts = [f"state.{place}" for place in range(len(arrays))]
        fields = [(name, part.dtype, part.shape) for name, part in zip(self._parts, arrays, strict=True)]
        outputs = ("outputs", arrays[0].dtype, (num_outputs,))
        self.layout = np.dtype([("last", np.float64), outputs, *fields], align=True)
        self._new = np.zeros(1, self.layout)
        self._new["last"] = -np.inf
        for name, part in zip(self._parts, arrays, strict=True):
            self._new[name] = part
        self._clear()

    def _clear(self) -> None:
        self.rows: dict[str, int] = {}
        self._records: Records = np.empty(0, self.layout)
        self._used, self._dropped = 0, []  # rows that ids have or had; those of them that are free again

    def __len__(self) -> int:
        return len(self.rows)

    def last(self, name: str) -> float:
        """Returns the time of the last observation of an id; -inf for a new one."""
        row = self.rows.get(name)
        return -np.inf if row is None else float(self._records["last"][row])

    def get(self, names: Sequence[str]) -> Records:
        """Returns copies of the records of ids; a new id has the initial state."""
        rows = [self.rows.get(name, -1) for name in names]
        if -1 not in rows:
            return self._records[rows]
        found = np.repeat(self._new, len(rows))
        known = [place for place, row in enumerate(rows) if row >= 0]
        found[known] = self._records[[rows[place] for place in known]]
        return found

    def outputs(self, names: Sequence[str]) -> Tensor:
        """Returns the last outputs `(N, K)` of ids; 0 for new ones."""
        return torch.from_numpy(np.ascontiguousarray(self.get(names)["outputs"]))

    def put(self, names: Sequence[str], records: Records) -> None:
        """Stores the records of ids, of which none occurs twice."""
        new = [name for name in names if name not in self.rows]
        fresh = dict(zip(new, self._reserve(len(new)), strict=True))
        rows = [fresh[name] if name in fresh else self.rows[name] for name in names]
        # An interruption between these calls leaves new ids unknown, but no id with half a record.
        self._records[rows] = records
        self.rows.update(fresh)

    def _reserve(self, count: int) -> list[int]:
        """Returns rows for new ids."""
        again = self._dropped[len(self._dropped) - min(count, len(self._dropped)) :]
        first, end = self._used, self._used + count - len(again)
        if end > len(self._records):
            records = np.empty(max(_FIRST_CAPACITY, 2 * len(self._records), end), self.layout)
            records[:first] = self._records[:first]
            self._records = records
        del self._dropped[len(self._dropped) - len(again) :]
        self._used = end
        return [*again, *range(first, end)]

    def drop(self, names: Iterable[str]) -> None:
        """Removes ids."""
        for name in names:
            self._dropped.append(self.rows.pop(name))

    def idle(self, before: float) -> list[str]:
        """Returns the ids whose last observation was before that time."""
        last = self._records["last"]
        return [name for name, row in self.rows.items() if last[row] < before]

    # ---- the model's view of records --------------------------------------------------------------------

    def unpack(self, records: Records) -> tuple[Tensor, ...]:
        """Returns states `(cells, B, size)`, as the layer takes them."""
        return tuple(torch.from_numpy(np.ascontiguousarray(records[name].swapaxes(0, 1))) for name in self._parts)

    def pack(self, last: NDArray[np.float64] | float, outputs: Tensor, state: Sequence[Tensor]) -> Records:
        """Returns the records of last times `(B,)`, outputs `(B, K)` and states `(cells, B, size)`."""
        records = np.zeros(len(outputs), self.layout)
        records["last"], records["outputs"] = last, outputs.numpy()
        for name, part in zip(self._parts, state, strict=True):
            records[name] = part.numpy().swapaxes(0, 1)
        return records

    # ---- files ------------------------------------------------------------------------------------------

    def content(self) -> Content:
        """Returns all records in the order of the ids, without a copy of all of them."""
        rows = np.fromiter(self.rows.values(), np.int64, len(self.rows))
        starts = range(0, len(rows), _ROWS_AT_A_TIME)
        parts = (self._records[rows[start : start + _ROWS_AT_A_TIME]] for start in starts)
        return Content(list(self.rows), self.layout, parts)

    def restore(self, rows: dict[str, int], records: Records) -> None:
        """Replaces all ids by those with these records, which are kept as they are."""
        self._records, self.rows, self._used, self._dropped = records, rows, len(records), []


def fingerprint(model: SequenceModel) -> str:
    """Returns a hash of the weights, to which states belong."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
