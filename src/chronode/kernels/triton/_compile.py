"""Compiles every kernel for a GPU that does not need to be present, and reports its resources.

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

from .. import triton as sizes
from ._elementwise_kernels import backward_kernel, forward_kernel
from ._steps import tiles
from ._unicornn_kernels import adjoint_kernel, advance_kernel

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""A100, H100, MI300."""
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}

_IN_STATE_PRECISION = {
    advance_kernel: {"y0", "z0", "kept", "yn", "zn", "force"},
    adjoint_kernel: {"kept", "force", "grad_y", "grad_z", "sums", "grad_dt"},
    forward_kernel: set(),
    backward_kernel: {"sums"},
}
_WHOLE = {
    *("dt_step", "dt_sample", "out_step", "out_sample", "force_step", "force_sample", "slot", "part"),
    *("keep_steps", "first", "steps", "T", "B", "H"),
}


@dataclass(frozen=True)
class Variant:
    """A kernel and the settings that it is compiled with."""

    name: str
    kernel: Any
    settings: dict[str, Any]

    def source(self, hidden: int, dtype: str) -> ASTSource:
        """Returns the source that triton compiles, for `hidden` units and inputs of `dtype`."""
        state = "fp64" if dtype == "fp64" else "fp32"
        constants = {
            **self.settings,
            "STATE": tl.float64 if dtype == "fp64" else tl.float32,
            "CHUNK": sizes.CHUNK,
            "BLOCK_B": tiles(1, hidden).rows,
            "BLOCK_H": tiles(1, hidden).columns,
        }
        in_state_precision = set(_IN_STATE_PRECISION[self.kernel])
        if self.settings.get("SRU"):
            in_state_precision.add("states")

        def kind(name: str) -> str:
            if name in constants:
                return "constexpr"
            if name in _WHOLE:
                return "i32"
            if name == "lengths":
                return "*i64"
            return f"*{state if name in in_state_precision else dtype}"

        return ASTSource(self.kernel, {name: kind(name) for name in self.kernel.arg_names}, constants)


def variants() -> Iterator[Variant]:
    """Yields every kernel, in all forms that differ in their loads and stores."""
    plain, all_of_it = {"RAGGED": False, "MASKED": False}, {"RAGGED": True, "MASKED": True}
    yield Variant("UnICORNN forward", advance_kernel, {**plain, "KEEP_FORCE": False, "WRITE": True})
    yield Variant("UnICORNN forward, kept", advance_kernel, {**all_of_it, "KEEP_FORCE": True, "WRITE": True})
    yield Variant("UnICORNN forward, last", advance_kernel, {**plain, "KEEP_FORCE": False, "WRITE": False})
    yield Variant("UnICORNN backward", adjoint_kernel, {**plain, "HAS_GRAD": True, "TIME": False})
    yield Variant("UnICORNN backward, dt", adjoint_kernel, {**all_of_it, "HAS_GRAD": True, "TIME": True})
    yield Variant("UnICORNN backward, last", adjoint_kernel, {**plain, "HAS_GRAD": False, "TIME": False})
    for name, sru in (("IndRNN", False), ("SRU", True)):
        settings = {"SRU": sru, "RAGGED": True}
        yield Variant(f"{name} forward", forward_kernel, {**settings, "KEEP": True, "LAST": False})
        yield Variant(f"{name} forward, last", forward_kernel, {**settings, "KEEP": False, "LAST": True})
        yield Variant(f"{name} backward", backward_kernel, {**settings, "HAS_GRAD": True, "LAST": False})
        yield Variant(f"{name} backward, last", backward_kernel, {**settings, "HAS_GRAD": True, "LAST": True})


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


def compile_for(variant: Variant, target: str, hidden: int = 128, dtype: str = "fp32") -> Resources:
    """Compiles a variant to machine code."""
    compiled = triton.compile(variant.source(hidden, dtype), target=TARGETS[target], options={"num_warps": 1})
    if "cubin" in compiled.asm:
        registers, spilled = _of_cubin(compiled.asm["cubin"])
    else:
        assembly = compiled.asm["amdgcn"]
        registers = int(re.findall(r"\.vgpr_count:\s+(\d+)", assembly)[0])
        spilled = 4 * int(re.findall(r"\.vgpr_spill_count:\s+(\d+)", assembly)[0])
    return Resources(registers, spilled, compiled.metadata.shared)


def _of_cubin(binary: bytes) -> tuple[int, int]:
    """Returns registers and local memory (where spilled registers go), as reported by cuobjdump."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(binary)
        command = [str(tool), "--dump-resource-usage", str(file)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", output)}
    return counts["REG"], counts["STACK"] + counts["LOCAL"]
