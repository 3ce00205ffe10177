"""Resources of the GPU kernels and a lower bound on their time from memory traffic: computed, not measured.

`python -m chronode_bench.gpu -o benchmarks/gpu.md` writes the report; it needs triton, but no GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chronode.storage import replacing

BANDWIDTH = {"900 GB/s (V100)": 900e9, "1,555 GB/s (A100)": 1555e9, "3,350 GB/s (H100)": 3350e9}
MULTIPROCESSORS = {"sm_80": 108, "sm_90": 132}
"""Number of multiprocessors of an A100 and an H100."""
HIDDEN = (32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Shape:
    """A stack of UnICORNN layers over a batch.

    Example:
        >>> Shape("a task", 100, 32, 1, 128, 2).milliseconds(900e9, keep=True) > 0
        True
    """

    name: str
    time: int
    batch: int
    inputs: int
    hidden: int
    layers: int

    def traffic(self, keep: bool) -> int:
        """Returns the bytes that forward and backward read and write, each array once, in float32."""
        elements = self.time * self.batch * self.hidden
        # Forward: u written by the product and read by the kernel, y written; forces and states at every 8th step.
        forward = 3 * elements + (elements + 2 * elements // 8 if keep else 2 * elements // 128)
        # Backward without forces: all of that again, with the forces.
        again = 0 if keep else 4 * elements + 2 * elements // 8
        # Forces, states, the gradient of y read; du and y written; du read for two products, y for one.
        backward = 5 * elements + 2 * elements // 8 + 3 * elements
        between = (self.layers - 1) * 2 * elements  # a layer's output read by the next, its gradient written
        ends = 2 * self.time * self.batch * self.inputs
        return 4 * (self.layers * (forward + again + backward) + between + ends)

    def milliseconds(self, bandwidth: float, keep: bool) -> float:
        """Returns the time of that traffic alone."""
        return 1e3 * self.traffic(keep) / bandwidth


SHAPES = (
    Shape("psMNIST, 3 layers", 784, 64, 1, 128, 3),
    Shape("psMNIST, 3 layers", 784, 32, 1, 256, 3),
    Shape("noise-padded CIFAR-10, 3 layers", 1000, 30, 96, 128, 3),
    Shape("EigenWorms, 2 layers", 17984, 8, 6, 32, 2),
    Shape("T1000 B128 H128 L2", 1000, 128, 1, 128, 2),
)


def report() -> Iterator[str]:
    """Yields the report, line by line, in Markdown."""
    yield "# Compiler report of the GPU kernels"
    yield ""
    yield "Nothing here was measured, because no GPU was available. Registers, spills and shared memory are those of"
    yield "the compiled kernels (`cuobjdump --dump-resource-usage`; the assembler for gfx942); the rest is computed"
    yield "from them."
    yield "`make gpu-report` writes this page."
    yield from _resources()
    yield from _occupancy()
    yield from _roofline()


def _resources() -> Iterator[str]:
    from chronode.kernels.triton import TARGETS, compile_for, variants

    yield from ("", "## Registers per thread, bytes spilled, bytes of shared memory", "")
    yield "| kernel | " + " | ".join(TARGETS) + " | sm_80, bfloat16 | warps of 64 on an sm_80 multiprocessor |"
    yield "| --- |" + " ---: |" * (len(TARGETS) + 2)
    for variant in variants():
        found = [compile_for(variant, target) for target in TARGETS]
        found.append(compile_for(variant, "sm_80", dtype="bf16"))
        cells_text = " | ".join(f"{each.registers}, {each.spilled}, {each.shared}" for each in found)
        yield f"| {variant.name} | {cells_text} | {found[0].warps} |"


def _occupancy() -> Iterator[str]:
    from chronode.kernels.triton import compile_for, tiles, variants

    forward, backward = (next(v for v in variants() if v.name == f"UnICORNN {way}") for way in ("forward", "backward"))
    yield from ("", "## Occupancy of UnICORNN's kernels at B = 64", "")
    yield "A program is one warp; a multiprocessor holds at most 32 programs. The others wait."
    yield ""
    yield (
        "| H | programs | forward: registers, warps that fit | backward: registers, warps that fit | "
        "multiprocessors in use, A100 | H100 |"
    )
    yield "| ---: | ---: | ---: | ---: | ---: | ---: |"
    for hidden in HIDDEN:
        across, along = tiles(64, hidden).grid
        cells = [compile_for(way, "sm_80", hidden) for way in (forward, backward)]
        cells_text = " | ".join(f"{each.registers}, {each.warps}" for each in cells)
        used = " | ".join(f"{min(across * along, count)} of {count}" for count in MULTIPROCESSORS.values())
        yield f"| {hidden} | {across * along} | {cells_text} | {used} |"


def _roofline() -> Iterator[str]:
    yield from ("", "## Lower bound on the time of one training batch: bytes moved / bandwidth (computed)", "")
    yield "The time of the memory traffic alone, in float32, with every array read and written once. The recurrence is"
    yield "a chain of T steps and takes at least T times the latency of a step; this and launches are not included."
    yield ""
    yield "| shape | memory | MiB | " + " | ".join(BANDWIDTH) + " |"
    yield "| --- | --- | ---: |" + " ---: |" * len(BANDWIDTH)
    for shape in SHAPES:
        for memory, keep in (("fast", True), ("low", False)):
            times = " | ".join(f"{shape.milliseconds(speed, keep):.2f} ms" for speed in BANDWIDTH.values())
            size = f"T{shape.time} B{shape.batch} H{shape.hidden}"
            name = shape.name if size in shape.name else f"{shape.name} ({size})"
            yield f"| {name} | {memory} | {shape.traffic(keep) / 2**20:,.0f} | {times} |"


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
