"""Estimators with the scikit-learn interface (fit, predict, score) for series."""

try:
    import sklearn
except ModuleNotFoundError:
    raise ImportError("the estimators need scikit-learn: pip install 'chronode[train,estimators]'") from None

from ._backtest import Backtest
from ._classifier import SequenceClassifier
from ._forecaster import SequenceForecaster
from ._regressor import SequenceRegressor

__all__ = ["Backtest", "SequenceClassifier", "SequenceForecaster", "SequenceRegressor"]
