"""The states of many series: one record per id in a growing array, and the safetensors file of all of them."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..model import SequenceModel
from ..storage import MIB, parse_json, replacing
from ..training import Trained

_FORMAT, _VERSION = "chronode-stream", "2"
_LENGTH_BYTES, _DIGEST_BYTES = 8, 32
_MOST_HEADER, _PART = MIB, 4 * MIB
_NAMES = ("ends", "ids", "records", "sha256")
"""The arrays of the file in their order: ends of the ids within the text of all ids, that text, the records, and the
checksum of everything before it."""
_FIRST_CAPACITY = 1024
_ROWS_AT_A_TIME = 65_536

Records = NDArray[np.void]
"""Records of ids: `last`, the time of the last observation, `outputs` after it, and the parts `state.0`, ..."""


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
        self._parts = [f"state.{number}" for number in range(len(arrays))]
        fields = [(name, part.dtype, part.shape) for name, part in zip(self._parts, arrays, strict=True)]
        outputs = ("outputs", arrays[0].dtype, (num_outputs,))
        self.layout = np.dtype([("last", np.float64), outputs, *fields], align=True)
        # The same records with a single field: consecutive parts with numbers of one type.
        self._vectors: list[np.dtype[Any]] = []
        for kind, group in groupby(zip(self._parts, arrays, strict=True), key=lambda part: part[1].dtype):
            names, parts = zip(*group, strict=True)
            form = (kind, (sum(part.size for part in parts),))
            offset = (self.layout.fields or {})[names[0]][1]
            only: Any = {"names": ["vector"], "formats": [form], "offsets": [offset], "itemsize": self.layout.itemsize}
            self._vectors.append(np.dtype(only))
        self._new = np.zeros(1, self.layout)
        self._new["last"] = -np.inf
        for name, part in zip(self._parts, arrays, strict=True):
            self._new[name] = part
        self.rows: dict[str, int] = {}
        self._records: Records = np.empty(0, self.layout)
        self._used, self._dropped = 0, list[int]()  # rows that ids have or had; those of them that are free again

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
        records = np.repeat(self._new, len(rows))
        old = [index for index, row in enumerate(rows) if row >= 0]
        records[old] = self._records[[rows[index] for index in old]]
        return records

    def outputs(self, names: Sequence[str]) -> Tensor:
        """Returns the last outputs `(N, K)` of ids; 0 for new ones."""
        return torch.from_numpy(np.ascontiguousarray(self.get(names)["outputs"]))

    def put(self, names: Sequence[str], records: Records) -> None:
        """Stores the records of ids, of which none occurs twice."""
        new = [name for name in names if name not in self.rows]
        fresh = dict(zip(new, self._reserve(len(new)), strict=True)) if new else {}
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

    # ---- the model's view of records, which shares their memory ------------------------------------------

    def parts(self, records: Records) -> list[Tensor]:
        """Returns the parts `(cells, B, size)` of states, as the layer takes them."""
        return [torch.from_numpy(records[name]).transpose(0, 1) for name in self._parts]

    def vectors(self, records: Records) -> list[Tensor]:
        """Returns states `(B, size)`, one for each type of number."""
        return [torch.from_numpy(records.view(layout)["vector"]) for layout in self._vectors]

    # ---- files ------------------------------------------------------------------------------------------

    def in_order(self) -> Iterator[Records]:
        """Yields all records in the order of the ids, without a copy of all of them."""
        rows = np.fromiter(self.rows.values(), np.int64, len(self.rows))
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            yield self._records[rows[start : start + _ROWS_AT_A_TIME]]

    def copy(self) -> States:
        """Returns a copy of this moment."""
        other = copy.copy(self)
        other.rows, other._records, other._dropped = dict(self.rows), self._records[: self._used].copy(), []
        return other

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


def write_states(path: Path, trained: Trained, states: States, facts: dict[str, Any]) -> None:
    """Writes the states of all ids; an existing file is replaced atomically."""
    texts = [name.encode("utf-8", "surrogatepass") for name in states.rows]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    shapes = _shapes(len(texts), int(ends[-1]) if len(ends) else 0, states.layout)
    metadata = {"format": _FORMAT, "version": _VERSION, "model": fingerprint(trained.model)}
    metadata |= {"layout": _described(states.layout), "facts": json.dumps(facts)}
    header = json.dumps({"__metadata__": metadata, **_arrays(shapes)}).encode()
    header += b" " * (-len(header) % _LENGTH_BYTES)
    with replacing(path) as draft, draft.open("wb") as file:
        digest = hashlib.sha256()
        first = (len(header).to_bytes(_LENGTH_BYTES, "little"), header, ends.tobytes(), b"".join(texts))
        for part in first:
            digest.update(part)
            file.write(part)
        for records in states.in_order():
            part = memoryview(records.view(np.uint8))  # pyrefly: ignore[bad-argument-type]
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def read_states(path: Path, trained: Trained, layout: np.dtype[Any]) -> tuple[dict[str, int], Records, dict[str, Any]]:
    """Returns (row of each id, records, facts) of a file; rejects a damaged file and the states of another model."""
    with path.open("rb") as file:
        try:
            return _read(file, path.stat().st_size, trained, layout)
        except (ValueError, MemoryError) as error:
            raise ValueError(f"{path}: {error}") from error


def _read(
    file: IO[bytes], size: int, trained: Trained, layout: np.dtype[Any]
) -> tuple[dict[str, int], Records, dict[str, Any]]:
    digest = hashlib.sha256()
    length = int.from_bytes(_part(file, _LENGTH_BYTES, digest), "little")
    if not 0 < length <= min(_MOST_HEADER, size):
        raise ValueError(f"this is not a file of stream states of version {_VERSION}.")
    header = parse_json(bytes(_part(file, length, digest)), dict[str, Any], "header")
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or (metadata.get("format"), metadata.get("version")) != (_FORMAT, _VERSION):
        raise ValueError(f"this is not a file of stream states of version {_VERSION}.")
    if metadata.get("model") != fingerprint(trained.model):
        raise ValueError(f"these states belong to another model, not to {trained.path}.")
    if metadata.get("layout") != _described(layout):
        raise ValueError(
            "layout: the states do not have the form of those of the model; they were written by another version of "
            "chronode. Delete the file, and send the last observations of each id again."
        )
    count, text_bytes = (_first_size(header, name) for name in ("ends", "ids"))
    shapes = _shapes(count, text_bytes, layout)
    if {name: header.get(name) for name in _NAMES} != _arrays(shapes) or len(header) != len(_NAMES) + 1:
        raise ValueError("the sizes of its arrays do not fit together.")
    if size != file.tell() + sum(map(_bytes, shapes.values())):
        raise ValueError("the file has another size than its header says: a part is missing, or was added.")
    facts = parse_json(metadata.get("facts", ""), dict[str, Any], "facts")
    ends = _part(file, 8 * count, digest).view(np.int64)
    text = bytes(_part(file, text_bytes, digest))
    records = _part(file, count * layout.itemsize, digest).view(layout)
    if file.read(_DIGEST_BYTES) != digest.digest():
        raise ValueError("its checksum does not fit: the file is damaged.")
    if np.isnan(records["last"]).any():
        raise ValueError("last has a time that is not a number.")
    return _rows(text, ends), records, facts


def _part(file: IO[bytes], size: int, digest: Any) -> NDArray[np.uint8]:
    """Reads bytes into an array of their own and adds them to the checksum."""
    content = np.empty(size, np.uint8)
    whole = memoryview(content)  # pyrefly: ignore[bad-argument-type]
    for start in range(0, size, _PART):
        part = whole[start : start + _PART]
        if file.readinto(part) != len(part):  # pyrefly: ignore[missing-attribute]
            raise ValueError("the file ends too early.")
        digest.update(part)
    return content


def _rows(text: bytes, ends: NDArray[np.int64]) -> dict[str, int]:
    """Returns the row of each id."""
    if (np.diff(ends, prepend=0) < 0).any() or (ends[-1] if len(ends) else 0) != len(text):
        raise ValueError("ends: these are not the ends of the ids.")
    rows: dict[str, int] = {}
    start = 0
    for row, end in enumerate(ends.tolist()):
        rows[text[start:end].decode("utf-8", "surrogatepass")] = row
        start = end
    if len(rows) < len(ends):
        raise ValueError("ids contains a duplicate.")
    return rows


def _shapes(count: int, text_bytes: int, layout: np.dtype[Any]) -> dict[str, tuple[str, list[int]]]:
    """Returns the dtype and shape of each array."""
    sizes = ("I64", [count]), ("U8", [text_bytes]), ("U8", [count, layout.itemsize]), ("U8", [_DIGEST_BYTES])
    return dict(zip(_NAMES, sizes, strict=True))


def _arrays(shapes: dict[str, tuple[str, list[int]]]) -> dict[str, Any]:
    """Returns the arrays as a safetensors header describes them."""
    described, start = {}, 0
    for name, (dtype, shape) in shapes.items():
        end = start + _bytes((dtype, shape))
        described[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        start = end
    return described


def _bytes(array: tuple[str, list[int]]) -> int:
    dtype, shape = array
    return int(np.prod(shape, dtype=object)) * (8 if dtype == "I64" else 1)


def _first_size(header: dict[str, Any], name: str) -> int:
    """Returns the first axis of an array."""
    described = header.get(name)
    shape = described.get("shape") if isinstance(described, dict) else None
    if not isinstance(shape, list) or not shape or type(shape[0]) is not int or shape[0] < 0:
        raise ValueError(f"{name} is missing.")
    return shape[0]


def _described(layout: np.dtype[Any]) -> str:
    fields = layout.fields or {}
    return json.dumps({name: [str(of[0]), of[1]] for name, of in fields.items()})
