"""Thresholds against counting by hand over all thresholds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.judge import choose_threshold, rates_at
from chronode.settings import SettingError

ROWS = st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=2, max_size=30).filter(
    lambda rows: len({positive for _, positive in rows}) == 2
)


EVERY = (np.arange(21) + 0.5) / 21  # between all probabilities


def counted(rows, threshold):
    """(true positives, false positives, missed, rest), one row at a time."""
    counts = [0, 0, 0, 0]
    for chance, positive in rows:
        counts[2 * (chance / 21 < threshold) + (not positive)] += 1
    return counts


@settings(max_examples=100, deadline=None)
@given(ROWS, st.floats(0.01, 0.99))
def test_rates_are_those_of_counting(rows, threshold):
    found = rates_at([chance / 21 for chance, _ in rows], [positive for _, positive in rows], [threshold])
    true, false, missed, rest = counted(rows, threshold)
    assert found.sensitivity[0] == true / (true + missed)
    assert found.specificity[0] == rest / (rest + false)
    assert found.flagged[0] == (true + false) / len(rows)
    assert np.isnan(found.precision[0]) if not true + false else found.precision[0] == true / (true + false)
    assert np.isnan(found.npv[0]) if not missed + rest else found.npv[0] == rest / (missed + rest)
    odds = threshold / (1 - threshold)
    assert found.net_benefit[0] == pytest.approx((true - false * odds) / len(rows))


@settings(max_examples=100, deadline=None)
@given(ROWS, st.floats(0.1, 10), st.floats(0.1, 10))
def test_no_threshold_costs_less(rows, fn, fp):
    chances, positive = [chance / 21 for chance, _ in rows], [own for _, own in rows]
    chosen = choose_threshold(chances, positive, cost={"fn": fn, "fp": fp})

    def cost(threshold):
        _, false, missed, _ = counted(rows, threshold)
        return fn * missed + fp * false

    assert cost(chosen) <= min(cost(threshold) for threshold in EVERY) + 1e-6


@settings(max_examples=100, deadline=None)
@given(ROWS, st.sampled_from([0.3, 0.5, 0.9, 1.0]))
def test_a_sensitivity_or_specificity_is_reached_and_not_more_than_needed(rows, wanted):
    chances, positive = [chance / 21 for chance, _ in rows], [own for _, own in rows]
    every = EVERY

    def sensitivity(threshold):
        true, _, missed, _ = counted(rows, threshold)
        return true / (true + missed)

    def specificity(threshold):
        _, false, _, rest = counted(rows, threshold)
        return rest / (rest + false)

    chosen = choose_threshold(chances, positive, sensitivity=wanted)
    best = max(specificity(one) for one in every if sensitivity(one) >= wanted)
    assert sensitivity(chosen) >= wanted
    assert specificity(chosen) == best
    chosen = choose_threshold(chances, positive, specificity=wanted)
    assert specificity(chosen) >= wanted
    assert sensitivity(chosen) == max(sensitivity(one) for one in every if specificity(one) >= wanted)


def test_equal_costs_are_decided_by_the_costs_themselves():
    assert choose_threshold([0.05, 0.9], [False, True], cost={"fn": 4, "fp": 1}) == pytest.approx(0.2)
    low = choose_threshold([0.5, 0.9], [False, True], cost={"fn": 4, "fp": 1})
    assert 0.5 < low < 0.55


@pytest.mark.parametrize(
    ("options", "argument"),
    [({}, "cost"), ({"cost": {"fn": 1}}, "cost"), ({"cost": {"fn": 1, "fp": 1}, "sensitivity": 0.9}, "sensitivity"),
     ({"sensitivity": 1.5}, "sensitivity"), ({"specificity": 0.0}, "specificity")],
)  # fmt: skip
def test_what_cannot_be_chosen_by_is_refused(options, argument):
    with pytest.raises(SettingError) as refused:
        choose_threshold([0.1, 0.9], [False, True], **options)
    assert refused.value.argument == argument


def test_one_class_alone_is_refused():
    with pytest.raises(ValueError, match="both classes"):
        choose_threshold([0.1, 0.9], [True, True], sensitivity=0.5)
