"""Benchmarks of cells that are linear in their state: their products, the loop, and a scan in torch beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from chronode import compiler
from chronode.kernels import backend
from chronode.nn import Layer, LinearCell, create

from .compiled import least, prepare

CELLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("linoss", {"discretization": kind}) for kind in ("exact", "im", "imex")),
    *(("d-linoss", {"discretization": kind}) for kind in ("exact", "imex")),
    ("lru", {}),
    ("s5", {}),
)
TIME, BATCH, UNITS = 1000, 128, 128
CHUNK = 32  # steps of a chunk of the scan in torch; other sizes were not tried


@dataclass(frozen=True)
class ScanTimes:
    """CPU seconds of one training batch on one thread.

    Attributes:
        name: Model and discretization.
        gaps: "equal" or "irregular".
        ours: The compiled layer.
        products: Its two products, B u and C h, alone.
        chunked: An associative scan in chunks, in torch; None for irregular gaps.
        loop: The loop of the driver.
    """

    name: str
    gaps: str
    ours: float
    products: float
    chunked: float | None
    loop: float

    def ratios(self) -> tuple[float, float | None, float]:
        """Returns ours / products, chunked / ours and loop / ours."""
        chunked = None if self.chunked is None else self.chunked / self.ours
        return self.ours / self.products, chunked, self.loop / self.ours


def time_scans(pick: str, repeats: int, tell: Callable[[str], None]) -> list[ScanTimes]:
    """Times all linear state-space models whose name contains `pick`, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        chosen = [(name, settings) for name, settings in CELLS if pick.lower() in name]
        return [
            _times(name, settings, gaps, repeats, tell) for name, settings in chosen for gaps in ("equal", "irregular")
        ]
    finally:
        torch.set_num_threads(threads)


def _times(name: str, settings: dict[str, Any], gaps: str, repeats: int, tell: Callable[[str], None]) -> ScanTimes:
    title = " ".join([name, *settings.values()])
    tell(f"{title}, {gaps} gaps")
    torch.manual_seed(0)
    layer = create(name, UNITS, UNITS, **settings)
    (cell,) = compiler.cells_of(layer)
    x = torch.randn(BATCH, TIME, UNITS, requires_grad=True)
    dt = torch.ones(BATCH, TIME) if gaps == "equal" else torch.rand(BATCH, TIME) + 0.5
    prepare(layer)

    def ours() -> Tensor:
        return layer(x, dt=dt)[0]

    def loop() -> Tensor:
        with backend("torch"):
            return layer(x, dt=dt)[0]

    def products() -> Tensor:
        return x @ cell.B.T @ cell.C.T

    runs = [ours, products] + ([lambda: chunked_scan(layer, x)] if gaps == "equal" else [])
    seconds = least(runs, repeats, _backward)
    slow = least([loop], 1, _backward)[0]
    return ScanTimes(title, gaps, seconds[0], seconds[1], seconds[2] if gaps == "equal" else None, slow)


def _backward(y: Tensor) -> None:
    y.backward(torch.ones_like(y))


def chunked_scan(layer: Layer, x: Tensor) -> Tensor:
    """Runs one linear cell with M of 2 x 2 over equal gaps of 1, by an associative scan within chunks of time.

    Within a chunk, sums over 1, 2, 4, ... steps are combined; then the ends of the chunks follow each other.
    """
    (cell,) = compiler.cells_of(layer)
    assert isinstance(cell, LinearCell)
    u = cell.project(x.transpose(0, 1))
    steps = len(u)
    rows, forcing = cell.recurrence()(u, u.new_ones(1, 1))
    one = torch.stack([torch.stack([torch.as_tensor(v).expand(1, cell.units)[0] for v in row]) for row in rows])
    h = torch.stack(forcing, dim=-2).unflatten(-2, (2, cell.copies))  # (T, B, 2, copies, P)
    h = torch.nn.functional.pad(h, (0, 0, 0, 0, 0, 0, 0, 0, 0, -steps % CHUNK)).unflatten(0, (-1, CHUNK))
    power, reach = one, 1
    while reach < CHUNK:
        h = torch.cat([h[:, :reach], h[:, reach:] + _apply(power, h[:, :-reach])], dim=1)
        power, reach = _apply(power, power), 2 * reach
    powers = [one]
    for _ in range(CHUNK - 1):
        powers.append(_apply(one, powers[-1]))
    whole, carried = torch.stack(powers)[:, None], [torch.zeros_like(h[0, 0])]
    for chunk in h[:-1]:
        carried.append(chunk[-1] + _apply(powers[-1], carried[-1]))
    h = h + _apply(whole, torch.stack(carried)[:, None])
    states = h.flatten(0, 1)[:steps].flatten(2, 3).unbind(2)
    return cell.readout(states, u).transpose(0, 1)


def _apply(matrix: Tensor, h: Tensor) -> Tensor:
    """Multiplies `(..., 2, 2, P)` with `(..., 2, copies, P)`, unit by unit."""
    columns = [matrix[..., :, column, None, :] * h[..., column : column + 1, :, :] for column in (0, 1)]
    return columns[0] + columns[1]


def as_dicts(times: Sequence[ScanTimes]) -> list[dict[str, Any]]:
    """Returns the results as plain data."""
    return [asdict(one) for one in times]


def as_markdown(times: Sequence[ScanTimes], machine: str) -> str:
    """Returns the results as a table, followed by the machine."""
    shape = f"T{TIME} B{BATCH} H{UNITS} P{UNITS}"
    lines = [f"| {shape}, training | gaps | ms | / two products | scan in torch / it | loop / it |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: |"]
    for one in times:
        ours, chunked, loop = one.ratios()
        scan = "" if chunked is None else f"{chunked:.1f}"
        lines.append(f"| {one.name} | {one.gaps} | {1e3 * one.ours:.0f} | {ours:.2f} | {scan} | {loop:.1f} |")
    return "\n".join([*lines, "", machine])
