"""scikit-learn's digits as series."""

import numpy as np
import pytest
from event_decoding import decode
from sklearn.datasets import load_digits

import chronode
from chronode.lab.tasks import find_task
from chronode.lab.tasks._events import Events
from chronode.lab.tasks.digits import digits_events, digits_series

TASKS = ("digits-seq", "digits-event")


def test_pixels_are_the_images():
    batch = digits_series().batch()
    images, labels = load_digits(return_X_y=True)
    assert batch.x.shape == (1797, 64, 1)
    assert (batch.x[..., 0].numpy() == images / 16).all()
    assert batch.target.tolist() == labels.tolist()


def test_events_undo_to_the_images_in_black_and_white():
    batch = digits_events().batch()
    gaps = (batch.dt * 64).round().long().numpy()
    bits, lengths = decode(Events(batch.x[..., 0].long().numpy(), gaps, batch.lengths.numpy()))
    images, labels = load_digits(return_X_y=True)
    assert (lengths == 64).all()
    assert (bits == (images > 8)).all()
    assert batch.target.tolist() == labels.tolist()


@pytest.mark.parametrize("name", TASKS)
def test_the_parts_have_the_promised_sizes_and_share_nothing(name):
    parts, sizes = find_task(name).load(), find_task(name).sizes
    every = (parts.train, parts.valid, parts.test)
    assert tuple(map(len, every)) == (sizes.train, sizes.valid, sizes.test)
    assert max(int(part.lengths.max()) for part in every) == sizes.steps
    assert sorted(np.concatenate([part.ids for part in every]).tolist()) == list(range(1797))
    assert all(len(np.unique(part.target.values)) == sizes.classes for part in every)


@pytest.mark.parametrize("name", TASKS)
def test_the_seed_draws_the_parts(name):
    one, same, other = find_task(name).load(seed=1), find_task(name).load(seed=1), find_task(name).load(seed=2)
    assert one.test.ids.tolist() == same.test.ids.tolist()
    assert one.test.ids.tolist() != other.test.ids.tolist()


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_of_digits_runs_through_a_layer(name):
    batch = find_task(name).load().valid.batch(range(8))
    y, _ = chronode.create("mmrnn", 1, 8)(batch.x, **batch.times)
    assert y.isfinite().all()
