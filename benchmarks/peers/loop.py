"""Training loop for packages that are layers only (ncps, torchcde). Needs torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from protocol import Answer, Series, batches, classes
from torch import Tensor, nn

EPOCHS, BATCH, RATE, HIDDEN = 30, 16, 5e-3, 64

Collate = Callable[[list[Series]], tuple[Tensor, ...]]


def fit(network: nn.Module, collate: Collate, train: list[Series], seed: int) -> Answer:
    """Trains `network(*collate(series))`, which returns logits, with Adam; a batch is padded on its own."""
    labels = torch.tensor([classes(train).index(each.label) for each in train])
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    rng = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        for rows in batches(len(train), BATCH, rng):
            loss = nn.functional.cross_entropy(network(*collate([train[row] for row in rows])), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()

    @torch.no_grad()
    def answer(series: list[Series]) -> NDArray[np.float32]:
        return network(*collate(series)).softmax(1).numpy()

    return answer
