"""Times contenders interleaved in one run, so that a busy moment affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .cases import BenchCase


@dataclass(frozen=True)
class Timing:
    """Median seconds of one batch: forward + backward, and forward alone without gradients."""

    train: float
    inference: float


Report = Callable[[str], None]


def time_case(
    case: BenchCase, repeats: int, tell: Report, only: set[str] | None = None, device: str = "cpu"
) -> dict[str, Timing]:
    """Returns each contender's times; slow contenders are repeated less often, but at least 3 times."""
    contenders = {name: run for name, run in case.contenders(device).items() if only is None or name in only}
    train: dict[str, list[float]] = {name: [] for name in contenders}
    inference: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(repeats + 1):
        for name, run in contenders.items():
            if len(train[name]) >= 3 and sum(train[name]) > 20:
                continue
            tell(f"{case.name}: {name}, round {round_number}/{repeats}")
            seconds = _train(run), _inference(run)
            if round_number > 0:  # the first round warms up caches and allocators
                train[name].append(seconds[0])
                inference[name].append(seconds[1])
    return {name: Timing(statistics.median(train[name]), statistics.median(inference[name])) for name in contenders}


def _train(run: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    y = run()
    y.sum().backward()
    return _seconds_since(start, y)


@torch.no_grad()
def _inference(run: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    return _seconds_since(start, run())


def _seconds_since(start: float, y: Tensor) -> float:
    if y.is_cuda:  # so far the kernels are only queued
        torch.cuda.synchronize(y.device)
    return time.perf_counter() - start


def limit(case: BenchCase, repeats: int = 30) -> Timing | None:
    """Returns the time of the matrix products alone, at the speed of a cached sgemm.

    For each product of the forward pass, a training step needs one more for the gradient of its input and one for that
    of its weights. Each shape's speed is the best of several row counts, so that the overhead of a call is not
    included.
    """
    if case.products is None:
        return None
    samples = case.time * case.batch
    forward = train = 0.0
    for rows, inner, columns in case.products:
        work = samples * rows
        sizes = [case.batch, 4 * case.batch, 16 * case.batch]
        ahead = work * min(_seconds(size, inner, columns, repeats) / size for size in sizes)
        back = work * min(_seconds(size, columns, inner, repeats) / size for size in sizes)
        # dW (inner x columns) sums over samples: the same multiplications, with the samples as inner size.
        weights = work * min(_seconds(inner, size, columns, repeats) / size for size in sizes)
        forward += ahead
        train += ahead + back + weights
    return Timing(train, forward)


def _seconds(rows: int, inner: int, columns: int, repeats: int) -> float:
    """Returns the fewest seconds of a matrix product after one warm-up."""
    a, b, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        times.append(time.perf_counter() - start)
    return min(times[1:])
