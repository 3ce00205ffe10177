"""Finds the compiled kernels, picks the best instruction set this CPU has, and loads that library once.

The kernels are compiled once per instruction set into ``libchronode_<isa>.so``. Two environment variables
override the choice: ``CHRONODE_ISA`` names the instruction set, ``CHRONODE_KERNELS_DIR`` the folder to look
in (used for sanitizer builds).
"""

import ctypes
import functools
import os
import platform
import threading
from pathlib import Path
from typing import NamedTuple

ABI = 6
"""The value of ``chronode_abi()`` of a usable library, also defined in native/version.cpp."""


class _Isa(NamedTuple):
    label: str
    cpu_flags: frozenset[str]  # as in /proc/cpuinfo


_V3_FLAGS = frozenset({"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"})
_V4_FLAGS = _V3_FLAGS | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}

# Best first: the order in which they are tried.
_ISAS = {
    "v4": _Isa("AVX-512", _V4_FLAGS),
    "v3": _Isa("AVX2", _V3_FLAGS),
    "baseline": _Isa("portable", frozenset()),
}

_lock = threading.Lock()
_loaded: dict[str, ctypes.CDLL] = {}


def library() -> ctypes.CDLL | None:
    """Returns the loaded kernels, or None where none were built.

    Raises:
        ValueError: ``CHRONODE_ISA`` asks for kernels that are not built or that this CPU cannot run.
        RuntimeError: The library is damaged or belongs to another version of chronode.
    """
    isa = _chosen_isa()
    return None if isa is None else load(isa)


def load(isa: str) -> ctypes.CDLL:
    """Returns the library for one of ``available_isas()``; the same object at every call and from every thread."""
    with _lock:
        if isa not in _loaded:
            _loaded[isa] = _open(_folder() / _file_name(isa))
        return _loaded[isa]


def available_isas() -> list[str]:
    """Returns the instruction sets that were built and that this CPU runs, best first."""
    return [isa for isa in _built_isas() if _ISAS[isa].cpu_flags <= _cpu_flags()]


def prebuilt_folder() -> Path | None:
    """Returns the folder of kernels that were compiled with the package, for the instruction set in use."""
    isa = _chosen_isa()
    return None if isa is None else _folder() / f"prebuilt_{isa}"


def status() -> str:
    """Describes which kernels are in use, or why none are, in one line."""
    isa = _chosen_isa()
    if isa is None:
        return f"native kernels: none ({_reason_for_none()}); the torch path runs"
    load(isa)
    import torch  # here, because it takes a second and the loader itself does not need it

    threads = torch.get_num_threads()
    return f"native kernels: {isa} ({_ISAS[isa].label}), {threads} thread{'s' if threads > 1 else ''}"


@functools.cache  # asked at every call of a kernel; the environment is read once
def _chosen_isa() -> str | None:
    available = available_isas()
    forced = os.environ.get("CHRONODE_ISA")
    if not forced:
        return available[0] if available else None
    if forced in available:
        return forced
    if forced not in _ISAS:
        problem = f"is not an instruction set; choose one of {', '.join(_ISAS)}"
    elif forced in _built_isas():
        missing = ", ".join(sorted(_ISAS[forced].cpu_flags - _cpu_flags()))
        problem = f"needs a CPU with {missing}, which this one does not have"
    else:
        problem = f"is not among the kernels built in {_folder()}"
    cure = f"set it to {' or '.join(available)}, or unset it" if available else "unset it"
    raise ValueError(f"CHRONODE_ISA={forced!r} {problem}: {cure}")


def _built_isas() -> list[str]:
    return [isa for isa in _ISAS if (_folder() / _file_name(isa)).is_file()]


def _folder() -> Path:
    return Path(os.environ.get("CHRONODE_KERNELS_DIR") or Path(__file__).parent / "lib")


def _file_name(isa: str) -> str:
    return f"libchronode_{isa}.so"


def _reason_for_none() -> str:
    """Returns the reason recorded by CMake if it built nothing."""
    note = _folder() / "none.txt"
    if note.is_file():
        return note.read_text(encoding="utf-8").strip()
    return f"they are not built in {_folder()}: run `make setup` in the source tree or reinstall chronode"


@functools.cache
def _cpu_flags() -> frozenset[str]:
    """Returns the CPU flags of Linux; empty on other systems, which selects the baseline."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in cpuinfo.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() == "flags":
            return frozenset(flags.split())
    return frozenset()


def march() -> list[str]:
    """Compiler flags for the instruction set in use: that of the machine, or the one in CHRONODE_ISA."""
    forced = os.environ.get("CHRONODE_ISA")
    if forced:
        return {"v4": ["-march=x86-64-v4"], "v3": ["-march=x86-64-v3"]}.get(forced, [])
    return ["-mcpu=native"] if platform.machine() in ("aarch64", "arm64") else ["-march=native"]


def cpu_description() -> str:
    """Returns a description of the instruction set of this CPU."""
    return " ".join([platform.machine(), *sorted(_cpu_flags())])


def _open(path: Path) -> ctypes.CDLL:
    cure = "run `make clean setup` in the source tree, or reinstall chronode"
    try:
        lib = ctypes.CDLL(str(path))
        lib.chronode_isa.restype = ctypes.c_char_p
        abi = lib.chronode_abi()
    except (OSError, AttributeError) as error:
        raise RuntimeError(f"the native kernels in {path} cannot be loaded ({error}): {cure}") from error
    if abi != ABI:
        raise RuntimeError(f"the native kernels in {path} have ABI {abi}, chronode needs ABI {ABI}: {cure}")
    lib.chronode_new_weight_cache.restype = ctypes.c_void_p
    return lib
