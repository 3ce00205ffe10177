"""Explanations: contributions sum to the difference of outputs, also of trees and counts, and equal exact ones."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from chronode import ModelSpec, SequenceModel
from chronode.data import from_list
from chronode.judge import permutation_importance
from chronode.model.start import fit_stack
from chronode.training import Objective, Settings, Trained, explain, fit, integrated_gradients
from chronode.training._start import put_start


def series(count=60, *, static=True, classes=True, seed=0, channels=2):
    """Series whose target depends on the first channel and on the first static value by a threshold."""
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=(int(length), channels)) for length in rng.integers(4, 9, size=count)]
    fixed = rng.normal(size=(count, 2))
    score = np.array([one[:, 0].mean() for one in values]) + (fixed[:, 0] > 0) * static
    target = np.where(score > np.median(score), "yes", "no").tolist() if classes else score.tolist()
    times = [np.cumsum(rng.exponential(size=len(one))) for one in values]
    names = ["pulse", "warmth", "noise"][:channels]
    s = from_list(values, times=times, target=target, channels=names, dtype=np.float64)
    return replace(s, static=fixed, static_names=("age", "dose")) if static else s


def stacked(s, *, network=True):
    """A model that starts from a stack with trees, and whose network adds something."""
    torch.manual_seed(0)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4)).double()
    put_start(model, with_trees(s))
    if network:
        torch.nn.init.normal_(model.head.weight, std=0.5)
    return model.eval()


def with_trees(s):
    """A fitted stack of a linear model and trees."""
    from chronode.model.start._stacked import _boosted, _stack, describe_features, fit_each

    linear = fit_each(s, s[:0], describe_features(s, ("summaries",)), seed=0)[0]
    boosted = _boosted(s, None, 0)
    assert boosted is not None
    return _stack([linear, boosted], torch.tensor([0.6, 0.4], dtype=torch.float64))


@pytest.mark.parametrize(
    ("network", "classes"),
    [
        (True, True),
        (False, False),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
    ],
)
def test_contributions_of_a_stack_with_trees_sum_to_the_change(network, classes):
    s = series(classes=classes)
    model, goal = stacked(s, network=network), Objective.for_data(s)
    found = explain(model, goal, s[:8], ("score",))
    total = found.reference + found.channels.sum(1) + found.static.sum(1)
    assert total == pytest.approx(found.output, abs=2e-3)
    assert (np.abs(total - found.output) <= found.error + 1e-9).all()
    assert found.spans.sum(1) == pytest.approx(found.channels)
    batch = s[:8].batch()
    with torch.no_grad():
        predicted = model(batch.x, **batch.inputs)
        plain = model(0 * batch.x, **{**batch.inputs, "static": 0 * batch.static})
    if classes:
        predicted, plain = predicted.softmax(-1), plain.softmax(-1)
    column = goal.positive_number if classes else 0
    assert found.output == pytest.approx(predicted[:, column].numpy())
    assert found.reference == pytest.approx(plain[:, column].numpy())
    assert np.abs(found.by_occlusion).max() > 1e-3
    assert found.static_names == ("age", "dose")


def test_occlusion_gives_the_shapley_values_of_trees():
    """With a network of zeros and a linear part of zeros, the exact values follow from all orders of the groups."""
    s = series(classes=False, channels=1)
    model = stacked(s, network=False)
    model.start.get_buffer("share")[0] = 0.0
    found = integrated_gradients(model, s, 0, spans=1)
    batch = s.batch([0])

    def output(seen):
        static = torch.where(torch.tensor([1 in seen, 2 in seen]), batch.static, 0.0)
        with torch.no_grad():
            return float(model(batch.x * (0 in seen), **{**batch.inputs, "static": static}))

    exact, orders = np.zeros(3), list(permutations(range(3)))
    for order in orders:
        for place, group in enumerate(order):
            exact[group] += output(set(order[: place + 1])) - output(set(order[:place]))
    exact /= len(orders)
    drawn = np.array([found.values.sum(), *found.static])
    assert drawn.sum() == pytest.approx(exact.sum(), abs=1e-9)
    assert drawn == pytest.approx(exact, abs=0.35 * np.abs(exact).max() + 1e-9)  # 16 of the orders are drawn
    assert found.error < 1e-9
    assert found.by_occlusion == pytest.approx(found.output - found.reference)


def test_static_columns_of_a_linear_head_contribute_weight_times_value():
    s = series(classes=False)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4)).double()
    with torch.no_grad():
        model.head.weight[:, :4] = 0
    found = integrated_gradients(model, s, 3)
    weight = model.head.weight[0, 4:].detach().numpy()
    assert found.static == pytest.approx(weight * s.static[3])
    assert found.values == pytest.approx(0.0)


def test_spans_hold_the_contributions_of_their_steps():
    s = series(static=False, classes=False)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4)).double()
    found = explain(model, Objective.for_data(s), s[:3], ("score",), spans=3)
    for row in range(3):
        single, times = integrated_gradients(model, s, row), s[row].times
        place = np.minimum((3 * (times - times[0]) / np.ptp(times)).astype(int), 2)
        by_hand = np.stack([single.values[place == span].sum(0) for span in range(3)])
        assert found.spans[row] == pytest.approx(by_hand, abs=1e-6)


def test_values_are_explained_in_their_own_units():
    from chronode.data import Scaler

    s = series(static=False, classes=False)
    scaler = Scaler.fit(s)
    scaled = scaler.transform(s)
    trained = fit(scaled, "gru", Settings(epochs=2), objective=Objective.for_data(scaled, scaler=scaler))
    found = trained.explain(scaled[:4])
    assert found.output == pytest.approx(np.concatenate(trained.predict(scaled[:4]).values), abs=1e-5)
    assert found.reference + found.channels.sum(1) == pytest.approx(found.output, abs=2e-3)


def test_text_columns_are_one_column_and_a_wrong_class_is_refused():
    from chronode.settings import SettingError

    s = series(static=False)
    s = from_list(
        [one.values for one in s], times=[one.times for one in s], target=["a", "b", "c"] * 20, dtype=np.float64,
        channels=["ward=a", "ward=b"],
    )  # fmt: skip
    s = replace(s, categories={"ward": ("a", "b")})
    trained = fit(s, "gru", Settings(epochs=1))
    found = trained.explain(s[:6])
    assert found.channel_names == ("ward",)
    best = np.stack(trained.predict(s[:6]).values).argmax(1)
    assert found.names == tuple(f"p({'abc'[one]})" for one in best)
    assert trained.explain(s[:2], of="c").names == ("p(c)", "p(c)")
    with pytest.raises(SettingError) as refused:
        trained.explain(s[:2], of="d")
    assert refused.value.argument == "of"


# ---- permutation importance --------------------------------------------------------------------------------


def linear_trained(s):
    """A stack of models of the summaries, without a network."""
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 2)).double()
    put_start(model, fit_stack(s, s[:0]))
    return Trained(model.eval(), Objective.for_data(s))


def test_importance_is_what_shuffling_by_hand_gives():
    s = series(80, classes=False)
    trained = linear_trained(s)
    found = permutation_importance(trained, s, repeats=3, seed=4)
    assert set(zip(found.names, found.kinds, strict=True)) == {
        ("pulse", "channel"), ("warmth", "channel"), ("age", "static"), ("dose", "static"),
    }  # fmt: skip
    true = s.target.values[:, 0]

    def rmse(data):
        return float(np.sqrt(np.mean((np.concatenate(trained.predict(data).values) - true) ** 2)))

    assert found.value == pytest.approx(rmse(s), rel=1e-5)
    rng, losses = np.random.default_rng(9), []
    for _ in range(30):
        donors = rng.permutation(len(s))
        static = s.static.copy()
        static[:, 0] = static[donors, 0]
        losses.append(rmse(replace(s, static=static)) - rmse(s))
    place = found.names.index("age")
    assert found.losses[place] == pytest.approx(np.mean(losses), abs=4 * np.std(losses))
    assert found.low[place] < found.losses[place] < found.high[place]
    assert found.low[place] > 0
    assert found.names[:2] in (("pulse", "age"), ("age", "pulse"))
    useless = found.names.index("dose")
    assert found.low[useless] < 0.02


def test_intervals_of_useless_columns_contain_zero_and_few_steps_are_measured_if_asked():
    s = series(80, static=False, classes=True, channels=3)
    trained = fit(s, "gru", Settings(epochs=8))
    found = permutation_importance(trained, s, repeats=2, most_steps=1_000)
    assert 2 <= found.series < len(s)
    noise = found.names.index("noise")
    assert found.low[noise] < 0.05
