"""Steps and series of a batch, and the order of predictions."""

import numpy as np
import torch
from fit_checks import small, spec_for

from chronode.data import Parts, from_list
from chronode.training import Settings, fit
from chronode.training._loaders import Place, TrainingBatches, evaluation_batches, jittered, shifted, subsample


def test_subsampling_keeps_the_times_of_what_it_keeps():
    data = from_list(
        [np.arange(1.0, n + 1) for n in (9, 4, 1)],
        times=[np.cumsum(np.arange(1.0, n + 1)) for n in (9, 4, 1)],
        target=[np.arange(1.0, n + 1) for n in (9, 4, 1)],
        per_step=True,
    )
    batch, seen = data.batch(), set()
    for seed in range(30):
        kept = subsample(batch, 0.5, torch.Generator().manual_seed(seed), per_step=True)
        for row, length in enumerate(kept.lengths.tolist()):
            steps = kept.x[row, :length, 0]
            assert (steps.diff() > 0).all()
            seen.add(tuple(steps.tolist()))
            whole = batch.dt[row].cumsum(0)[steps.long() - 1]
            torch.testing.assert_close(kept.dt[row].cumsum(0)[:length], whole)
            torch.testing.assert_close(kept.target[row, :length, 0], steps)
            assert kept.target[row, length:].isnan().all()
            assert (kept.x[row, length:] == 0).all()
            assert (kept.dt[row, length:] == 0).all()
    assert len(seen) > 20


def test_subsampling_of_steps_without_times_makes_the_gaps_known():
    batch = from_list([np.arange(10.0)], target=["a"], classes=["a", "b"]).batch()
    kept = subsample(batch, 0.4, torch.Generator().manual_seed(0), per_step=False)
    assert torch.equal(kept.dt[0].cumsum(0) - 1, kept.x[0, :, 0])
    assert torch.equal(kept.target, batch.target)


def test_jitter_is_one_gain_and_one_shift_for_each_channel_of_a_series():
    generator = np.random.default_rng(0)
    series = [generator.normal(size=(n, 3)) for n in (400, 7)]
    series[0][5, 1] = np.nan
    batch = from_list(series).batch()
    x = jittered(batch, 0.3, torch.Generator().manual_seed(0)).x
    present = batch.observed & (torch.arange(400) < batch.lengths[:, None])[..., None]
    assert (x[~present] == 0).all()
    seen = set()
    for row, channel in np.ndindex(2, 3):
        here = present[row, :, channel]
        before, after = batch.x[row, here, channel], x[row, here, channel]
        gain, shift = np.polyfit(before, after, 1)
        torch.testing.assert_close(after, float(gain) * before + float(shift))
        seen |= {round(gain, 4), round(shift, 4)}
    assert len(seen) == 12
    many = from_list([np.zeros(2)] * 4000).batch()
    assert abs(float(jittered(many, 0.3, torch.Generator().manual_seed(1)).x.std()) - 0.3) < 0.01


def test_jitter_is_drawn_again_in_every_epoch_and_only_in_training():
    data = small(60)
    plain, first, again = (
        fit(data, spec_for(data), Settings(epochs=2, jitter=jitter)).history for jitter in (0.0, 0.5, 0.5)
    )
    assert [epoch.loss for epoch in first] == [epoch.loss for epoch in again]
    assert first[0].loss != plain[0].loss
    parts = Parts(data, data, data)
    settings = Settings(batch_size=60, jitter=0.5).completed(60)
    epochs = [next(iter(TrainingBatches(parts, settings, Place(epoch)))) for epoch in (0, 1)]
    shifted = [(batch.x[batch.rows.argsort()] - data.batch().x).abs().max() for batch in epochs]
    assert shifted[0] != shifted[1]


def test_a_shift_moves_values_and_repeats_the_first_or_last_step():
    series = [np.arange(1.0, n + 1) for n in (30, 9, 1)] * 40
    series[0][4] = np.nan
    batch, seen = from_list(series).batch(), set()
    after = shifted(batch, 3, torch.Generator().manual_seed(0))
    for row, length in enumerate(batch.lengths.tolist()):
        before, values = batch.x[row, :length, 0].numpy(), after.x[row, :length, 0].numpy()
        moves = [m for m in range(-3, 4) if (values == before[np.clip(np.arange(length) + m, 0, length - 1)]).all()]
        assert moves
        seen |= set(moves) if length == 30 else set()
        assert not after.x[row, length:].any()
        assert torch.equal(after.observed[row, :length, 0], after.x[row, :length, 0] != 0)
    assert seen == set(range(-3, 4))


def test_evaluation_batches_hold_all_series_once_and_are_small():
    data = from_list([np.zeros(n) for n in (5, 1, 30, 2, 7, 7)])
    batches = list(evaluation_batches(data, 14))
    assert sorted(row for b in batches for row in b.rows.tolist()) == list(range(6))
    assert all(b.x.shape[0] * b.x.shape[1] <= 14 or len(b.x) == 1 for b in batches)
    assert len(batches) == 4


def test_predictions_come_in_the_order_of_the_series():
    data = small(60)
    fitted = fit(data, spec_for(data), Settings(epochs=1))
    said = fitted.predict(data)
    for row in (0, 17, 59):
        batch = data.batch([row])
        with torch.no_grad():
            alone = fitted.model(batch.x, **batch.times).softmax(-1)[0].numpy()
        np.testing.assert_allclose(said.values[row], alone, rtol=1e-5)
    assert said.ids.tolist() == data.ids.tolist()
    assert set(said.labels) <= {"even", "odd"}


def test_training_moves_the_steps_of_each_series_again_in_every_epoch():
    data = from_list([np.arange(1.0, 31.0)] * 50, target=["a", "b"] * 25, classes=["a", "b"])
    settings = Settings(batch_size=50, shift=3).completed(50)
    epochs = [next(iter(TrainingBatches(Parts(data, data, data), settings, Place(epoch)))) for epoch in (0, 1)]
    moves = [(batch.x[batch.rows.argsort(), 15, 0] - data.batch().x[:, 15, 0]).tolist() for batch in epochs]
    assert moves[0] != moves[1]
    assert set(moves[0]) | set(moves[1]) == set(range(-3, 4))
