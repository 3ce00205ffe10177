"""Copies of data sets on disk: their files and the verification of their hashes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...storage import hash_of, read_json, replacing
from ._catalogue import DataSet, Variant

SEAL = ".chronode.json"  # in a folder of the cache: what was stored there, and its origin


class DataError(ValueError):
    """A data set is not available or has unexpected content."""


@dataclass(frozen=True)
class Copy:
    """Verified copy of a data set on disk.

    Attributes:
        folder: Folder with the files of the publisher.
        origin: "mirror" or "cache".
        notes: Differences from the published files.
    """

    folder: Path
    origin: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Seal:
    """The content of SEAL."""

    note: str
    tree: str
    count: int
    sources: dict[str, str]


def wanted_files(data_set: DataSet, folder: Path) -> dict[str, str]:
    """Returns the files of the data set in `folder`: relative path -> path, sorted."""
    files: dict[str, str] = {}
    # Plain strings: with Path objects, listing the 50,000 files of IMDB takes three times as long.
    skip = len(str(folder)) + 1
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            relative = path[skip:].replace(os.sep, "/")
            if data_set.wants(relative):
                files[relative] = path
    return dict(sorted(files.items()))


def tree_hash(hashes: Mapping[str, str]) -> str:
    """Returns a single sha256 for many files, computed from the sorted lines "PATH SHA256".

    Example:
        >>> tree_hash({"b": "2", "a": "1"}) == tree_hash({"a": "1", "b": "2"})
        True
    """
    lines = "".join(f"{path} {digest}\n" for path, digest in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def checked(data_set: DataSet, folder: Path, memory: Path, *, rehash: bool = False) -> Variant | None:
    """Returns the variant that matches the files in `folder`; None if there are no files; otherwise raises an error.

    Args:
        data_set: The data set whose files are expected.
        folder: Folder with the files; nothing is written there.
        memory: JSON file with earlier hashes, which are valid while the sizes and times of all files are unchanged.
        rehash: Whether to hash everything again.
    """
    files = wanted_files(data_set, folder)
    if not files:
        return None
    variants = [*data_set.variants, *_sealed(folder)]
    stamp, earlier = _stamp(files), _remembered(memory)
    for variant in variants:
        if not rehash and earlier.get(str(folder)) == [stamp, _key(variant)]:
            return variant
    hashes = {path: hash_of(file) for path, file in files.items()}
    match = next((variant for variant in variants if not _differences(variant, hashes, files)), None)
    if match is None:
        raise DataError(_refusal(data_set, folder, variants, hashes, files))
    facts = {**_remembered(memory), str(folder): [stamp, _key(match)]}
    with suppress(OSError), replacing(memory) as draft:  # without a writable cache, files are hashed at every use
        draft.write_text(json.dumps(facts, indent=1))
    return match


def seal(data_set: DataSet, folder: Path, note: str, sources: Mapping[str, str]) -> None:
    """Records in a folder what its files are, so that they are recognized later."""
    hashes = {path: hash_of(file) for path, file in wanted_files(data_set, folder).items()}
    content = {"note": note, "tree": tree_hash(hashes), "count": len(hashes), "sources": dict(sources)}
    (folder / SEAL).write_text(json.dumps(content, indent=1))


def check_published(data_set: DataSet, folder: Path) -> None:
    """Rejects files that differ from the published ones, if their hashes are known."""
    if data_set.published is not None:
        files = wanted_files(data_set, folder)
        hashes = {path: hash_of(file) for path, file in files.items()}
        if _differences(data_set.published, hashes, files):
            raise DataError(_refusal(data_set, folder, [data_set.published], hashes, files))


def _sealed(folder: Path) -> list[Variant]:
    try:
        sealed: _Seal = read_json(folder / SEAL, _Seal)
    except (OSError, ValueError):
        return []
    return [Variant(note=sealed.note, tree=sealed.tree, count=sealed.count)]


def _differences(variant: Variant, hashes: Mapping[str, str], files: Mapping[str, str]) -> list[str]:
    """Lists the differences between the files and a variant."""
    if variant.files is None:
        digest_of_file = tree_hash(hashes)
        expected = f"expected {variant.count:,} files with {variant.tree}"
        difference = f"{len(hashes):,} files with the combined sha256 {digest_of_file}, {expected}"
        return [] if digest_of_file == variant.tree else [difference]
    wrong = [f"{path} is missing" for path in variant.files if path not in hashes]
    wrong += [f"{path} does not belong to the data set" for path in hashes if path not in variant.files]
    for path, expected in variant.files.items():
        kind, _, digest = expected.rpartition(":")
        if path in hashes:
            digest_of_file = hash_of(files[path], kind) if kind else hashes[path]
            if digest_of_file != digest:
                wrong.append(f"{path} has the {kind or 'sha256'} {digest_of_file}, expected {digest}")
    return wrong


def _refusal(
    data_set: DataSet,
    folder: Path,
    variants: list[Variant],
    hashes: Mapping[str, str],
    files: Mapping[str, str],
) -> str:
    wrong = min((_differences(variant, hashes, files) for variant in variants), key=len, default=[])
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    why = f"{wrong[0]}{more}" if wrong else "the hashes of its files are not published"
    return f"{folder} was rejected: it is not a known copy of {data_set.name}: {why}."


def _stamp(files: Mapping[str, str]) -> str:
    """Returns a fingerprint that changes when a file is added, removed or written."""
    digest = hashlib.sha256()
    for path, file in files.items():
        facts = os.stat(file)
        digest.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _key(variant: Variant) -> str:
    return variant.tree or tree_hash(variant.files or {})


def _remembered(memory: Path) -> dict[str, list[str]]:
    try:
        return read_json(memory, dict[str, list[str]])
    except (OSError, ValueError):
        return {}
