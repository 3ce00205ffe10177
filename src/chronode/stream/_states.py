"""The states of many series: one row per id in growing arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._model import SequenceModel

_FIRST_CAPACITY = 1024


class States:
    """State, last time and last output of every id.

    Args:
        initial: State of a new id, each part `(cells, 1, size)`.
        num_outputs: Number of outputs of the model.

    Attributes:
        rows: The row of each id.
        parts: State of the layer, each part `(cells, capacity, size)`.
        last: `(capacity,)` time of the last observation.
        outputs: `(capacity, K)` last output of the model.
    """

    def __init__(self, initial: Sequence[Tensor], num_outputs: int):
        self._initial = tuple(initial)
        self.parts = [part.new_zeros(part.shape[0], 0, *part.shape[2:]) for part in self._initial]
        self.outputs = self._initial[0].new_zeros(0, num_outputs)
        self.last: NDArray[np.float64] = np.empty(0)
        self.rows: dict[str, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, ids: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns (row, whether it is new) of each id; new ids get rows with the initial state."""
        rows, new = np.empty(len(ids), dtype=np.int64), np.zeros(len(ids), dtype=bool)
        for place, name in enumerate(ids):
            row = self.rows.get(name)
            if row is None:
                row = self._take(name)
                new[place] = True
            rows[place] = row
        return rows, new

    def _take(self, name: str) -> int:
        if not self._free:
            self._grow(max(_FIRST_CAPACITY, 2 * len(self.last)))
        row = self._free.pop()
        for part, start in zip(self.parts, self._initial, strict=True):
            part[:, row] = start[:, 0]
        self.last[row] = -np.inf
        self.rows[name] = row
        return row

    def _grow(self, capacity: int) -> None:
        old = len(self.last)
        self.parts = [
            torch.cat([part, start.expand(start.shape[0], capacity - old, *start.shape[2:])], dim=1)
            for part, start in zip(self.parts, self._initial, strict=True)
        ]
        self.outputs = torch.cat([self.outputs, self.outputs.new_zeros(capacity - old, self.outputs.shape[1])])
        self.last = np.concatenate([self.last, np.full(capacity - old, -np.inf)])
        self._free += range(capacity - 1, old - 1, -1)

    def drop(self, names: Iterable[str]) -> None:
        """Removes ids."""
        self._free += [self.rows.pop(name) for name in names]

    def idle(self, before: float) -> list[str]:
        """Returns the ids whose last observation was before that time."""
        return [name for name, row in self.rows.items() if self.last[row] < before]

    def get(self, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Returns the states of rows, as the layer takes them."""
        at = torch.from_numpy(rows)
        return tuple(part.index_select(1, at) for part in self.parts)

    def put(self, rows: NDArray[np.int64], state: Sequence[Tensor]) -> None:
        """Stores the states of rows."""
        at = torch.from_numpy(rows)
        for part, fresh in zip(self.parts, state, strict=True):
            part.index_copy_(1, at, fresh.to(part.dtype))

    # ---- files ------------------------------------------------------------------------------------------

    def tensors(self) -> tuple[list[str], dict[str, Tensor]]:
        """Returns (ids, their states as tensors by name), one row per id in the order of the ids."""
        names = list(self.rows)
        rows = np.fromiter(self.rows.values(), np.int64, len(names))
        tensors = {f"state.{i}": part for i, part in enumerate(self.get(rows))}
        tensors |= {"last": torch.from_numpy(self.last[rows]), "outputs": self.outputs[torch.from_numpy(rows)]}
        return names, tensors

    def restore(self, names: Sequence[str], tensors: dict[str, Tensor]) -> None:
        """Replaces all ids by those of `tensors`.

        Raises:
            ValueError: The tensors are not those of this model and these ids.
        """
        if len(set(names)) < len(names):
            raise ValueError("ids contains a duplicate.")
        wanted: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
            "last": (torch.float64, (len(names),)),
            "outputs": (self.outputs.dtype, (len(names), self.outputs.shape[1])),
        }
        for i, part in enumerate(self._initial):
            wanted[f"state.{i}"] = (part.dtype, (part.shape[0], len(names), *part.shape[2:]))
        for name, (dtype, shape) in wanted.items():
            if name not in tensors:
                raise ValueError(f"{name} is missing.")
            found = tensors[name]
            if found.dtype != dtype or tuple(found.shape) != tuple(shape):
                raise ValueError(
                    f"{name} is {found.dtype} of shape {tuple(found.shape)}, expected {dtype} of shape {tuple(shape)}."
                )
        if bool(tensors["last"].isnan().any()):
            raise ValueError("last has a time that is not a number.")
        self.rows, self._free = {}, []
        self.parts = [part[:, :0] for part in self.parts]
        self.outputs, self.last = self.outputs[:0], self.last[:0]
        self._grow(max(_FIRST_CAPACITY, len(names)))
        rows, _ = self.find(names)
        self.put(rows, [tensors[f"state.{i}"] for i in range(len(self._initial))])
        self.last[rows] = tensors["last"].numpy()
        self.outputs[torch.from_numpy(rows)] = tensors["outputs"]


def fingerprint(model: SequenceModel) -> str:
    """Returns a hash of the weights, to which states belong."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
