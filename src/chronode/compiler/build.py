"""Builds generated sources with the machine's C++ compiler, into a private cache.

A library's name is a hash of everything it depends on: source, headers, compiler, flags, CPU. It is written under a
temporary name and renamed, so a killed build leaves nothing that could be loaded, and two processes may build
at once. Nothing is loaded from a folder or file that another user owns, may write to or could replace. Before the
cache, kernels that came with the package are searched, whose names are hashes of source and headers alone.
"""

from __future__ import annotations

import ctypes
import functools
import grp
import hashlib
import os
import pwd
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._version import __version__
from ..kernels import cpu_description, march, prebuilt_folder

NATIVE = Path(__file__).parent.parent / "kernels" / "native"
_FLAGS = "-std=c++17 -O3 -fPIC -shared -ffp-contract=fast -fno-math-errno -fno-trapping-math -fvisibility=hidden"
_FLAGS_VARIABLE = "CHRONODE_CXXFLAGS"
_SEAL = b"chronode compiled kernel, sha256 "  # CMakeLists.txt writes the same
_STALE_SECONDS = 3600
_TIMEOUT = "CHRONODE_COMPILE_TIMEOUT"
_TIMEOUT_SECONDS = 300.0
_VERSION_SECONDS = 60.0
_hung: set[str] = set()  # compilers that did not finish: nobody waits for them twice
_HEADERS = ("compiled_step.h", "compiled_math.h", "vmath.h", "simd.h")  # what a generated source includes


class BuildError(Exception):
    """Raised when a kernel cannot be built; the message gives the reason."""


def load(source: str) -> ctypes.CDLL:
    """Returns the library of a source, built now unless it is in the cache.

    Raises:
        BuildError: There is no compiler, it failed, or the cache cannot be used.
    """
    path = _prebuilt(source)
    if path is None:
        path = _folder() / f"{_key(source)}.so"
        if not is_intact(path):
            Building(source).wait()
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the compiled kernel {path} cannot be loaded ({error})") from error


def is_built(source: str) -> bool:
    """Returns whether a source's library came with the package or is in the cache."""
    return is_prebuilt(source) or is_intact(_folder(create=False) / f"{_key(source)}.so")


def is_prebuilt(source: str) -> bool:
    """Returns whether a source's library came with the package, so that no compiler is needed."""
    return _prebuilt(source) is not None


def prebuilt_name(source: str) -> str:
    """Returns the name of a source's library in the package, without its ending."""
    return hashlib.sha256("\0".join([source, _headers(), __version__]).encode()).hexdigest()[:32]


def _prebuilt(source: str) -> Path | None:
    folder = None if os.environ.get(_FLAGS_VARIABLE) else prebuilt_folder()
    path = None if folder is None else folder / f"{prebuilt_name(source)}.so"
    return path if path is not None and path.is_file() and _is_sealed(path) else None


def compiler() -> list[str]:
    """Returns the command of the C++ compiler: $CXX, g++ or clang++."""
    chosen = os.environ.get("CXX")
    for command in [_words("CXX")] if chosen else [["g++"], ["clang++"], ["c++"]]:
        if command and shutil.which(command[0]):
            return command
    raise BuildError(f"the C++ compiler CXX={chosen!r} was not found" if chosen else "no C++ compiler was found")


def check() -> None:
    """Raises `BuildError` if nothing could be built: no compiler that runs, or no cache that is safe."""
    _version()
    _flags()
    _timeout()
    _folder(create=False)


def cache_folder() -> Path:
    """Returns the folder of compiled kernels: $CHRONODE_CACHE, or chronode in the user's cache folder."""
    chosen = os.environ.get("CHRONODE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        if chosen:
            return Path(chosen).expanduser() / "compiled"
        return (Path(base) if base else Path.home() / ".cache") / "chronode" / "compiled"
    except RuntimeError as error:
        raise BuildError("there is no home folder for compiled kernels: set CHRONODE_CACHE") from error


def is_intact(path: Path) -> bool:
    """Returns whether a library exists, only this user can write to it, and its contents are unchanged."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or not _is_private(status):
        return False
    return _is_sealed(path)


def _is_sealed(path: Path) -> bool:
    content = path.read_bytes()
    body, seal = content[: -len(_SEAL) - 64], content[-len(_SEAL) - 64 :]
    return seal == _SEAL + hashlib.sha256(body).hexdigest().encode()


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _folder(create: bool = True) -> Path:
    folder = cache_folder()
    _check_parents(folder)
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        if not create and isinstance(error, FileNotFoundError):
            return folder
        raise BuildError(f"the cache {folder} cannot be used ({error.strerror}): set CHRONODE_CACHE") from error
    if not stat.S_ISDIR(status.st_mode) or not _is_private(status):
        raise BuildError(_not_private(folder))
    return folder


def _not_private(folder: Path) -> str:
    return f"the cache {folder} belongs to, or can be written by, another user: set CHRONODE_CACHE"


def _check_parents(folder: Path) -> None:
    """Refuses a cache that another user could replace as a whole, because a folder or link above it is theirs."""
    try:
        above = dict.fromkeys([*folder.absolute().parents, *folder.resolve().parents])
        statuses = {parent: parent.lstat() for parent in above if os.path.lexists(parent)}
    except (OSError, RuntimeError) as error:
        raise BuildError(f"the cache {folder} cannot be used ({error}): set CHRONODE_CACHE") from error
    for parent, entry in statuses.items():
        if entry.st_uid not in (0, os.geteuid()) or (stat.S_ISDIR(entry.st_mode) and _others_may_replace(entry)):
            raise BuildError(f"{_not_private(folder)} ({parent} does or can)")


def _others_may_replace(status: os.stat_result) -> bool:
    """Returns whether another user may rename what is in a folder; in one like /tmp, only the owner of a file may."""
    if status.st_mode & stat.S_ISVTX:
        return False
    by_group = status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid)
    return bool(status.st_mode & stat.S_IWOTH or by_group)


def _is_own_group(group: int) -> bool:
    """Returns whether a group is the private one that many systems create for each user."""
    try:
        user, entry = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user}


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
    code, output, _ = _run([*command, "--version"], min(_timeout(), _VERSION_SECONDS))
    if code != 0:
        raise BuildError(f"the C++ compiler failed ({shlex.join(command)} --version: exit code {code})")
    return f"{shlex.join(command)} {output}"


def _flags() -> list[str]:
    return [*_FLAGS.split(), *march(), *_words(_FLAGS_VARIABLE)]


class Building:
    """A library that is being built by another process.

    Args:
        source: The source of the kernel.
        path: File of the library; by default in the cache.

    Raises:
        BuildError: There is no compiler, or the cache cannot be used.
    """

    def __init__(self, source: str, path: Path | None = None):
        self.path = path or _folder() / f"{_key(source)}.so"
        self._limit = _timeout()
        self._end = time.monotonic() + self._limit
        _remove_stale(self.path.parent)
        with _writing_to(self.path.parent):
            self._folder = tempfile.TemporaryDirectory(
                prefix=".build-", dir=self.path.parent, ignore_cleanup_errors=True
            )
            text, self._library = Path(self._folder.name) / "kernel.cpp", Path(self._folder.name) / "kernel.so"
            text.write_text(source, encoding="utf-8")
        files = [f"-I{NATIVE}", str(text), "-o", str(self._library), "-lpthread", "-ldl"]
        self._process = _start([*compiler(), *_flags(), *files])
        self._stop = weakref.finalize(self, _stop, self._process, os.getpid())

    def is_done(self) -> bool:
        """Returns whether the library is in the cache; False as long as the compiler runs.

        Raises:
            BuildError: The compiler failed, or took too long.
        """
        if self._process.poll() is None:
            if time.monotonic() > self._end:
                self._stop()
                raise _too_slow(compiler()[0], self._limit)
            return False
        self.wait()
        return True

    def wait(self) -> None:
        """Waits for the library.

        Raises:
            BuildError: The compiler failed, or took too long.
        """
        try:
            left = max(0.0, self._end - time.monotonic())
            code, _, errors = _finish(self._process, compiler()[0], left, self._limit)
            if code != 0:
                first = next((line for line in errors.splitlines() if "error" in line), errors.strip()[:200])
                raise BuildError(f"the C++ compiler failed ({first.strip()[:300]})")
            with _writing_to(self.path.parent):
                body = self._library.read_bytes()
                with self._library.open("ab") as file:
                    file.write(_SEAL + hashlib.sha256(body).hexdigest().encode())
                    file.flush()
                    os.fsync(file.fileno())
                self._library.chmod(0o700)
                self._library.replace(self.path)
        finally:
            self._stop.detach()
            self._folder.cleanup()


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildError(f"the cache {folder} cannot be written ({error.strerror}): set CHRONODE_CACHE") from error


def _run(command: list[str], seconds: float) -> tuple[int, str, str]:
    """Runs the compiler, for at most that long; returns its exit code, output and error messages."""
    return _finish(_start(command), command[0], seconds, seconds)


def _start(command: list[str]) -> subprocess.Popen[str]:
    if command[0] in _hung:
        raise BuildError(f"the C++ compiler {command[0]} did not finish before")
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        return subprocess.Popen(command, **pipes, text=True, errors="replace", start_new_session=True)
    except (OSError, ValueError) as error:
        raise BuildError(f"the C++ compiler {command[0]} does not run ({error})") from error


def _finish(process: subprocess.Popen[str], command: str, seconds: float, limit: float) -> tuple[int, str, str]:
    """Waits for what is left of the limit; returns exit code, output and error messages."""
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise _too_slow(command, limit) from error
    finally:
        _stop(process, os.getpid())
    return process.returncode, output, errors


def _too_slow(command: str, seconds: float) -> BuildError:
    _hung.add(command)
    return BuildError(f"the C++ compiler {command} did not finish within {seconds:g} s; {_TIMEOUT} sets another limit")


def _stop(process: subprocess.Popen[str], owner: int) -> None:
    """Ends a compiler that hangs, or that nobody waits for any more, with the processes that it started."""
    if os.getpid() == owner and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _timeout() -> float:
    text = os.environ.get(_TIMEOUT, "")
    try:
        seconds = float(text) if text else _TIMEOUT_SECONDS
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise BuildError(f"{_TIMEOUT}={text!r} is not a number of seconds above 0")
    return seconds


def _words(variable: str) -> list[str]:
    """Returns the value of an environment variable as a shell splits it."""
    text = os.environ.get(variable, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BuildError(f"{variable}={text!r} cannot be split into words ({error})") from error


def _remove_stale(folder: Path) -> None:
    """Removes the temporary files of killed builds."""
    for left in folder.glob(".build-*"):
        try:
            if time.time() - left.lstat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue
