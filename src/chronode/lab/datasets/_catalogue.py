"""The data sets known to chronode: publisher, address, license, and the hashes by which a copy is recognized.

The entries are in `catalogue.json` next to this file. Hashes of remote files are published (by the publisher, or by
projects that pin the same file); those of variants were computed from the named files.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ...settings import one_of


@dataclass(frozen=True)
class Remote:
    """A file to download.

    Attributes:
        file: Name of the file in the cache.
        urls: Addresses of the same bytes, the publisher's own first.
        hash: "sha256:..." or "md5:..."; empty if none is published.
        size: Size in bytes; 0 if unknown.
    """

    file: str
    urls: tuple[str, ...]
    hash: str = ""
    size: int = 0


@dataclass(frozen=True)
class Variant:
    """Set of files that is accepted as a copy of a data set.

    Attributes:
        note: Difference from the published files; empty if there is none.
        published: Whether these are known to be the publisher's own files: every download must match them.
        files: Relative path -> sha256, or "md5:...".
        tree: The `tree_hash` of all files, if there are too many to list.
        count: Number of files in the tree.
    """

    note: str = ""
    published: bool = False
    files: Mapping[str, str] | None = None
    tree: str = ""
    count: int = 0


@dataclass(frozen=True)
class DataSet:
    """Entry of a data set in the catalogue.

    Attributes:
        name: Name, as in `chronode data fetch NAME`.
        title: Short description.
        publisher: Publisher.
        page: Address of the description.
        licence: License as stated by the publisher.
        cite: Work to cite.
        remote: Files to download.
        reads: Patterns of the files that are unpacked and read; `*` also matches `/`.
        variants: Accepted copies.
        simulated: Whether the data set can be built with `chronode data build`.
    """

    name: str
    title: str
    publisher: str
    page: str
    licence: str
    cite: str
    remote: tuple[Remote, ...]
    reads: tuple[str, ...]
    variants: tuple[Variant, ...]
    simulated: bool = False

    @property
    def size(self) -> int:
        """The size of the download in bytes; 0 if unknown."""
        sizes = [remote.size for remote in self.remote]
        return sum(sizes) if all(sizes) else 0

    @property
    def published(self) -> Variant | None:
        """The variant that is known to be the publisher's own bytes."""
        return next((variant for variant in self.variants if variant.published), None)

    @property
    def checked_by(self) -> str:
        """The criterion by which a download is checked."""
        kinds = {remote.hash.partition(":")[0] for remote in self.remote}
        if not kinds:
            return "built files"
        if self.published is not None:
            return "sha256 of the files"
        return f"{kinds.pop()} of the download" if "" not in kinds else "first download"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(fnmatch.translate(pattern) for pattern in self.reads))

    def wants(self, path: str) -> bool:
        """Returns whether the file at this relative path is needed."""
        return self._pattern.match(path) is not None


def data_sets() -> dict[str, DataSet]:
    """Returns all data sets by name.

    Example:
        >>> data_sets()["mnist"].licence
        'none stated; commonly cited as CC BY-SA 3.0'
    """
    return dict(_read())


def data_set(name: str) -> DataSet:
    """Returns one data set; an unknown name is an error that suggests similar names.

    Example:
        >>> data_set("ozone").wants("eighthr.data")
        True
    """
    entries = _read()
    return entries[one_of("data set", name, entries)]


@cache
def _read() -> dict[str, DataSet]:
    facts = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
    return {name: _data_set(name, entry) for name, entry in facts.items()}


def _data_set(name: str, entry: dict[str, Any]) -> DataSet:
    facts: dict[str, Any] = {**entry, "name": name, "reads": tuple(entry["reads"])}
    facts["remote"] = tuple(_remote(one) for one in entry["remote"])
    facts["variants"] = tuple(Variant(**one) for one in entry["variants"])
    return DataSet(**facts)


def _remote(entry: dict[str, Any]) -> Remote:
    facts: dict[str, Any] = {**entry, "urls": tuple(entry["urls"])}
    return Remote(**facts)
