"""Noise behind images: its distribution, and that a series always gets the same."""

import os
import pickle
from pathlib import Path

import image_samples
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

import chronode
from chronode.data import Batch
from chronode.lab.tasks import find_task, noisy
from chronode.lab.tasks.noisy import TEST_FILE, TRAIN_FILE, NoiseRows, plane_rows

MIRROR = Path(os.environ.get("CHRONODE_DATA_MIRROR", "nowhere"))
TASKS = {"noisy-mnist": 28, "noisy-cifar": 32}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Small MNIST and CIFAR files that the tasks read; gives CIFAR's images."""
    monkeypatch.setattr(noisy, "folder", lambda name: tmp_path / name)
    image_samples.write_mnist(tmp_path / "mnist")
    return image_samples.write_cifar(tmp_path / "cifar10")


def noise(ids, width=28, **options):
    """The noise that these series get."""
    count = len(ids)
    batch = Batch(torch.zeros(count, 28, width), torch.full((count,), 28), None, None, None, torch.arange(count))
    return NoiseRows(**{"seed": 0, "file": TRAIN_FILE, **options})(batch, np.array(ids)).x[:, 28:]


# ---- the noise itself -------------------------------------------------------------------------------------


def test_noise_is_standard_normal():
    drawn = noise(range(10)).double().flatten().numpy()
    assert kstest(drawn, "norm").pvalue > 1e-3
    assert drawn.var() == pytest.approx(1, abs=0.01)
    assert (np.abs(drawn) > 4).any()


def test_noise_may_be_uniform():
    drawn = noise(range(10), kind="uniform").double().flatten().numpy()
    assert kstest(drawn, "uniform").pvalue > 1e-3
    assert drawn.min() > 0
    assert drawn.max() < 1


def test_series_steps_and_channels_have_nothing_in_common():
    x = noise(range(40))
    views = (x.flatten(1), x.transpose(0, 1).flatten(1)[:40], x.movedim(2, 0).flatten(1))
    for view in views:
        correlation = torch.corrcoef(view) - torch.eye(len(view))
        assert correlation.abs().max() < 5 / view.shape[1] ** 0.5


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 59_999), min_size=1, max_size=6, unique=True), st.randoms())
def test_a_series_gets_the_same_noise_in_every_company(ids, random):
    shuffled = random.sample(ids, len(ids))
    together = dict(zip(shuffled, noise(shuffled), strict=True))
    for number in ids:
        assert noise([number])[0].equal(together[number])


@pytest.mark.parametrize("other", [{"seed": 1}, {"file": TEST_FILE}, {"seed": 2**64 - 1}, {"shared": True}])
def test_another_seed_or_file_gives_other_noise(other):
    assert not noise([7]).equal(noise([7], **other))


def test_other_ids_get_other_noise_unless_it_is_shared():
    own, shared = noise([1, 2]), noise([1, 2], shared=True)
    assert not own[0].equal(own[1])
    assert shared[0].equal(shared[1])
    assert noise([9], shared=True, file=TEST_FILE)[0].equal(shared[0])


def test_sizes_that_are_not_multiples_of_four_are_filled():
    x = noise([0], width=3, length=29)
    assert x.shape == (1, 1, 3)
    assert x.isfinite().all()


def test_noise_goes_to_other_processes():
    touch = NoiseRows(3, TEST_FILE)
    assert pickle.loads(pickle.dumps(touch)) == touch


# ---- the tasks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_a_batch_is_the_image_and_then_noise(small, name, protocol):
    parts, rows = find_task(name).load(protocol), TASKS[name]
    for part in (parts.train, parts.valid, parts.test):
        batch = part.batch([0, 1])
        assert batch.x.shape == (2, 1000, find_task(name).sizes.channels)
        assert batch.lengths.tolist() == [1000, 1000]
        assert batch.dt is None
        assert batch.observed is None
        assert batch.target.tolist() == part.target.values[:2].tolist()
        assert batch.x[:, :rows].flatten().tolist() == part[:2].values.ravel().tolist()
        assert batch.x[:, rows:].std().item() == pytest.approx(1, abs=0.05)
    y, _ = chronode.create("mmrnn", parts.train.num_channels, 8)(batch.x, **batch.times)
    assert y.isfinite().all()


@pytest.mark.parametrize("name", TASKS)
def test_clean_noise_is_of_its_own_and_that_of_the_paper_is_one(small, name):
    rows = TASKS[name]

    def behind(protocol):
        parts = find_task(name).load(protocol)
        return torch.cat([part.batch([0, 1]).x[:, rows:] for part in (parts.train, parts.valid, parts.test)])

    clean, paper = behind("clean"), behind("paper")
    assert len(clean.flatten(1).unique(dim=0)) == 6
    assert len(paper.flatten(1).unique(dim=0)) == 1


def test_the_papers_validation_images_are_training_images(small):
    parts = find_task("noisy-mnist").load("paper")
    assert sorted([*parts.train.ids, *parts.valid.ids]) == list(range(60))


def test_a_slice_keeps_its_noise(small):
    train = find_task("noisy-mnist").load().train
    assert train[10:12].batch().x.equal(train.batch([10, 11]).x)


def test_the_kind_of_noise_is_an_option(small):
    x = find_task("noisy-cifar").load(noise="uniform").train.batch([0]).x
    assert 0 < x[:, 32:].min() < x[:, 32:].max() < 1
    with pytest.raises(ValueError, match="noise='unifrm' is not supported.*'uniform'"):
        find_task("noisy-cifar").load(noise="unifrm")


def test_a_row_of_cifar_is_red_then_green_then_blue(small):
    pictures, labels = small
    x = plane_rows(pictures, labels).batch([4]).x[0]
    for row, column in ((0, 0), (5, 31), (31, 7)):
        for plane in range(3):
            assert x[row, 32 * plane + column].item() == pytest.approx(pictures[4, plane, row, column] / 255)


@pytest.mark.skipif(not (MIRROR / "mnist").is_dir(), reason="CHRONODE_DATA_MIRROR names no folder that has mnist")
def test_noisy_mnist_has_the_promised_sizes():
    parts, sizes = find_task("noisy-mnist").load(), find_task("noisy-mnist").sizes
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (sizes.train, sizes.valid, sizes.test)
    assert parts.train.batch([0]).x.shape == (1, sizes.steps, sizes.channels)


def test_missing_batches_are_noted_on_the_training_part(tmp_path, monkeypatch):
    monkeypatch.setattr(noisy, "folder", lambda name: tmp_path / name)
    image_samples.write_cifar(tmp_path / "cifar10", batches=(1, 2))
    parts = find_task("noisy-cifar").load()
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (19, 1, 10)
    assert any("data_batch_5.bin missing" in note for note in parts.train.notes)
