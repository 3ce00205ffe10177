"""Steps and series of a batch, and the order of predictions."""

import numpy as np
import torch
from fit_checks import small, spec_for

from chronode.data import from_list
from chronode.training import Settings, fit
from chronode.training._loaders import evaluation_batches, subsample


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
