"""ncps: CfC layers of PyTorch. Scaling, filling, padding and training are the user's."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from loop import HIDDEN, fit
from ncps.torch import CfC
from protocol import STEP_MS, Answer, Series, Way, classes, filled, main, moments
from torch import Tensor, nn


class Network(nn.Module):
    """CfC and a linear map of its output at the last step of the batch, or at each series' own last step."""

    def __init__(self, channels: int, outputs: int, own_last_step: bool) -> None:
        super().__init__()
        self.rnn = CfC(channels, HIDDEN, proj_size=outputs, return_sequences=own_last_step)
        self.own_last_step = own_last_step

    def forward(self, values: Tensor, lengths: Tensor, gaps: Tensor | None = None) -> Tensor:
        outputs, _ = self.rnn(values, timespans=gaps)
        return outputs[torch.arange(len(outputs)), lengths - 1] if self.own_last_step else outputs


class Padded:
    """Zero-padded batches `(values, lengths)`, with `(batch, time)` gaps if `timespans`."""

    def __init__(self, train: list[Series], fill: bool, gap_channel: bool, timespans: bool) -> None:
        self.mean, self.deviation = moments(train)
        self.fill, self.gap_channel, self.timespans = fill, gap_channel, timespans

    def __call__(self, series: list[Series]) -> tuple[Tensor, ...]:
        lengths = [len(each.times) for each in series]
        gaps = [np.diff(each.times, prepend=each.times[0] - STEP_MS) / STEP_MS for each in series]
        rows = []
        for each, gap in zip(series, gaps, strict=True):
            values = (each.values - self.mean) / self.deviation
            values = filled(values) if self.fill else values
            rows.append(np.column_stack([values, gap]) if self.gap_channel else values)
        batch = (_pad(rows), torch.tensor(lengths))
        return (*batch, _pad(gaps)) if self.timespans else batch


def _pad(rows: list[np.ndarray]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.float32) for row in rows], batch_first=True)


def way(
    title: str,
    *,
    fill: bool = True,
    gap_channel: bool = False,
    timespans: bool = False,
    own_last_step: bool = False,
) -> Way:
    def train_network(train: list[Series], seed: int) -> Answer:
        torch.manual_seed(seed)
        channels = train[0].values.shape[1] + gap_channel
        network = Network(channels, len(classes(train)), own_last_step)
        return fit(network, Padded(train, fill, gap_channel, timespans), train, seed)

    return Way(title, "API reference, ncps.torch.CfC", train_network)


if __name__ == "__main__":
    main(
        "ncps",
        version("ncps"),
        [
            way("CfC, values as they are, `return_sequences=False`", fill=False),
            way("CfC, filled forward, gaps as `timespans`", timespans=True),
            way("CfC, filled forward, `return_sequences=False`"),
            way(
                "CfC, filled forward, gap as a channel, output indexed at each series' last step by own code",
                gap_channel=True,
                own_last_step=True,
            ),
        ],
    )
