"""Estimators: scikit-learn's fit, predict and score for series, on the models of chronode."""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ImportError("the estimators need scikit-learn: pip install 'chronode[train,estimators]'") from None

from ._classifier import SequenceClassifier
from ._forecaster import SequenceForecaster
from ._regressor import SequenceRegressor

__all__ = ["SequenceClassifier", "SequenceForecaster", "SequenceRegressor"]
