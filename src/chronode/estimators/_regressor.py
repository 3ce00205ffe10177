"""SequenceRegressor: regression of one or more numbers per series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length

from ..data import Sequences, array_target
from ._base import SequenceEstimator
from ._files import EstimatorFacts
from ._inputs import series_weights

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class _Facts(EstimatorFacts):
    flat: bool


class SequenceRegressor(RegressorMixin, SequenceEstimator):
    """Regressor of series with a recurrent network; targets are scaled internally.

    docs/estimators.md describes X, y, times and groups.

    Attributes:
        model_: The trained SequenceModel.
        scaler_: Scaler of channels and targets, fitted on the training part.
        n_features_in_: Number of channels.
        feature_names_in_: Names of the channels, after training on a long frame.
        history_: One `Epoch` for each pass over the training series.
        best_epoch_: Epoch of the weights, from 1.
        validated_: Metrics of the model on held-out series: its validation part, or by cross-validation after a refit.
        baselines_: Metrics of simple models on the same series, by name.
        notes_: Remarks about the data, and what to try if the model does not beat the best baseline.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 1, 5))
        >>> reg = SequenceRegressor("gru", hidden_size=8, epochs=30, random_state=0).fit(X, X.sum(axis=(1, 2)))
        >>> reg.predict(X[:2]).shape, reg.score(X, X.sum(axis=(1, 2))) > 0.8
        ((2,), True)
    """

    _kind = "value"
    _facts_kind = _Facts

    flat_: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        times: Any = None,
        groups: Any = None,
        *,
        sample_weight: Any = None,
        id: str | None = None,
        time: str | None = None,
    ) -> Self:
        """Trains on series and their target values.

        Args:
            X: `(n, channels, time)`, `(n, time)`, `(time,)`, a list of arrays or frames, a long frame or Sequences.
                NaN means missing.
            y: `(n,)` or `(n, targets)`; the column of a frame; None: the target of Sequences.
            times: `(n, time)`, `(time,)` or a list of arrays. None: the steps are counted.
            groups: One per series (or the column of a frame): validation does not divide groups.
            sample_weight: Weight of each series in the loss; of a frame, in the order of the sorted ids.
            id: Column of a long frame that identifies the series.
            time: Column of times; by default the index, if it holds dates.
        """
        s, y = self._new_reader().read(X, y, times=times, groups=groups, id=id, time=time)
        values = self._values(s, y)
        s = _with_values(s, values, series_weights(sample_weight, s))
        self._train(s, self._roles(X, id, time), flat_=values.ndim == 1)
        return self

    def continue_fit(
        self,
        X: Any,
        y: Any = None,
        times: Any = None,
        groups: Any = None,
        *,
        sample_weight: Any = None,
        id: str | None = None,
        time: str | None = None,
        epochs: int | None = None,
    ) -> Self:
        """Continues training on more series; the scaling is unchanged.

        Args:
            X: As for `fit`.
            y: As for `fit`.
            times: As for `fit`.
            groups: As for `fit`.
            sample_weight: As for `fit`.
            id: As for `fit`.
            time: As for `fit`.
            epochs: Passes over these series; by default the argument of the estimator.
        """
        s, y = self._reader().read(X, y, times=times, groups=groups, id=id, time=time)
        values = self._values(s, y)
        before, here = len(self.scaler_.targets), 1 if values.ndim == 1 else values.shape[1]
        if here != before:
            raise ValueError(f"y has {here} targets, but in training it had {before}.")
        self._train_on(_with_values(self._like_training(s), values, series_weights(sample_weight, s)), epochs)
        return self

    def predict(
        self, X: Any, times: Any = None, *, id: str | None = None, time: str | None = None
    ) -> NDArray[np.float64]:
        """Returns `(n,)` or `(n, targets)`, like y; for a frame, in the order of the sorted ids."""
        s = self._series(X, times, id, time)
        values = np.stack(self.trained_.predict(self.reading_.inputs(s)).values).astype(np.float64)
        return values[:, 0] if self.flat_ else values

    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        times: Any = None,
        *,
        id: str | None = None,
        time: str | None = None,
    ) -> float:
        """Returns R², averaged over targets."""
        s, y = self._reader().read(X, y, times=times, id=id, time=time)
        return float(r2_score(self._values(s, y), self.predict(s), sample_weight=sample_weight))

    def _values(self, s: Sequences, y: Any) -> NDArray[np.float64]:
        """Returns one row of finite numbers per series."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        values = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        check_consistent_length(s, values)
        return values

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "flat": self.flat_}

    def _restore(self, facts: _Facts) -> None:
        self.flat_ = facts.flat


def _with_values(s: Sequences, values: NDArray[np.float64], weights: NDArray[np.float32] | None) -> Sequences:
    return replace(s, target=array_target(values, kind="value"), weights=weights)
