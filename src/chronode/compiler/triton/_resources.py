"""Compiles generated kernels for a GPU that does not need to be present, and reports their resources.

triton includes an assembler, so no driver is needed. The numbers come from the compiler and are not measured.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ._emit import Source
from ._launch import load, tiles

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""A100, H100, MI300."""
_WHOLE = ("every", "tiles", "first", "total", "T", "B")


@dataclass(frozen=True)
class Variant:
    """A pass of a kernel and the settings that it is compiled with."""

    name: str
    kernel: str
    settings: dict[str, Any]

    def source(self, source: Source, dtype: str) -> ASTSource:
        """Returns the source that triton compiles, for states of `dtype`, "fp32" or "fp64"."""
        kernel = load(source.text)[self.kernel]
        constants = {
            **self.settings,
            "STATE": tl.float64 if dtype == "fp64" else tl.float32,
            "CHUNK": source.chunks[self.kernel == "backward"],
            "BLOCK_B": tiles(1, source.units).rows,
            "BLOCK_U": tiles(1, source.units).columns,
        }

        def kind(name: str) -> str:
            if name in constants:
                return "constexpr"
            if name in _WHOLE or name.endswith(("_step", "_row")):
                return "i32"
            return "*i64" if name == "lengths" else f"*{dtype}"

        return ASTSource(kernel, {name: kind(name) for name in kernel.arg_names}, constants)


def variants(source: Source) -> Iterator[Variant]:
    """Yields both passes, in all forms that differ in their loads and stores."""
    keep = sum(1 << part for part in source.states)
    yield Variant("forward", "forward", {"RAGGED": True, "LAST": False, "KEEP": keep})
    yield Variant("forward, last", "forward", {"RAGGED": True, "LAST": True, "KEEP": 0})
    yield Variant("backward", "backward", {"RAGGED": True, "LAST": 0, "WANT_X": True, "WANT_DT": True})
    yield Variant("backward, last", "backward", {"RAGGED": False, "LAST": 1, "WANT_X": True, "WANT_DT": False})


@dataclass(frozen=True)
class Resources:
    """Resources of a kernel: registers and spilled bytes per thread, shared memory per program."""

    registers: int
    spilled: int
    shared: int

    @property
    def warps(self) -> int:
        """Number of warps, one per program, that fit on a multiprocessor of compute capability 8.0 or 9.0."""
        per_warp = -(-self.registers * 32 // 256) * 256
        return min(32, 65536 // per_warp)


def compile_for(source: Source, variant: Variant, target: str, dtype: str = "fp32") -> Resources:
    """Compiles a variant to machine code."""
    compiled = triton.compile(variant.source(source, dtype), target=TARGETS[target], options={"num_warps": 1})
    if "cubin" in compiled.asm:
        registers, stack = _of_cubin(compiled.asm["cubin"])
        spilled = _spilled(compiled.asm["ptx"], target) if stack else 0  # a sine has a table of its own there
    else:
        assembly = compiled.asm["amdgcn"]
        registers = int(re.findall(r"\.vgpr_count:\s+(\d+)", assembly)[0])
        spilled = 4 * int(re.findall(r"\.vgpr_spill_count:\s+(\d+)", assembly)[0])
    return Resources(registers, spilled, compiled.metadata.shared)


def _of_cubin(binary: bytes) -> tuple[int, int]:
    """Returns registers and local memory (where spilled registers go), as reported by cuobjdump."""
    output = _output("cuobjdump", ["--dump-resource-usage"], binary)
    counts = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", output)}
    return counts["REG"], counts["STACK"] + counts["LOCAL"]


def _spilled(ptx: str, target: str) -> int:
    """Returns the bytes that the assembler stores to and loads from local memory to free registers."""
    tool = "ptxas" if target == "sm_80" else "ptxas-blackwell"  # which triton takes from sm_90 on
    (name,) = re.findall(r"^\.target (\w+)", ptx, re.MULTILINE)
    output = _output(tool, ["-v", f"--gpu-name={name}", "-o", "/dev/null"], ptx.encode())
    return sum(map(int, re.findall(r"(\d+) bytes spill", output)))


def _output(tool: str, options: list[str], content: bytes) -> str:
    """Returns what a tool of NVIDIA's that triton includes prints about a file."""
    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / tool
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel"
        file.write_bytes(content)
        done = subprocess.run([str(program), *options, str(file)], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
