"""Data sets on this machine: a local mirror first, then the cache, then the publisher's own address.

`CHRONODE_DATA` is the cache folder, `CHRONODE_DATA_MIRROR` a folder with a folder per data set, which is only read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..._files import replacing
from ._catalogue import DataSet, Remote, data_set
from ._copies import Copy, DataError, check_published, checked, hash_of, seal, wanted_files
from ._unpack import UnsafeArchive, unpack

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from rich.console import Console

__all__ = ["Copy", "DataError", "cache_folder", "fetch", "folder", "keep", "mirror_folder", "notes", "present"]


def folder(name: str) -> Path:
    """The folder with the publisher's own files of a data set, checked; it is downloaded if it is not here.

    Args:
        name: see `chronode data list`.
    """
    return fetch(name).folder


def notes(name: str) -> tuple[str, ...]:
    """How the copy that is used differs from what the publisher offers: nothing, or a line such as "partial: ..."."""
    return fetch(name).notes


def cache_folder() -> Path:
    """Where downloads go: `CHRONODE_DATA`, or the user's cache folder."""
    if told := os.environ.get("CHRONODE_DATA"):
        return Path(told).expanduser().absolute()
    return Path(_pooch().os_cache("chronode"))


def mirror_folder() -> Path | None:
    """The local mirror that is tried first: `CHRONODE_DATA_MIRROR`."""
    told = os.environ.get("CHRONODE_DATA_MIRROR")
    if not told:
        return None
    path = Path(told).expanduser().absolute()
    if not path.is_dir():
        raise ValueError(f"CHRONODE_DATA_MIRROR={told!r} is not a folder.")
    return path


def present(name: str, *, anew: bool = False) -> Copy | None:
    """The copy that is here, checked, or None; nothing is downloaded.

    Args:
        name: of the data set.
        anew: hash every file, also those that were hashed before.
    """
    known = data_set(name)
    for origin, top in (("mirror", mirror_folder()), ("cache", cache_folder())):
        # A mirror may have the files to download instead of what is in them.
        if top is None or (origin == "mirror" and _mirrored(known)):
            continue
        try:
            variant = checked(known, top / name, cache_folder() / "checked.json", anew=anew)
        except DataError as error:
            raise DataError(f"{error} {_cure(known, origin)}") from None
        if variant is not None:
            return Copy(top / name, origin, (variant.note,) if variant.note else ())
    return None


def _cure(known: DataSet, origin: str) -> str:
    if origin == "cache":
        build = [f"`chronode data build {known.name}` to finish it"] if known.simulated else []
        fetch = [f"`chronode data fetch {known.name} --again`"] if known.remote else []
        return f"Run {', or '.join(build + fetch)}."
    archives = ", ".join(remote.file for remote in known.remote)
    offered = f", or put what the publisher offers there instead ({archives})" if archives else ""
    return f"Restore it{offered}, or unset CHRONODE_DATA_MIRROR."


def fetch(name: str, *, again: bool = False, console: Console | None = None) -> Copy:
    """The copy that is here, or a new one from the publisher.

    Args:
        name: of the data set.
        again: download even if the cache has it.
        console: where progress and messages go; standard error by default.
    """
    known = data_set(name)
    if not again and (copy := present(name)) is not None:
        return copy
    if not known.remote:
        raise DataError(f"{name} is not here, and it is built, not downloaded: run `chronode data build {name}`.")
    with _lock(name):
        # Another process may have fetched it while this one waited.
        if not again and (copy := present(name)) is not None:
            return copy
        _install(known, console or _stderr())
    return Copy(cache_folder() / name, "cache")


def keep(name: str, note: str = "simulated here") -> Copy:
    """Takes the files that were written to `cache_folder() / name` as the data set from now on.

    Args:
        name: of the data set.
        note: what `notes` will tell of it.
    """
    known, top = data_set(name), cache_folder() / name
    with _lock(name):
        if not wanted_files(known, top):
            raise DataError(f"{top} has none of the files of {name} ({', '.join(known.reads)}).")
        seal(known, top, note, {})
    return Copy(top, "cache", (note,))


@contextmanager
def _draft(known: DataSet, note: str, sources: dict[str, str]) -> Iterator[Path]:
    """A new folder that is sealed and takes the place of the cached copy; it is removed if anything goes wrong."""
    cache, beginning = cache_folder(), f".{known.name}-"
    for left in cache.glob(f"{beginning}*"):  # by a process that was killed; the lock is ours
        shutil.rmtree(left)
    draft = Path(tempfile.mkdtemp(dir=cache, prefix=beginning))
    try:
        yield draft
        seal(known, draft, note, sources)
        draft.chmod(0o755)  # mkdtemp makes private folders
        if (cache / known.name).exists():
            (cache / known.name).rename(cache / f"{beginning}old")
        draft.rename(cache / known.name)
    finally:
        for left in cache.glob(f"{beginning}*"):
            shutil.rmtree(left)


def _install(known: DataSet, console: Console) -> None:
    """Gets the files, unpacks them into the cache and removes the archives."""
    sources = _sources(known, console)
    try:
        with _draft(known, "", {source.name: hash_of(source) for source in sources}) as draft:
            for source in sources:
                if not unpack(source, draft, known.wants):
                    raise DataError(f"{source.name} has none of the files of {known.name} ({', '.join(known.reads)}).")
            check_published(known, draft)
    except (DataError, UnsafeArchive) as error:
        for source in sources:
            _set_aside(source)
        raise DataError(f"{known.name} is refused: {error}") from error
    for remote, source in zip(known.remote, sources, strict=True):
        if not _expected(remote) and known.published is None:
            _trust(remote, source, console)
        if source.parent == _downloads():
            source.unlink()


def _set_aside(source: Path) -> None:
    """Renames a download that is refused, so that it is not taken for a good one; a mirror is left alone."""
    if source.parent == _downloads():
        source.replace(source.with_name(source.name + ".refused"))


def _sources(known: DataSet, console: Console) -> list[Path]:
    """The files to download, in the mirror or the cache; each has the hash it must have."""
    mirrored = _mirrored(known)
    for remote, path in zip(known.remote, mirrored, strict=False):
        if wrong := _wrong(path, _expected(remote)):
            raise DataError(f"{path} is refused: {wrong}. Replace it, or remove it from the mirror.")
    return mirrored or [_downloaded(known, remote, console) for remote in known.remote]


def _mirrored(known: DataSet) -> list[Path]:
    """All files to download, if the mirror has all of them."""
    mirror = mirror_folder()
    paths = [] if mirror is None else [mirror / known.name / remote.file for remote in known.remote]
    return paths if all(path.is_file() for path in paths) else []


def _downloaded(known: DataSet, remote: Remote, console: Console) -> Path:
    from ._resume import Resuming

    path, expected = _downloads() / remote.file, _expected(remote)
    if path.is_file() and (wrong := _wrong(path, expected)):
        _set_aside(path)
        _say(console, f"{path.name} is refused: {wrong}; it is now {path.name}.refused.")
    pooch = _pooch()
    pooch.get_logger().setLevel("WARNING")
    downloader = Resuming(path.with_name(path.name + ".part"), console)
    problems: list[str] = []
    for url in remote.urls:
        try:
            pooch.retrieve(url, expected or None, fname=path.name, path=path.parent, downloader=downloader)
            return path
        except OSError as error:  # those of requests are among them
            problems.append(f"{url}: {error}")
        except ValueError as error:  # pooch has removed what was downloaded
            first = "" if remote.hash else f" To trust it nevertheless, remove {_first_hash(remote)}."
            problems.append(f"{url} is refused, it is not what it should be: {error}{first}")
    raise DataError(_how_to_get(known, problems))


def _expected(remote: Remote) -> str:
    """The published hash, or the one of the first download, or nothing."""
    first = _first_hash(remote)
    return remote.hash or (f"sha256:{first.read_text().split()[0]}" if first.is_file() else "")


def _trust(remote: Remote, path: Path, console: Console) -> None:
    digest = hash_of(path)
    with replacing(_first_hash(remote)) as draft:
        draft.write_text(f"{digest}  {remote.file}\n")  # as `sha256sum --check` reads it
    _say(console, f"{remote.file}: no hash is published; remembered sha256 {digest} from now on.")


def _first_hash(remote: Remote) -> Path:
    return _downloads() / f"{remote.file}.sha256"


def _wrong(path: Path, expected: str) -> str:
    kind, _, digest = expected.partition(":")
    found = hash_of(path, kind) if expected else ""
    return "" if found == digest else f"its {kind} is {found}, not {digest}"


def _how_to_get(known: DataSet, problems: list[str]) -> str:
    """Everything someone without a connection needs to get the files by hand."""
    lines = [f"{known.name} is not here and could not be downloaded.", *(f"  {problem}" for problem in problems)]
    unknown = "none is published" if known.published is None else "that of the files in it is known"
    for remote in known.remote:
        path = _downloads() / remote.file
        if not path.is_file():
            lines += [f"  file:      {remote.file}", *(f"  address:   {url}" for url in remote.urls)]
            lines += [f"  hash:      {_expected(remote) or unknown}", f"  put it at: {path}"]
    lines.append(f"or set CHRONODE_DATA_MIRROR to a folder that has {known.name}/ with the same files.")
    return "\n".join(lines)


def _downloads() -> Path:
    return cache_folder() / "downloads"


def _lock(name: str) -> BaseFileLock:
    """One process at a time changes a data set in the cache."""
    from filelock import FileLock

    folder = cache_folder() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _downloads().mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"the cache cannot be written ({error}); set CHRONODE_DATA to a folder that can.") from error
    return FileLock(folder / f"{name}.lock")


def _say(console: Console, message: str) -> None:
    console.print(message, soft_wrap=True, markup=False, highlight=False)


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True)


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloading data sets needs pooch: pip install 'chronode[train]'") from error
    return pooch
