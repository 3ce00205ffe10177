"""A network and a start that are fitted apart from each other: their weighted mean."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from chronode.data import Parts, from_list
from chronode.judge import Candidate, race
from chronode.model.start import fit_stack, fit_start
from chronode.model.start._several import SeveralStart
from chronode.settings import SettingError
from chronode.training import Objective, Settings, fit, outputs_in_order


def series(count, seed=0):
    """Classes that depend on a mean, which a linear model sees, and on the size of the last value."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 6, 2)).astype(np.float32)
    score = x[:, :, 0].mean(1) * 3 + 3 * (np.abs(x[:, -1, 1]) - 0.7)
    return from_list(list(x), target=["up" if value > 0 else "down" for value in score])


TRAIN, VALID, TEST = series(240), series(120, 1), series(50, 2)
SETTINGS = Settings(epochs=6, batch_size=16, learning_rate=0.02)


def trained(share=None, start="none", train=TRAIN, **settings):
    return fit(train, "gru", replace(SETTINGS, share=share, **settings), start=start, valid=VALID)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_answer_is_the_weighted_mean_of_both(share):
    network = outputs_in_order(trained().model, TEST).double()
    start = fit_start(TRAIN, VALID).refitted(TRAIN, VALID).outputs(TEST)
    both = trained(share, "linear")
    assert not both.model.is_linear
    torch.testing.assert_close(
        outputs_in_order(both.model, TEST).double(), share * network + (1 - share) * start, atol=2e-5, rtol=1e-5
    )


def test_its_validation_metrics_are_those_of_the_mean():
    both = trained(0.5, "linear", refit=False)
    network, start = trained().model, fit_start(TRAIN, VALID)
    mean = (outputs_in_order(network, VALID) + start.outputs(VALID)) / 2
    truth = torch.tensor(VALID.with_classes(both.objective.classes).target.values)
    assert both.best.metrics["accuracy"] == pytest.approx(float((mean.argmax(1) == truth).float().mean()))
    assert both.best.number == both.best_epoch
    alone = (start.outputs(VALID).argmax(1) == truth).float().mean()
    assert both.record.start.metrics["accuracy"] == pytest.approx(float(alone))


def test_a_network_that_makes_it_worse_is_left_out():
    wrong = Settings(epochs=1, batch_size=240, learning_rate=1e-9, share=0.9)
    alone = fit(TRAIN, "gru", wrong, start="linear", valid=VALID)
    assert alone.model.is_linear and alone.best_epoch == 0
    expected = fit_start(TRAIN, VALID).refitted(TRAIN, VALID).outputs(TEST)
    torch.testing.assert_close(outputs_in_order(alone.model, TEST).double(), expected, atol=1e-6, rtol=1e-6)


def test_a_stack_keeps_its_share_when_it_is_fitted_again():
    few = TRAIN[:90]  # too few for boosting, which takes long
    both = trained(0.25, "stacked", few)
    start = fit_stack(few, VALID).refitted(few, VALID).outputs(TEST)
    network = outputs_in_order(trained(train=few).model, TEST).double()
    torch.testing.assert_close(
        outputs_in_order(both.model, TEST).double(), 0.25 * network + 0.75 * start, atol=2e-5, rtol=1e-5
    )


def test_a_share_needs_a_start():
    with pytest.raises(SettingError) as caught:
        trained(0.5)
    assert caught.value.argument == "share"
    with pytest.raises(SettingError) as caught:
        parts = Parts(TRAIN, VALID, TEST)
        race(parts, Objective.for_data(TRAIN), Settings(share=0.5), [Candidate("gru")], start="none")
    assert caught.value.argument == "share"


def test_a_race_finds_the_share_and_the_training_repeats_it():
    parts = Parts(TRAIN[:90], VALID, TEST)
    candidates = [Candidate("gru", {"hidden_size": 8}, {"learning_rate": 0.02}), Candidate("rnn", {"hidden_size": 4})]
    result = race(parts, Objective.for_data(TRAIN), Settings(epochs=5), candidates, start="stacked")
    apart = [entry for entry in result.entries if "share=" in entry.name]
    assert len(apart) == 2
    assert all(len(entry.rows) == len(VALID) and entry.folds == 1 for entry in apart)
    if (share := result.winner.training.get("share")) is not None:
        assert result.settings.share == share and result.chosen.name == str(result.winner)


def test_a_given_share_is_that_of_every_candidate():
    parts = Parts(TRAIN[:90], VALID, TEST)
    result = race(
        parts,
        Objective.for_data(TRAIN),
        Settings(epochs=2, share=0.4),
        [Candidate("gru", {"hidden_size": 4})],
        start="linear",
    )
    assert {entry.name for entry in result.entries} == {"linear start alone", "gru H=4 share=0.4"}


def test_starts_of_several_targets_are_scaled_together():
    rng = np.random.default_rng(3)
    s = from_list(list(rng.normal(size=(40, 5, 2))), target=rng.normal(size=(40, 2)).astype(np.float32))
    start = SeveralStart({"targets": [{"kind": "summaries", "channels": 2}] * 2, "outputs": [1, 2]})
    for name, tensor in start.named_buffers():
        if name.rpartition(".")[2] in ("weight", "bias"):
            tensor.normal_()
    before = start(s.batch().x)
    start.scale_by(0.3)
    torch.testing.assert_close(start(s.batch().x), 0.3 * before)
