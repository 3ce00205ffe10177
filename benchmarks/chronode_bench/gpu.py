"""Resources of the GPU kernels and a lower bound on their time from memory traffic: computed, not measured.

`python -m chronode_bench.gpu -o benchmarks/gpu.md` writes the report; it needs triton, but no GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import chronode
from chronode.compiler import gpu_source_of
from chronode.compiler.triton import Source
from chronode.storage import replacing

MODELS = (
    *("unicornn", "indrnn", "sru", "decay-gru", "mingru", "minlstm"),
    *("linoss", "d-linoss", "lru", "s5", "s4d"),
)
"""Models with kernels of their own; that of `dense-indrnn` is IndRNN's."""
BANDWIDTH = {"900 GB/s (V100)": 900e9, "1,555 GB/s (A100)": 1555e9, "3,350 GB/s (H100)": 3350e9}
MULTIPROCESSORS = {"A100": 108, "H100": 132}
HIDDEN = 128
STEPS, BATCH = 1000, 128


@cache
def source_of(model: str) -> Source:
    """Returns the kernels of a model with 128 features and units."""
    return gpu_source_of(chronode.create(model, HIDDEN, HIDDEN).cells[0])


def report() -> Iterator[str]:
    """Yields the report, line by line, in Markdown."""
    yield "# Compiler report of the GPU kernels"
    yield ""
    yield "Nothing here was measured, because no GPU was available. Registers, spills and shared memory are those of"
    yield "the compiled kernels (`cuobjdump --dump-resource-usage`, `ptxas -v`; the assembler for gfx942); the rest is"
    yield "computed from them."
    yield f"All kernels are emitted by chronode's compiler, here for D = H = {HIDDEN}."
    yield "`make gpu-report` writes this page."
    yield from _resources()
    yield from _occupancy()
    yield from _roofline()


def _resources() -> Iterator[str]:
    from chronode.compiler.triton import TARGETS, compile_for, variants

    yield from ("", "## Registers per thread, bytes spilled, bytes of shared memory", "")
    yield "| kernel | " + " | ".join(TARGETS) + " | steps per chunk | warps of 64 on an sm_80 multiprocessor |"
    yield "| --- |" + " ---: |" * (len(TARGETS) + 2)
    for model in MODELS:
        source = source_of(model)
        for variant in variants(source):
            if variant.name not in ("forward", "backward"):
                continue
            resources = [compile_for(source, variant, target) for target in TARGETS]
            numbers = " | ".join(f"{each.registers}, {each.spilled}, {each.shared}" for each in resources)
            chunk = source.chunks[variant.kernel == "backward"]
            yield f"| {model} {variant.name} | {numbers} | {chunk} | {resources[0].warps} |"


def _occupancy() -> Iterator[str]:
    from chronode.compiler.triton import tiles

    yield from ("", "## Programs at B = 64", "")
    yield "A program is one warp with a tile of 32 elements, one per thread."
    yield ""
    yield "| units | programs | " + " | ".join(f"multiprocessors in use, {name}" for name in MULTIPROCESSORS) + " |"
    yield "| ---: | ---: |" + " ---: |" * len(MULTIPROCESSORS)
    for units in (32, 64, 128, 256, 512, 2048):
        across, along = tiles(64, units).grid
        used = " | ".join(f"{min(across * along, count)} of {count}" for count in MULTIPROCESSORS.values())
        yield f"| {units} | {across * along:,} | {used} |"


def traffic(source: Source) -> int:
    """Returns the bytes per sequence and step that both passes of a kernel read and write, each array once, in float32.

    Example:
        >>> traffic(source_of("indrnn")) // HIDDEN  # a read, y and h kept; a and h read, dy read, da written
        28
    """
    features, outputs = source.features
    kept = source.units * (len(source.states) - len(source.in_y))
    forward = features + outputs + kept
    return 4 * (forward + features + source.units * len(source.states) + outputs + features)


def _roofline() -> Iterator[str]:
    yield from ("", "## Lower bound on the time of the kernels in one training batch: bytes moved / bandwidth", "")
    yield f"T {STEPS:,}, B {BATCH}, H {HIDDEN}, float32, computed: the traffic of both passes, every array read and"
    yield "written once, without the products before and after. The recurrence is a chain of T steps and takes at least"
    yield "T times the latency of a step; this and launches are not included."
    yield ""
    yield "| model | bytes per unit and step | MiB | " + " | ".join(BANDWIDTH) + " |"
    yield "| --- | ---: | ---: |" + " ---: |" * len(BANDWIDTH)
    for model in MODELS:
        source = source_of(model)
        total = STEPS * BATCH * traffic(source)
        times = " | ".join(f"{1e3 * total / speed:.2f} ms" for speed in BANDWIDTH.values())
        yield f"| {model} | {traffic(source) / source.units:.0f} | {total / 2**20:,.0f} | {times} |"


def main() -> None:
    """Prints the report, or writes it to a file."""
    parser = argparse.ArgumentParser(description="Write the report on the GPU kernels.")
    parser.add_argument("-o", "--output", type=Path, help="output file; by default the report is printed")
    output = parser.parse_args().output
    text = "\n".join(report()) + "\n"
    if output is None:
        print(text, end="")
    else:
        with replacing(output) as draft:
            draft.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
