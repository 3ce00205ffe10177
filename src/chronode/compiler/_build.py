"""Builds generated sources with the machine's C++ compiler, into a private cache.

A library's name is a hash of everything it depends on: source, headers, compiler, flags, CPU. It is written under a
temporary name and renamed, so a killed build leaves nothing that could be loaded, and two processes may build
at once. Nothing is loaded from a folder or file that another user owns or may write to.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

from .._version import __version__
from ..kernels._library import cpu_description, march

NATIVE = Path(__file__).parent.parent / "kernels" / "native"
_FLAGS = "-std=c++17 -O3 -fPIC -shared -ffp-contract=fast -fno-math-errno -fno-trapping-math -fvisibility=hidden"
_SEAL = b"chronode compiled kernel, sha256 "
_STALE_SECONDS = 3600
_HEADERS = ("compiled_step.h", "compiled_math.h", "vmath.h", "simd.h")  # what a generated source includes


class BuildError(Exception):
    """Raised when a kernel cannot be built; the message gives the reason."""


def load(source: str) -> ctypes.CDLL:
    """Returns the library of a source, built now unless it is in the cache.

    Raises:
        BuildError: There is no compiler, it failed, or the cache cannot be used.
    """
    path = _folder() / f"{_key(source)}.so"
    if not is_intact(path):
        _build(source, path)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the compiled kernel {path} cannot be loaded ({error})") from error


def is_built(source: str) -> bool:
    """Returns whether a source's library is in the cache."""
    return is_intact(_folder(create=False) / f"{_key(source)}.so")


def compiler() -> list[str]:
    """Returns the command of the C++ compiler: $CXX, g++ or clang++."""
    chosen = os.environ.get("CXX")
    for command in [shlex.split(chosen)] if chosen else [["g++"], ["clang++"], ["c++"]]:
        if command and shutil.which(command[0]):
            return command
    raise BuildError(f"the C++ compiler CXX={chosen!r} was not found" if chosen else "no C++ compiler was found")


def cache_folder() -> Path:
    """Returns the folder of compiled kernels: $CHRONODE_CACHE, or chronode in the user's cache folder."""
    chosen = os.environ.get("CHRONODE_CACHE")
    if chosen:
        return Path(chosen).expanduser() / "compiled"
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "chronode" / "compiled"
    except RuntimeError as error:
        raise BuildError("there is no home folder for compiled kernels: set CHRONODE_CACHE") from error


def is_intact(path: Path) -> bool:
    """Returns whether a library exists, only this user can write to it, and its contents are unchanged."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(found.st_mode) or not _is_private(found):
        return False
    content = path.read_bytes()
    body, seal = content[: -len(_SEAL) - 64], content[-len(_SEAL) - 64 :]
    return seal == _SEAL + hashlib.sha256(body).hexdigest().encode()


def _is_private(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _folder(create: bool = True) -> Path:
    folder = cache_folder()
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        if not create:
            return folder
        raise BuildError(f"the cache {folder} cannot be used ({error.strerror}): set CHRONODE_CACHE") from error
    if not stat.S_ISDIR(found.st_mode) or not _is_private(found):
        raise BuildError(f"the cache {folder} belongs to, or can be written by, another user: set CHRONODE_CACHE")
    return folder


def _key(source: str) -> str:
    parts = [source, _headers(), _version(), *_flags(), cpu_description(), __version__]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _headers() -> str:
    return "".join((NATIVE / name).read_text(encoding="utf-8") for name in _HEADERS)


def _version() -> str:
    return _version_of(tuple(compiler()))


@functools.cache
def _version_of(command: tuple[str, ...]) -> str:
    try:
        completed = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C++ compiler {shlex.join(command)} does not run ({error})") from error
    return f"{shlex.join(command)} {completed.stdout}"


def _flags() -> list[str]:
    return [*_FLAGS.split(), *march(), *shlex.split(os.environ.get("CHRONODE_CXXFLAGS", ""))]


def _build(source: str, path: Path) -> None:
    _remove_stale(path.parent)
    try:
        with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as folder:
            text, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
            text.write_text(source, encoding="utf-8")
            command = [*compiler(), *_flags(), f"-I{NATIVE}", str(text), "-o", str(library), "-lpthread", "-ldl"]
            _run(command)
            body = library.read_bytes()
            with library.open("ab") as file:
                file.write(_SEAL + hashlib.sha256(body).hexdigest().encode())
                file.flush()
                os.fsync(file.fileno())
            library.chmod(0o700)
            library.replace(path)
    except OSError as error:
        raise BuildError(f"the cache {path.parent} cannot be written ({error.strerror}): set CHRONODE_CACHE") from error


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"the C++ compiler does not run ({error})") from error
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise BuildError(f"the C++ compiler failed ({first.strip()[:300]})")


def _remove_stale(folder: Path) -> None:
    """Removes the temporary files of killed builds."""
    for left in folder.glob(".build-*"):
        try:
            if time.time() - left.lstat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue
