"""The data sets that chronode knows: who publishes them, where, under which licence, and how a copy is recognised.

The facts are in `catalogue.json` beside this file. No hash there is made up: those of remote files are published (by
the publisher, or by projects that pin the same file), those of variants were computed from the files named.
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

from ..._checks import one_of


@dataclass(frozen=True)
class Remote:
    """A file to download.

    Attributes:
        file: its name in the cache.
        urls: addresses of the same bytes, the publisher's own first.
        hash: "sha256:..." or "md5:..."; empty if none is published.
        size: bytes; 0 if unknown.
    """

    file: str
    urls: tuple[str, ...]
    hash: str = ""
    size: int = 0


@dataclass(frozen=True)
class Variant:
    """A set of files that is accepted as a copy of a data set.

    Attributes:
        note: how it differs from what the publisher offers; empty if it does not.
        published: known to be the publisher's own bytes: whatever is downloaded must be this.
        files: relative path -> sha256, or "md5:...".
        tree: where there are very many files: their `copies.tree_hash` instead.
        count: how many files the tree has.
    """

    note: str = ""
    published: bool = False
    files: Mapping[str, str] | None = None
    tree: str = ""
    count: int = 0


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set.

    Attributes:
        name: as in `chronode data fetch NAME`.
        title: what it is.
        publisher: who offers it.
        page: where it is described.
        licence: as the publisher states it.
        cite: the work to cite.
        remote: the files to download.
        reads: patterns of the files that are unpacked and read; `*` goes over `/`.
        variants: the copies that are accepted.
        simulated: it can be built with `chronode data build`.
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
        """Bytes to download; 0 if unknown."""
        sizes = [remote.size for remote in self.remote]
        return sum(sizes) if all(sizes) else 0

    @property
    def published(self) -> Variant | None:
        """The variant that is known to be the publisher's own bytes."""
        return next((variant for variant in self.variants if variant.published), None)

    @property
    def checked_by(self) -> str:
        """What decides whether a download is right."""
        kinds = {remote.hash.partition(":")[0] for remote in self.remote}
        if not kinds:
            return "what was built"
        if self.published is not None:
            return "sha256 of the files"
        return f"{kinds.pop()} of the download" if "" not in kinds else "first download"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(fnmatch.translate(pattern) for pattern in self.reads))

    def wants(self, path: str) -> bool:
        """Whether the file at this relative path is one that is read."""
        return self._pattern.match(path) is not None


def data_sets() -> dict[str, DataSet]:
    """All data sets by name.

    Example:
        >>> data_sets()["mnist"].licence
        'none stated; commonly cited as CC BY-SA 3.0'
    """
    return dict(_read())


def data_set(name: str) -> DataSet:
    """One data set; an unknown name is an error with the names that are near.

    Example:
        >>> data_set("ozone").wants("eighthr.data")
        True
    """
    known = _read()
    return known[one_of("data set", name, known)]


@cache
def _read() -> dict[str, DataSet]:
    facts = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
    return {name: _data_set(name, told) for name, told in facts.items()}


def _data_set(name: str, told: dict[str, Any]) -> DataSet:
    facts: dict[str, Any] = {**told, "name": name, "reads": tuple(told["reads"])}
    facts["remote"] = tuple(_remote(one) for one in told["remote"])
    facts["variants"] = tuple(Variant(**one) for one in told["variants"])
    return DataSet(**facts)


def _remote(told: dict[str, Any]) -> Remote:
    facts: dict[str, Any] = {**told, "urls": tuple(told["urls"])}
    return Remote(**facts)
