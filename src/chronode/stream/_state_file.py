"""The file of the states of a stream: a safetensors file that is written and read in parts, with a checksum."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..runs import Trained
from ..storage import MIB, parse_json, replacing
from ._states import Content, Records, fingerprint

FORMAT, VERSION = "chronode-stream", "2"
_LENGTH_BYTES, _DIGEST_BYTES = 8, 32
_MOST_HEADER, _PART = MIB, 4 * MIB
_NAMES = ("ends", "ids", "records", "sha256")
"""The arrays of the file in their order: ends of the ids within the text of all ids, that text, the records, and the
checksum of everything before it."""


def write_states(path: Path, trained: Trained, content: Content, facts: dict[str, Any]) -> None:
    """Writes the states of all ids; an existing file is replaced atomically."""
    texts = [name.encode("utf-8", "surrogatepass") for name in content.ids]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    shapes = _shapes(len(texts), int(ends[-1]) if len(ends) else 0, content.layout)
    metadata = {"format": FORMAT, "version": VERSION, "model": fingerprint(trained.model)}
    metadata |= {"layout": _described(content.layout), "facts": json.dumps(facts)}
    header = json.dumps({"__metadata__": metadata, **_arrays(shapes)}).encode()
    header += b" " * (-len(header) % _LENGTH_BYTES)
    with replacing(path) as draft, draft.open("wb") as file:
        digest = hashlib.sha256()
        first = (len(header).to_bytes(_LENGTH_BYTES, "little"), header, ends.tobytes(), b"".join(texts))
        for part in first:
            digest.update(part)
            file.write(part)
        for records in content.parts:
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
        raise ValueError(f"this is not a file of stream states of version {VERSION}.")
    header = parse_json(bytes(_part(file, length, digest)), dict[str, Any], "header")
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or (metadata.get("format"), metadata.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"this is not a file of stream states of version {VERSION}.")
    if metadata.get("model") != fingerprint(trained.model):
        raise ValueError(f"these states belong to another model, not to {trained.path}.")
    if metadata.get("layout") != _described(layout):
        raise ValueError("layout: the states do not have the form of those of the model.")
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
