"""Outputs of a model as predictions: probabilities of classes, or values in the units of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..runs import Trained
from ..training import Predictions


class Decoder:
    """Turns outputs of a model into predictions.

    Attributes:
        columns: Names of the parts of a prediction, which are those of `chronode predict`.
    """

    def __init__(self, trained: Trained):
        self._classes, self._scaler = trained.objective.classes, trained.scaler
        self._names = trained.output_names()
        self._chances = [f"p_{name}" for name in self._classes or ()]
        self.columns = [*self._names, *self._chances]

    def predictions(self, ids: Sequence[Any], outputs: Tensor) -> Predictions:
        """Returns the predictions of many series."""
        return Predictions(np.asarray(ids), list(self._values(outputs)), self._classes, self._names)

    def rows(self, outputs: Tensor) -> list[dict[str, Any]]:
        """Returns predictions by name."""
        values = self._values(outputs)
        texts = [[float(str(value)) for value in row] for row in values]  # with the digits of float32
        if self._classes is None:
            return [dict(zip(self._names, row, strict=True)) for row in texts]
        likeliest = [self._classes[place] for place in values.argmax(-1).tolist()]
        return [
            {self._names[0]: name, **dict(zip(self._chances, row, strict=True))}
            for name, row in zip(likeliest, texts, strict=True)
        ]

    def _values(self, outputs: Tensor) -> NDArray[np.float32]:
        if self._classes is not None:
            outputs = outputs.softmax(-1)
        elif self._scaler is not None:
            outputs = self._scaler.inverse_target(outputs)
        return outputs.float().numpy()
