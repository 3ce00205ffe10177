"""Location of data sets: a local mirror first, then the cache, then the address of the publisher.

`CHRONODE_DATA` is the cache folder; `CHRONODE_DATA_MIRROR` is a read-only folder with one folder per data set.
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

from ...storage import hash_of, replacing
from ._catalogue import DataSet, Remote, data_set
from ._copies import Copy, DataError, check_published, checked, seal, wanted_files
from ._unpack import UnsafeArchive, unpack

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from rich.console import Console

__all__ = ["Copy", "DataError", "cache_folder", "fetch", "folder", "keep", "mirror_folder", "notes", "present"]


def folder(name: str) -> Path:
    """Returns the verified folder with the published files of a data set, which is downloaded if necessary."""
    return fetch(name).folder


def notes(name: str) -> tuple[str, ...]:
    """Returns how the local copy differs from the published files: nothing, or a line such as "partial: ..."."""
    return fetch(name).notes


def cache_folder() -> Path:
    """Returns the folder for downloads: `CHRONODE_DATA`, or the user's cache folder."""
    if value := os.environ.get("CHRONODE_DATA"):
        return Path(value).expanduser().absolute()
    return Path(_pooch().os_cache("chronode"))


def mirror_folder() -> Path | None:
    """Returns the local mirror, which is tried first: `CHRONODE_DATA_MIRROR`."""
    value = os.environ.get("CHRONODE_DATA_MIRROR")
    if not value:
        return None
    path = Path(value).expanduser().absolute()
    if not path.is_dir():
        raise ValueError(f"CHRONODE_DATA_MIRROR={value!r} is not a folder.")
    return path


def present(name: str, *, rehash: bool = False) -> Copy | None:
    """Returns the verified local copy, or None; nothing is downloaded."""
    entry = data_set(name)
    for origin, top in (("mirror", mirror_folder()), ("cache", cache_folder())):
        # A mirror may contain the downloads themselves instead of their content.
        if top is None or (origin == "mirror" and _mirrored(entry)):
            continue
        try:
            variant = checked(entry, top / name, cache_folder() / "checked.json", rehash=rehash)
        except DataError as error:
            raise DataError(f"{error} {_cure(entry, origin)}") from None
        if variant is not None:
            return Copy(top / name, origin, (variant.note,) if variant.note else ())
    return None


def _cure(entry: DataSet, origin: str) -> str:
    if origin == "cache":
        build = [f"`chronode data build {entry.name}` to finish it"] if entry.simulated else []
        fetch = [f"`chronode data fetch {entry.name} --again`"] if entry.remote else []
        return f"Run {', or '.join(build + fetch)}."
    archives = ", ".join(remote.file for remote in entry.remote)
    offered = f", or put the published files there instead ({archives})" if archives else ""
    return f"Restore it{offered}, or unset CHRONODE_DATA_MIRROR."


def fetch(name: str, *, again: bool = False, console: Console | None = None) -> Copy:
    """Returns the local copy, or a new one from the publisher."""
    entry = data_set(name)
    if not again and (copy := present(name)) is not None:
        return copy
    if not entry.remote:
        raise DataError(f"{name} was not found; it must be built, not downloaded: run `chronode data build {name}`.")
    with _lock(name):
        # Another process may have downloaded it while this one was waiting.
        if not again and (copy := present(name)) is not None:
            return copy
        _install(entry, console or _stderr())
    return Copy(cache_folder() / name, "cache")


def keep(name: str, note: str = "simulated here") -> Copy:
    """Registers the files in `cache_folder() / name` as the data set from now on.

    Args:
        name: Name of the data set.
        note: Note returned by `notes`.
    """
    entry, top = data_set(name), cache_folder() / name
    with _lock(name):
        if not wanted_files(entry, top):
            raise DataError(f"{top} contains none of the files of {name} ({', '.join(entry.reads)}).")
        seal(entry, top, note, {})
    return Copy(top, "cache", (note,))


@contextmanager
def _draft(entry: DataSet, note: str, sources: dict[str, str]) -> Iterator[Path]:
    """Yields a new folder that is sealed and replaces the cached copy; it is removed after an error."""
    cache, beginning = cache_folder(), f".{entry.name}-"
    for left in cache.glob(f"{beginning}*"):  # left by a killed process; this process holds the lock
        shutil.rmtree(left)
    draft = Path(tempfile.mkdtemp(dir=cache, prefix=beginning))
    try:
        yield draft
        seal(entry, draft, note, sources)
        draft.chmod(0o755)  # mkdtemp creates private folders
        if (cache / entry.name).exists():
            (cache / entry.name).rename(cache / f"{beginning}old")
        draft.rename(cache / entry.name)
    finally:
        for left in cache.glob(f"{beginning}*"):
            shutil.rmtree(left)


def _install(entry: DataSet, console: Console) -> None:
    """Downloads the files, unpacks them into the cache and removes the archives."""
    sources = _sources(entry, console)
    try:
        with _draft(entry, "", {source.name: hash_of(source) for source in sources}) as draft:
            for source in sources:
                if not unpack(source, draft, entry.wants):
                    raise DataError(
                        f"{source.name} contains none of the files of {entry.name} ({', '.join(entry.reads)})."
                    )
            check_published(entry, draft)
    except (DataError, UnsafeArchive) as error:
        for source in sources:
            _set_aside(source)
        raise DataError(f"{entry.name} was rejected: {error}") from error
    for remote, source in zip(entry.remote, sources, strict=True):
        if not _expected(remote) and entry.published is None:
            _trust(remote, source, console)
        if source.parent == _downloads():
            source.unlink()


def _set_aside(source: Path) -> None:
    """Renames a rejected download so that it is not used again; a mirror is left unchanged."""
    if source.parent == _downloads():
        source.replace(source.with_name(source.name + ".refused"))


def _sources(entry: DataSet, console: Console) -> list[Path]:
    """Returns the downloads from the mirror or the cache, with verified hashes."""
    mirrored = _mirrored(entry)
    for remote, path in zip(entry.remote, mirrored, strict=False):
        if wrong := _wrong(path, _expected(remote)):
            raise DataError(f"{path} was rejected: {wrong}. Replace it, or remove it from the mirror.")
    return mirrored or [_downloaded(entry, remote, console) for remote in entry.remote]


def _mirrored(entry: DataSet) -> list[Path]:
    """Returns the downloads in the mirror if it has all of them."""
    mirror = mirror_folder()
    paths = [] if mirror is None else [mirror / entry.name / remote.file for remote in entry.remote]
    return paths if all(path.is_file() for path in paths) else []


def _downloaded(entry: DataSet, remote: Remote, console: Console) -> Path:
    from ._resume import Resuming

    path, expected = _downloads() / remote.file, _expected(remote)
    if path.is_file() and (wrong := _wrong(path, expected)):
        _set_aside(path)
        _say(console, f"{path.name} was rejected ({wrong}) and renamed to {path.name}.refused.")
    pooch = _pooch()
    pooch.get_logger().setLevel("WARNING")
    downloader = Resuming(path.with_name(path.name + ".part"), console)
    problems: list[str] = []
    for url in remote.urls:
        try:
            pooch.retrieve(url, expected or None, fname=path.name, path=path.parent, downloader=downloader)
            return path
        except OSError as error:  # includes the errors of requests
            problems.append(f"{url}: {error}")
        except ValueError as error:  # pooch has removed the download
            first = "" if remote.hash else f" To accept it anyway, remove {_first_hash(remote)}."
            problems.append(f"{url} was rejected because its hash is wrong: {error}{first}")
    raise DataError(_how_to_get(entry, problems))


def _expected(remote: Remote) -> str:
    """Returns the published hash, that of the first download, or ""."""
    first = _first_hash(remote)
    return remote.hash or (f"sha256:{first.read_text().split()[0]}" if first.is_file() else "")


def _trust(remote: Remote, path: Path, console: Console) -> None:
    digest = hash_of(path)
    with replacing(_first_hash(remote)) as draft:
        draft.write_text(f"{digest}  {remote.file}\n")  # the format of `sha256sum --check`
    _say(console, f"{remote.file}: no hash is published; later downloads must have sha256 {digest}.")


def _first_hash(remote: Remote) -> Path:
    return _downloads() / f"{remote.file}.sha256"


def _wrong(path: Path, expected: str) -> str:
    kind, _, digest = expected.partition(":")
    actual = hash_of(path, kind) if expected else ""
    return "" if actual == digest else f"its {kind} is {actual}, expected {digest}"


def _how_to_get(entry: DataSet, problems: list[str]) -> str:
    """Explains how to get the files by hand without a connection."""
    lines = [f"{entry.name} was not found and could not be downloaded.", *(f"  {problem}" for problem in problems)]
    unknown = "none is published" if entry.published is None else "the hashes of the files in it are known"
    for remote in entry.remote:
        path = _downloads() / remote.file
        if not path.is_file():
            lines += [f"  file:      {remote.file}", *(f"  address:   {url}" for url in remote.urls)]
            lines += [f"  hash:      {_expected(remote) or unknown}", f"  put it at: {path}"]
    lines.append(f"or set CHRONODE_DATA_MIRROR to a folder that has {entry.name}/ with the same files.")
    lines += [f"or simulate new ones: `chronode data build {entry.name}`."] if entry.simulated else []
    return "\n".join(lines)


def _downloads() -> Path:
    return cache_folder() / "downloads"


def _lock(name: str) -> BaseFileLock:
    """Returns the lock that lets one process at a time change a data set in the cache."""
    from filelock import FileLock

    folder = cache_folder() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _downloads().mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"the cache cannot be written ({error}); set CHRONODE_DATA to a writable folder.") from error
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
