import numpy as np
import pytest
from scipy import stats

from chronode.judge import paired_difference


def test_the_interval_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    one, other = rng.normal(1, 1, 7), rng.normal(0, 1, 7)
    found = paired_difference(dict(enumerate(one)), dict(enumerate(other)))
    reference = stats.ttest_rel(one, other).confidence_interval(0.95)
    assert found is not None and found.n == 7
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high))
    assert found.mean == pytest.approx((one - other).mean())


def test_only_shared_seeds_count():
    found = paired_difference({0: 1.0, 1: 5.0}, {1: 3.0, 2: 0.0})
    assert found == (2.0, None, None, 1)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
