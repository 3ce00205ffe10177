"""Single steps of live data compared with torch.nn.LSTMCell: `chronode bench --step`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from chronode.nn import create

MODELS = ("mmrnn", "unicornn", "ltc", "irnn", "ernn")
"""The papers' models."""
FEATURES, HIDDEN = 8, 64
MOST = 3.0
"""Maximum time of a stepper of a paper's model, as a multiple of LSTMCell's time."""


@dataclass(frozen=True)
class StepTiming:
    """Median microseconds of one step of one sequence, H = 64, without gradients.

    Attributes:
        model: Name of the model.
        stepper: `layer.stepper(1)`.
        step: `layer.step`.
        lstm_cell: `torch.nn.LSTMCell` with a carried state, in the same rounds.
    """

    model: str
    stepper: float
    step: float
    lstm_cell: float

    @property
    def ratio(self) -> float:
        """A stepper's time over LSTMCell's."""
        return self.stepper / self.lstm_cell

    @property
    def step_ratio(self) -> float:
        """The time of `layer.step` over LSTMCell's."""
        return self.step / self.lstm_cell


@torch.no_grad()
def time_steps(
    models: Sequence[str] = MODELS, repeats: int = 7, calls: int = 200, tell: Callable[[str], None] = lambda _: None
) -> list[StepTiming]:
    """Times steps of all models and of LSTMCell in turn, so that a busy moment affects all of them."""
    x = torch.randn(1, FEATURES)
    lstm = nn.LSTMCell(FEATURES, HIDDEN)
    lstm_state = lstm(x)
    contenders: dict[str, Callable[[], object]] = {"lstm_cell": lambda: lstm(x, lstm_state)}
    for name in models:
        layer = create(name, FEATURES, HIDDEN).eval()
        _, state = layer.step(x)
        contenders[f"{name} step"] = partial(layer.step, x, state, 0.5)
        contenders[f"{name} stepper"] = partial(layer.stepper(1), x, 0.5)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(repeats + 1):
        tell(f"steps, round {round_number}/{repeats}")
        for name, step in contenders.items():
            seconds = _seconds(step, calls)
            if round_number > 0:  # the first round warms up
                found[name].append(1e6 * seconds)
    middle = {name: statistics.median(times) for name, times in found.items()}
    return [StepTiming(n, middle[f"{n} stepper"], middle[f"{n} step"], middle["lstm_cell"]) for n in models]


def _seconds(step: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - start) / calls


def as_dicts(timings: Sequence[StepTiming]) -> list[dict[str, str | float]]:
    """Returns the timings as plain data."""
    return [{**vars(timing), "ratio": timing.ratio, "step_ratio": timing.step_ratio} for timing in timings]


def as_markdown(timings: Sequence[StepTiming]) -> str:
    """Returns the timings as a table."""
    lines = [
        "| one step, B1 H64 | stepper µs | over LSTMCell | layer.step µs | over LSTMCell |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {one.model} | {one.stepper:.1f} | {one.ratio:.2f} | {one.step:.0f} | {one.step_ratio:.1f} |"
            for one in timings
        ),
        f"| torch.nn.LSTMCell | {timings[0].lstm_cell:.1f} | 1 | | |",
    ]
    return "\n".join(lines)
