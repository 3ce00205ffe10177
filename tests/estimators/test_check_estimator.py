"""scikit-learn's own checks of estimators, and the few that series do not pass."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from chronode.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor

# The checks give 2-D arrays, whose rows are series of one channel. docs/estimators.md lists the same exceptions.
LENGTHS = "the columns of a 2-D array are steps of time: another number of them is another length, which is welcome"
CHANNELS = "n_features_in_ counts channels, and a 2-D array has one"
DIGITS = "float32: batches of other sizes may differ in the last digit, beyond the check's 1e-7"
FUTURE = "the y of a forecaster is (series, horizon, channels)"
SHORT = "a series of one step has no future to learn from"

BATCHES = "a series of weight 2 is not two series: other batches are drawn, in another number of steps"

ONE = "a 1-D array is one series"

ALL = {"check_n_features_in": CHANNELS, "check_n_features_in_after_fitting": LENGTHS, "check_fit2d_predict1d": ONE}
WEIGHTS = {"check_sample_weight_equivalence_on_dense_data": BATCHES}
MAY_FAIL = {"check_methods_subset_invariance": DIGITS, "check_methods_sample_order_invariance": DIGITS}
ESTIMATORS = [
    (
        SequenceClassifier("rnn", hidden_size=8, epochs=8, batch_size=32, learning_rate=0.05),
        {**ALL, **WEIGHTS, "check_classifiers_train": LENGTHS},
    ),
    (SequenceRegressor("rnn", hidden_size=8, epochs=16, batch_size=32, learning_rate=0.05), {**ALL, **WEIGHTS}),
    (
        SequenceForecaster("rnn", hidden_size=8, epochs=2, batch_size=32),
        {
            **ALL,
            "check_fit_score_takes_y": FUTURE,
            "check_pipeline_consistency": FUTURE,
            "check_fit2d_1feature": SHORT,
            "check_fit1d": ONE,
        },
    ),
]


# The three share most of their code: `make test` runs all checks of the classifier and of the forecaster.
SLOW = {SequenceRegressor: pytest.mark.slow}


@pytest.mark.parametrize(
    ("estimator", "exceptions"),
    [pytest.param(*pair, marks=SLOW.get(type(pair[0]), []), id=type(pair[0]).__name__) for pair in ESTIMATORS],
)
def test_scikit_learns_checks_pass(estimator, exceptions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(
            estimator, on_fail=None, on_skip=None, expected_failed_checks={**MAY_FAIL, **exceptions}
        )
    failed = {check["check_name"]: str(check["exception"]) for check in found if check["status"] == "failed"}
    assert not failed
    # An exception that is none any more must leave the list.
    assert {check["check_name"] for check in found if check["status"] == "xfail"} >= set(exceptions)
    assert sum(check["status"] == "passed" for check in found) > 30


def test_the_part_of_check_classifiers_train_before_its_other_lengths_passes():
    X, y = make_blobs(n_samples=300, random_state=0)
    X, y = StandardScaler().fit_transform(X), np.array(["a", "b", "c"])[y]
    estimator = ESTIMATORS[0][0].set_params(random_state=0)
    assert estimator.fit(X, y).score(X, y) > 0.83
    assert estimator.predict(X[:, :1]).shape == (300,)
