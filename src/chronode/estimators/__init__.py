"""Estimators: scikit-learn's fit, predict and score for series, on the models of chronode."""

from .classifier import SequenceClassifier
from .forecaster import SequenceForecaster
from .regressor import SequenceRegressor

__all__ = ["SequenceClassifier", "SequenceForecaster", "SequenceRegressor"]
