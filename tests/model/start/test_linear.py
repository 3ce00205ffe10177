"""Ridge and logistic regression against scikit-learn; held-out outputs against fits without the fold."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

from chronode.data import from_list, from_numpy
from chronode.data._split import folds_of
from chronode.judge import fit_linear, fit_start
from chronode.model.start._features import Positions
from chronode.model.start._linear import _logistic_path, _ridge_path, fit_classes
from chronode.model.start._start import LinearStart, feature_kinds, outputs_of


def drawn(rows=60, width=5, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width))
    return x, x @ rng.normal(size=(width, outputs)) + 0.3 * rng.normal(size=(rows, outputs)) + 2


@pytest.mark.parametrize("width", [5, 90])
def test_ridge_is_that_of_scikit_learn(width):
    x, y = drawn(width=width)
    penalties = (1e-3, 0.1, 10.0)
    for penalty, (weight, bias) in zip(penalties, _ridge_path(*map(torch.tensor, (x, y)), penalties, 0), strict=True):
        theirs = Ridge(alpha=penalty * len(x) * width).fit(x, y)
        np.testing.assert_allclose(weight.T, theirs.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(bias, theirs.intercept_, rtol=1e-6)


@pytest.mark.parametrize("width", [5, 90])
@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_is_that_of_scikit_learn(width, classes):
    x, _ = drawn(width=width)
    y = (x[:, 0] + 0.5 * np.random.default_rng(1).normal(size=len(x)) > 0).astype(int) + (x[:, 1] > 0) * (classes - 2)
    (weight, bias), *_ = _logistic_path(torch.tensor(x), torch.tensor(y), (0.01,), classes)
    theirs = LogisticRegression(C=1 / (0.01 * len(x) * width), tol=1e-10, max_iter=10_000).fit(x, y)
    chances = torch.softmax(torch.tensor(x) @ weight + bias, 1).numpy()
    # Of two classes scikit-learn has one weight vector, half as strongly penalized as our two.
    if classes == 2:
        theirs = LogisticRegression(C=2 / (0.01 * len(x) * width), tol=1e-10, max_iter=10_000).fit(x, y)
    # Few unknowns are solved for by Newton's method, exactly.
    np.testing.assert_allclose(chances, theirs.predict_proba(x), atol=1e-7 if width == 5 else 2e-3)


def test_held_out_outputs_do_not_depend_on_the_targets_of_their_fold():
    x, y = map(torch.tensor, drawn())
    folds = torch.arange(60) % 5
    one = (1e-2,)
    poisoned = torch.where((folds == 2)[:, None], y + 1e3, y)
    before, after = fit_linear(x, y, folds, penalties=one), fit_linear(x, poisoned, folds, penalties=one)
    torch.testing.assert_close(before.held_out[folds == 2], after.held_out[folds == 2])
    assert not torch.allclose(before.held_out[folds == 1], after.held_out[folds == 1])


def test_the_penalty_grows_with_the_noise():
    x, _ = drawn(rows=40, width=30)
    rng = np.random.default_rng(2)
    signal = x[:, :1] * 2
    clean = fit_linear(torch.tensor(x), torch.tensor(signal), torch.arange(40) % 5)
    noisy = fit_linear(torch.tensor(x), torch.tensor(signal + 8 * rng.normal(size=(40, 1))), torch.arange(40) % 5)
    assert clean.penalty < noisy.penalty


def test_holes_count_as_the_mean_and_extremes_are_kept_within_the_range():
    x, y = map(torch.tensor, drawn())
    found = fit_linear(x, y, torch.arange(60) % 5).linear
    hole, middle = x[:1].clone(), x[:1].clone()
    hole[0, 1], middle[0, 1] = torch.nan, found.mean[1]
    torch.testing.assert_close(found(hole), found(middle))
    far, farther = x[:1].clone(), x[:1].clone()
    far[0, 0], farther[0, 0] = 1e3, 1e9
    torch.testing.assert_close(found(far), found(farther))


@pytest.mark.parametrize(("rows", "most"), [(12, 0.97), (400, 0.9999)])
def test_few_series_without_a_mistake_are_not_certain(rows, most):
    target = torch.arange(rows) % 2
    features = torch.stack([2.0 * target - 1, torch.zeros(rows)], dim=1).double()
    chances = fit_classes(features, target, torch.arange(rows) % 4, 2, logistic=False).linear(features).softmax(1)
    assert bool((chances.argmax(1) == target).all())
    assert 0.9 < float(chances.max()) < most
    assert float(chances.max()) == pytest.approx((rows + 1) / (rows + 2), abs=0.02)


def test_unknown_targets_are_left_out():
    x, y = map(torch.tensor, drawn())
    folds = torch.arange(60) % 5
    holes = y.clone()
    holes[50:, 1] = torch.nan
    whole, part = (
        fit_linear(x, holes, folds, penalties=(0.1,)),
        fit_linear(x[:50], y[:50], folds[:50], penalties=(0.1,)),
    )
    torch.testing.assert_close(whole.linear.weight, part.linear.weight)


def test_folds_keep_groups_together_and_spread_classes():
    s = from_list([[float(i)] for i in range(60)], groups=np.repeat(np.arange(20), 3), target=["a", "a", "b"] * 20)
    folds = folds_of(s, 5)
    assert sorted(np.unique(folds)) == [0, 1, 2, 3, 4]
    assert all(len(set(folds[s.groups == group])) == 1 for group in range(20))


def test_one_group_is_divided_into_blocks():
    s = from_list([[float(i)] for i in range(10)], groups=[0] * 10)
    assert folds_of(s, 5).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def shapes(rows, steps=40, seed=0):
    """Bumps and dips of one width at any place: summaries and single values hardly tell them apart."""
    rng = np.random.default_rng(seed)
    x = 0.3 * rng.normal(size=(rows, steps))
    labels = np.arange(rows) % 2
    for row, label in zip(x, labels, strict=True):
        at = rng.integers(4, steps - 8)
        row[at : at + 4] += np.array([2, -2, 2, -2]) if label else np.array([2, 2, -2, -2])
    return from_numpy(x[..., None], order="NTD", target=[str(v) for v in labels])


def test_patterns_are_chosen_where_shapes_matter():
    train, test = shapes(60), shapes(100, seed=1)
    fitted = fit_start(train, shapes(20, seed=2))
    assert fitted.description["kind"] in ("patterns", "patterns of changes")
    assert (outputs_of(fitted.start, test).argmax(1).numpy() == test.target.values).mean() > 0.9
    assert set(fitted.losses) == {"summaries", "values", "patterns", "patterns of changes"}


def test_values_are_chosen_where_places_matter():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 12, 1))
    y = 2 * x[:, 3, 0] - x[:, 7, 0]
    s = from_numpy(x, order="NTD", target=y, kind="value")
    fitted = fit_start(s[:80], s[80:100])
    assert fitted.description["kind"] == "values"
    np.testing.assert_allclose(outputs_of(fitted.start, s[100:])[:, 0], y[100:], atol=0.05)


def test_a_start_is_built_again_from_what_is_stored():
    train = shapes(40)
    fitted = fit_start(train, train)
    again = LinearStart(fitted.description, 2)
    again.load_state_dict(fitted.start.state_dict())
    batch = train.batch()
    torch.testing.assert_close(again(batch.x), fitted.start(batch.x))


def test_a_target_per_step_has_an_output_per_step():
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(n, 1)) for n in (5, 9, 7, 8, 6, 9)]
    s = from_list(values, target=[np.cumsum(v[:, 0]) / np.arange(1, len(v) + 1) for v in values], per_step=True)
    fitted = fit_start(s, s)
    assert fitted.held_out is None
    out = outputs_of(fitted.start, s)
    np.testing.assert_allclose(out[:, 0], s.target.values[s.steps][:, 0], atol=0.05)


def test_irregular_series_have_no_single_values():
    s = from_list([[1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0]] * 5, target=["a", "b"] * 5)
    assert [kind_of_features["kind"] for kind_of_features in feature_kinds(s)] == ["summaries"]


def test_many_wide_series_have_summaries_only():
    wide = from_list([np.zeros((9, 200))] * 2_000, target=["a", "b"] * 1_000)
    assert [kind_of_features["kind"] for kind_of_features in feature_kinds(wide)] == ["summaries", "values"]


def test_columns_that_have_nothing_to_do_with_each_other_are_not_interpolated():
    """A table as series: every step has its own scale, and a third of the values is missing."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    x = rng.normal(size=(300, 12, 1)) + labels[:, None, None] * rng.choice([-1, 1], 12)[:, None]
    x = x * 10.0 ** rng.integers(-2, 4, 12)[:, None]
    x[rng.random(x.shape) < 1 / 3] = np.nan
    s = from_list(list(x), target=[str(label) for label in labels])
    fitted = fit_start(s[:200], s[:0])
    assert fitted.losses["readings"] < 0.8 * fitted.losses["values"] and fitted.description["kind"] == "readings"
    assert (fitted.outputs(s[200:]).argmax(1).numpy() == labels[200:]).mean() > 0.85


def test_a_table_without_some_of_its_columns_is_seen_by_position():
    """As above, but a third of the steps is gone, also the first and last ones: their times tell which."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    x = rng.normal(size=(300, 12, 1)) + labels[:, None, None] * rng.choice([-1, 1], 12)[:, None]
    kept = [np.flatnonzero(rng.random(12) > 0.3) for _ in x]
    s = from_list(
        [own[at] for own, at in zip(x, kept, strict=True)], times=kept, target=[str(label) for label in labels]
    )
    fitted = fit_start(s[:200], s[:0])
    assert fitted.description["kind"] == "positions" and fitted.losses["positions"] < 0.9 * fitted.losses["summaries"]
    assert (fitted.outputs(s[200:]).argmax(1).numpy() == labels[200:]).mean() > 0.7


@given(st.integers(0, 10_000), st.floats(0.5, 3.0))
def test_positions_are_means_of_what_was_read_there(seed, gap):
    rng = np.random.default_rng(seed)
    lengths, steps = torch.tensor(rng.integers(1, 6, 3)), 4
    x, observed = torch.tensor(rng.normal(size=(3, 5, 2))), torch.tensor(rng.random((3, 5, 2)) < 0.7)
    dt = torch.tensor(rng.uniform(0.2, 4.0, (3, 5)))
    found = Positions(2, steps, gap)(x, lengths=lengths, dt=dt, observed=observed).reshape(3, 2, steps, 2)
    for row, length in enumerate(lengths.tolist()):
        times = np.append(0.0, np.cumsum(dt[row, 1:length].numpy())) / gap
        for side, own in enumerate((times, times[-1] - times)):
            for place, channel in itertools.product(range(steps), range(2)):
                there = (np.floor(own + 0.499) == place) & observed[row, :length, channel].numpy()
                wanted = x[row, :length, channel].numpy()[there].mean() if there.any() else np.nan
                np.testing.assert_allclose(found[row, side, place, channel], wanted, rtol=1e-12)
