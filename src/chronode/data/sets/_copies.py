"""Copies of data sets on disk: which files they have, and whether they are what they should be."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..._documents import read_json
from ..._files import replacing
from ._catalogue import DataSet, Variant

SEAL = ".chronode.json"  # in a folder of the cache: what was put there, and from where


class DataError(ValueError):
    """A data set that is not here and cannot be had, or that is not what it should be."""


@dataclass(frozen=True)
class Copy:
    """A data set on disk, checked.

    Attributes:
        folder: where the publisher's files are.
        origin: "mirror" or "cache".
        notes: how it differs from what the publisher offers.
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
    """The files of the data set in `folder`: relative path -> path, sorted."""
    found: dict[str, str] = {}
    # Plain strings: with Path objects, looking through IMDB's 50,000 files takes three times as long.
    skip = len(str(folder)) + 1
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            relative = path[skip:].replace(os.sep, "/")
            if data_set.wants(relative):
                found[relative] = path
    return dict(sorted(found.items()))


def hash_of(path: str | Path, kind: str = "sha256") -> str:
    """The hash of a file's bytes."""
    digest = hashlib.new(kind)
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def tree_hash(hashes: Mapping[str, str]) -> str:
    """One sha256 for many files: of the lines "PATH SHA256", sorted.

    Example:
        >>> tree_hash({"b": "2", "a": "1"}) == tree_hash({"a": "1", "b": "2"})
        True
    """
    lines = "".join(f"{path} {digest}\n" for path, digest in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def checked(data_set: DataSet, folder: Path, memory: Path, *, anew: bool = False) -> Variant | None:
    """The variant that the files in `folder` are; None if there are none; anything else is an error.

    Args:
        data_set: whose files are expected.
        folder: where they are; nothing is written there.
        memory: a JSON file that remembers what was hashed: while sizes and times of all files stay, it holds.
        anew: hash everything again.
    """
    files = wanted_files(data_set, folder)
    if not files:
        return None
    variants = [*data_set.variants, *_sealed(folder)]
    stamp, known = _stamp(files), _remembered(memory)
    for variant in variants:
        if not anew and known.get(str(folder)) == [stamp, _key(variant)]:
            return variant
    hashes = {path: hash_of(file) for path, file in files.items()}
    match = next((variant for variant in variants if not _differences(variant, hashes, files)), None)
    if match is None:
        raise DataError(_refusal(data_set, folder, variants, hashes, files))
    with suppress(OSError):  # without a cache to write in, every use hashes anew
        _remember(memory, str(folder), [stamp, _key(match)])
    return match


def seal(data_set: DataSet, folder: Path, note: str, sources: Mapping[str, str]) -> None:
    """Writes into a folder what its files are, so that they are recognised from now on.

    Args:
        data_set: whose files they are.
        folder: where they are.
        note: how they differ from the publisher's.
        sources: sha256 of the downloaded files by name.
    """
    hashes = {path: hash_of(file) for path, file in wanted_files(data_set, folder).items()}
    told = {"note": note, "tree": tree_hash(hashes), "count": len(hashes), "sources": dict(sources)}
    (folder / SEAL).write_text(json.dumps(told, indent=1))


def check_published(data_set: DataSet, folder: Path) -> None:
    """Refuses files that are not the publisher's own, if their hashes are known."""
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
    """What is wrong with the files if they are to be this variant."""
    if variant.files is None:
        found = tree_hash(hashes)
        told = f"{len(hashes):,} files with the joint sha256 {found}, not {variant.count:,} with {variant.tree}"
        return [] if found == variant.tree else [told]
    wrong = [f"{path} is missing" for path in variant.files if path not in hashes]
    wrong += [f"{path} does not belong to it" for path in hashes if path not in variant.files]
    for path, expected in variant.files.items():
        kind, _, digest = expected.rpartition(":")
        if path in hashes:
            found = hash_of(files[path], kind) if kind else hashes[path]
            if found != digest:
                wrong.append(f"{path} has the {kind or 'sha256'} {found}, not {digest}")
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
    return f"{folder} is refused, it is no known copy of {data_set.name}: {why}."


def _stamp(files: Mapping[str, str]) -> str:
    """Changes when a file is added, removed or written."""
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


def _remember(memory: Path, folder: str, facts: list[str]) -> None:
    with replacing(memory) as draft:
        draft.write_text(json.dumps({**_remembered(memory), folder: facts}, indent=1))
