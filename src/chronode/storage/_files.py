"""Atomic writes: a file is complete or does not exist."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_DRAFT = re.compile(r"\..+-[a-z0-9_]{8}\.draft(\.[^.]*)?")
_WHY_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is exceeded",
    errno.EFBIG: "the file exceeds the size limit of this process (see `ulimit -f`)",
}


class DiskFull(OSError):
    """Not enough space to write a file; the previous file is unchanged."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path next to `path`; on success it is synced and replaces `path`.

    Afterwards the file also survives a power failure. `DiskFull` is raised if there is not enough space. Files left by
    earlier attempts of killed processes are removed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "new" / "a.txt"
        >>> with replacing(target) as draft:
        ...     _ = draft.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    with naming_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, path)
        handle, draft = _new_draft(path)
        try:
            yield draft
            sync(draft)
            # mkstemp creates private files; the final file gets the user's default permissions.
            mask = os.umask(0)
            os.umask(mask)
            draft.chmod(0o666 & ~mask)
            draft.replace(path)
            sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)
            os.close(handle)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yields a new folder next to `path`; on success its files are synced and it replaces `path`.

    What killed processes left of earlier attempts is removed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "store"
        >>> with replacing_folder(target) as draft:
        ...     _ = (draft / "a.txt").write_text("whole")
        >>> (target / "a.txt").read_text()
        'whole'
    """
    with naming_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{_escaped(path.name)}-*.draft"):
            _remove_unlocked(left)
        draft = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-", suffix=".draft"))
        handle = os.open(draft, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield draft
            for file in draft.rglob("*"):
                sync(file)
            mask = os.umask(0)
            os.umask(mask)
            draft.chmod(0o777 & ~mask)
            old = draft.with_name(f"{draft.name.removesuffix('.draft')}-old.draft")
            if path.exists():
                path.rename(old)
            draft.rename(path)
            sync(path.parent)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            os.close(handle)


def _remove_unlocked(folder: Path) -> None:
    """Removes the draft of a folder that no running process writes."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def check_new(path: Path, name: str, *, force: bool = False) -> Path:
    """Refuses a file to write that is there already, or whose folder is not there.

    Example:
        >>> check_new(Path("no/such/folder/out.csv"), "--output")
        Traceback (most recent call last):
            ...
        ValueError: --output no/such/folder/out.csv: there is no folder no/such/folder; create it first.
    """
    if not path.parent.is_dir():
        raise ValueError(f"{name} {path}: there is no folder {path.parent}; create it first.")
    if path.is_dir():
        raise ValueError(f"{name} {path} is a folder; give a file.")
    if path.exists() and not force:
        raise ValueError(f"{name} {path} exists already; --force overwrites it.")
    return path


def check_new_folder(folder: Path, name: str, *, force: bool = False) -> Path:
    """Refuses a folder to write files to that has files already.

    Example:
        >>> check_new_folder(Path("a-new-folder"), "--output").name
        'a-new-folder'
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{name} {folder} is a file; give a folder.")
    if not force and folder.is_dir() and any(folder.iterdir()):
        cure = "--force" if name.startswith("--") else "force=True"
        raise ValueError(f"{name} {folder} is not empty; {cure} overwrites the files in it.")
    return folder


def check_text(path: Path, name: str) -> Path:
    r"""Refuses a path that is not UTF-8: files in it could not be named in JSON, reports and messages.

    Example:
        >>> check_text(Path("run\udcff"), "--output")
        Traceback (most recent call last):
            ...
        ValueError: --output 'run\udcff' is not UTF-8 text: choose a name without such characters.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} {str(path)!a} is not UTF-8 text: choose a name without such characters.") from None
    return path


def sweep(folder: Path, target: Path | None = None) -> None:
    """Removes the drafts that killed processes left in `folder`: all of them, or those of `target`.

    A running process holds a lock on its drafts, so they are kept.
    """
    for path in folder.glob(".*" if target is None else f".{_escaped(target.stem)}-*"):
        if _DRAFT.fullmatch(path.name) and (target is None or path.suffix in (target.suffix, ".draft")):
            with suppress(OSError):  # another process is sweeping, or the file system has no locks
                handle = os.open(path, os.O_RDWR)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(handle)


def _new_draft(path: Path) -> tuple[int, Path]:
    """Returns (handle that holds the lock, path) of a new draft."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=f".draft{path.suffix}")
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):
            return handle, Path(name)
        os.close(handle)  # removed by another process before it was locked


def _escaped(text: str) -> str:
    """Returns a `glob` pattern that matches exactly `text`."""
    return re.sub(r"([*?[])", r"[\1]", text)


def sync(path: Path) -> None:
    """Waits until a file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Converts "no space left" and similar errors while writing `path` into `DiskFull`, which names the file.

    Other system errors without a file name get the name of this file.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, DiskFull):
            raise
        if error.errno in _WHY_FULL:
            raise DiskFull(f"{_WHY_FULL[error.errno]}: {path} could not be written") from error
        if error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def fingerprint(content: Any) -> str:
    """Returns a hash of plain data, such as a configuration, whatever the order of its names.

    Example:
        >>> fingerprint({"epochs": 2, "seed": 0}) == fingerprint({"seed": 0, "epochs": 2})
        True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def hash_of(path: str | Path, kind: str = "sha256") -> str:
    """Returns the hash of a file."""
    digest = hashlib.new(kind)
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def safetensors() -> Any:
    """Imports safetensors, with its functions for torch."""
    try:
        import safetensors.torch
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "safetensors":
            raise
        raise ImportError("models in files need safetensors: pip install 'chronode[predict]'") from None
    return safetensors
