"""SequenceClassifier: classification of series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ..data import Sequences, Target, number_names
from ..settings import one_of
from ..training import Trained
from ._arguments import COMMON, Argument
from ._base import SequenceEstimator
from ._files import EstimatorFacts
from ._inputs import series_weights

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class _Facts(EstimatorFacts):
    classes: tuple[bool | int | float | str, ...]
    label_type: str
    positive: bool | int | float | str | None = None

    def labels(self) -> NDArray[Any]:
        """Returns the classes as an array with the type of the labels."""
        kind = np.dtype(self.label_type).kind
        one_of("label_type", kind, ("b", "i", "u", "f", "U", "O"))
        # For text only the kind matters; its length follows from the classes.
        labels = np.array(self.classes, dtype=str if kind == "U" else self.label_type)
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("classes contains a label twice.")
        return labels


class SequenceClassifier(ClassifierMixin, SequenceEstimator):
    """Classifier of series with a recurrent network.

    docs/estimators.md describes X, y, times and groups.

    Attributes:
        classes_: The labels, sorted.
        positive_: The positive one of two labels; None for more labels.
        model_: The trained SequenceModel.
        scaler_: Scaler of the channels, fitted on the training part.
        n_features_in_: Number of channels.
        feature_names_in_: Names of the channels, after training on a long frame.
        history_: One `Epoch` for each pass over the training series.
        best_epoch_: Epoch of the weights, from 1.
        validated_: Metrics of the model on held-out series: its validation part, or by cross-validation after a refit.
        baselines_: Metrics of simple models on the same series, by name.
        notes_: Remarks about the data, and what to try if the model does not beat the best baseline.

    Example:
        >>> rising, falling = np.arange(8.0), -np.arange(5.0)
        >>> X, y = [rising, falling, rising + 1, falling - 1] * 5, ["up", "down"] * 10
        >>> clf = SequenceClassifier("gru", hidden_size=4, batch_size=4, random_state=0).fit(X, y)
        >>> clf.predict([[3.0, 4.0, 5.0], [-3.0, -4.0]]).tolist()
        ['up', 'down']
    """

    _kind = "class"
    _facts_kind = _Facts
    _arguments: ClassVar = {
        **COMMON,
        "class_weight": Argument(
            str | dict[Any, float] | None,
            None,
            'Weights of the classes in the loss: "balanced" (inversely proportional to their frequency), or a mapping '
            "label -> weight (1 for labels that it does not contain); None for equal weights.",
        ),
        "positive": Argument(
            Any,
            None,
            "Positive one of two labels, to which f1, auprc, sensitivity and specificity in `validated_` and "
            "`baselines_` refer; by default the rarer one.",
        ),
    }

    class_weight: str | dict[Any, float] | None
    positive: Any
    classes_: NDArray[Any]
    positive_: Any = None

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
        """Trains on series and their labels.

        Args:
            X: `(n, channels, time)`, `(n, time)`, `(time,)`, a list of arrays or frames, a long frame or Sequences.
                NaN means missing.
            y: One label per series; the column of a frame; None: the target of Sequences.
            times: `(n, time)`, `(time,)` or a list of arrays. None: the steps are counted.
            groups: One per series (or the column of a frame): validation does not divide groups.
            sample_weight: Weight of each series in the loss; of a frame, in the order of the sorted ids.
            id: Column of a long frame that identifies the series.
            time: Column of times; by default the index, if it holds dates.
        """
        s, y = self._new_reader().read(X, y, times=times, groups=groups, id=id, time=time)
        labels = self._labels(s, y)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y has only one class ({str(classes[0])!r}): at least two are needed.")
        weights = self._class_weights(classes)
        s = _with_codes(s, labels, classes, series_weights(sample_weight, s))
        self._train(s, self._roles(X, id, time), weights, classes_=classes)
        return self

    def _data(self, s: Sequences) -> dict[str, Any]:
        return {"positive": None if self.positive is None else number_names(np.asarray([self.positive]))[0]}

    def _keep_fitted(self, fitted: Trained) -> None:
        goal = fitted.objective
        self.positive_ = None if goal.positive is None else self.classes_.tolist()[goal.positive_number]
        super()._keep_fitted(fitted)

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
        """Continues training on more series; scaling and classes are unchanged.

        Args:
            X: As for `fit`.
            y: As for `fit`; labels that did not occur in training are rejected.
            times: As for `fit`.
            groups: As for `fit`.
            sample_weight: As for `fit`.
            id: As for `fit`.
            time: As for `fit`.
            epochs: Passes over these series; by default the argument of the estimator.
        """
        s, y = self._reader().read(X, y, times=times, groups=groups, id=id, time=time)
        labels = self._labels(s, y)
        fresh = np.setdiff1d(labels, self.classes_)
        if len(fresh):
            problem = f"y has classes that did not occur in training: {fresh.tolist()}"
            raise ValueError(f"{problem}; training had {self.classes_.tolist()}. Fit again with all of them.")
        weights = series_weights(sample_weight, s)
        s = _with_codes(self._like_training(s), labels, self.classes_, weights)
        self._train_on(s, epochs, self._class_weights(self.classes_))
        return self

    def predict_proba(
        self, X: Any, times: Any = None, *, id: str | None = None, time: str | None = None
    ) -> NDArray[np.float64]:
        """Returns `(n, classes)` probabilities, in the order of `classes_`; for a frame, in the order of the sorted
        ids.
        """
        s = self._series(X, times, id, time)
        chances = np.stack(self.trained_.predict(self.reading_.inputs(s)).values).astype(np.float64)
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X: Any, times: Any = None, *, id: str | None = None, time: str | None = None) -> NDArray[Any]:
        """Returns the most likely label of each series, `(n,)`."""
        chances = self.predict_proba(X, times, id=id, time=time)
        return self.classes_[chances.argmax(axis=1)]

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
        """Returns the accuracy."""
        s, y = self._reader().read(X, y, times=times, id=id, time=time)
        labels = self._labels(s, y)
        return float(accuracy_score(labels, self.predict(s), sample_weight=sample_weight))

    def _class_weights(self, classes: NDArray[Any]) -> str | list[float] | None:
        """Returns the setting `class_weights` of the training."""
        if self.class_weight is None or isinstance(self.class_weight, str):
            return self.class_weight
        fresh = [label for label in self.class_weight if label not in classes.tolist()]
        if fresh:
            raise ValueError(f"class_weight has {fresh}, which are not classes; the classes are {classes.tolist()}.")
        return [self.class_weight.get(label, 1.0) for label in classes.tolist()]

    def _labels(self, s: Sequences, y: Any) -> NDArray[Any]:
        """Returns one known label per series."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_consistent_length(s, labels)
        check_classification_targets(labels)
        return labels

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts()
        if isinstance(self.class_weight, dict):  # names of JSON are text
            facts["arguments"]["class_weight"] = {str(label): weight for label, weight in self.class_weight.items()}
        kind = self.classes_.dtype.str.lstrip("|")
        return {**facts, "classes": self.classes_.tolist(), "label_type": kind, "positive": self.positive_}

    def _restore(self, facts: _Facts) -> None:
        self.classes_, self.positive_ = facts.labels(), facts.positive
        if len(self.classes_) != self.trained_.objective.num_outputs:
            raise ValueError(f"{len(self.classes_)} classes, but the model has {self.trained_.objective.num_outputs}.")
        if isinstance(self.class_weight, dict):
            labels = {str(label): label for label in self.classes_.tolist()}
            self.class_weight = {labels.get(name, name): weight for name, weight in self.class_weight.items()}


def _with_codes(
    s: Sequences, labels: NDArray[Any], classes: NDArray[Any], weights: NDArray[np.float32] | None
) -> Sequences:
    codes = np.searchsorted(classes, labels).astype(np.int32)
    return replace(s, target=Target(codes, classes=tuple(number_names(classes))), weights=weights)
