"""Image files and MNIST's series: small files in the publishers' formats always, the real ones where there are any."""

import os
from pathlib import Path

import image_samples
import numpy as np
import pytest
import torch
from event_decoding import decode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chronode
from chronode.lab.tasks import find_task, images
from chronode.lab.tasks._events import Events
from chronode.lab.tasks._image_files import cifar10, mnist, read_cifar_batch, read_idx
from chronode.lab.tasks.images import event_series, pixel_order, pixel_series, row_series

MIRROR = Path(os.environ.get("CHRONODE_DATA_MIRROR", "nowhere"))
with_mnist = pytest.mark.skipif(
    not (MIRROR / "mnist").is_dir(), reason="CHRONODE_DATA_MIRROR names no folder that has mnist"
)
with_cifar = pytest.mark.skipif(
    not (MIRROR / "cifar10").is_dir(), reason="CHRONODE_DATA_MIRROR names no folder that has cifar10"
)
TASKS = ("smnist", "psmnist", "row-mnist", "event-mnist")
any_bytes = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Small MNIST files that the tasks read; gives (train images, labels, test images, labels)."""
    monkeypatch.setattr(images, "folder", lambda name: tmp_path / name)
    return image_samples.write_mnist(tmp_path / "mnist")


# ---- files ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
@any_bytes
def test_an_idx_file_comes_back(tmp_path, shape):
    array = np.random.default_rng(0).integers(0, 256, size=shape, dtype=np.uint8)
    (tmp_path / "file").write_bytes(image_samples.idx(array))
    found = read_idx(tmp_path / "file")
    assert found.shape == array.shape
    assert (found == array).all()


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda tail: b"\0\0\x08" + tail)))
@any_bytes
def test_malformed_idx_bytes_are_a_value_error_or_an_array(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    try:
        found = read_idx(tmp_path / "file")
    except ValueError as error:
        assert "file" in str(error)
    else:
        assert image_samples.idx(found) == data


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: data[:9]])
def test_an_idx_file_of_the_wrong_size_is_refused(tmp_path, change):
    (tmp_path / "file").write_bytes(change(image_samples.idx(np.zeros((3, 4)))))
    with pytest.raises(ValueError, match="does not match its header"):
        read_idx(tmp_path / "file")


@given(st.binary(max_size=50) | st.integers(3060, 3080).map(bytes) | st.binary(min_size=3073, max_size=3073))
@any_bytes
def test_malformed_cifar_bytes_are_a_value_error_or_images(tmp_path, data):
    (tmp_path / "batch.bin").write_bytes(data)
    try:
        found, labels = read_cifar_batch(tmp_path / "batch.bin")
    except ValueError as error:
        assert "batch.bin" in str(error)
    else:
        assert labels.tobytes() + found.tobytes() == data


def test_mnist_files_must_fit_together(tmp_path):
    image_samples.write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(image_samples.idx(np.zeros(59)))
    with pytest.raises(ValueError, match="60 train images but labels of shape"):
        mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(image_samples.idx(np.full(60, 10)))
    with pytest.raises(ValueError, match="label 10"):
        mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(image_samples.idx(np.zeros((60, 27, 28))))
    with pytest.raises(ValueError, match=r"must be \(N, 28, 28\)"):
        mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    with pytest.raises(ValueError, match="no train-images-idx3-ubyte"):
        mnist(tmp_path)


def test_cifar_batches_come_in_order_and_missing_ones_are_noted(tmp_path):
    pictures, labels = image_samples.write_cifar(tmp_path, batches=(1, 3))
    files = cifar10(tmp_path)
    assert (np.concatenate([files.train, files.test]) == pictures).all()
    assert (np.concatenate([files.train_labels, files.test_labels]) == labels).all()
    assert len(files.test) == 10
    (note,) = files.notes
    assert "only 20 training images: data_batch_2.bin, data_batch_4.bin, data_batch_5.bin" in note


def test_all_cifar_batches_need_no_note_and_none_is_an_error(tmp_path):
    image_samples.write_cifar(tmp_path / "whole")
    assert cifar10(tmp_path / "whole").notes == ()
    image_samples.write_cifar(tmp_path / "none", batches=())
    with pytest.raises(ValueError, match="no data_batch_1.bin"):
        cifar10(tmp_path / "none")
    with pytest.raises(ValueError, match="test_batch.bin"):
        cifar10(tmp_path)


# ---- series -----------------------------------------------------------------------------------------------


def by_hand(image, close):
    """Events of one image as mmRNN's code finds them, pixel by pixel; `close` adds the end of the last run."""
    found, last, elapsed = [], None, 0
    for pixel in image.ravel().tolist():
        elapsed += 1
        bit = int(pixel > 128)
        if bit != last:
            found.append((bit, elapsed))
            elapsed = 0
        last = bit
    return [*found, (last, elapsed)] if close and elapsed else found


@pytest.mark.parametrize("close", [True, False])
def test_events_are_those_found_pixel_by_pixel(close):
    pictures, labels = image_samples.digit_like(12, seed=1)
    pictures[0], pictures[1] = 0, 255
    series = event_series(pictures, labels, close=close)
    for picture, label, one in zip(pictures, labels, series, strict=True):
        pairs = list(zip(one.values[:, 0].tolist(), (one.dt * 256).tolist(), strict=True))
        assert pairs == by_hand(picture, close)
        assert one.target == label


def test_a_pixel_of_128_is_dark():
    pictures = np.zeros((1, 28, 28), dtype=np.uint8)
    pictures[0, 3, :2] = 128, 129
    assert event_series(pictures, np.zeros(1, dtype=np.uint8))[0].values[:, 0].tolist() == [0, 1, 0, 0]


def test_pixels_and_rows_are_the_image():
    pictures, labels = image_samples.digit_like(5, seed=2)
    pixels, rows = pixel_series(pictures, labels).batch(), row_series(pictures, labels).batch()
    expected = torch.from_numpy(pictures).float() / 255
    assert pixels.x.equal(expected.view(5, 784, 1))
    assert rows.x.equal(expected)
    assert pixels.target.tolist() == rows.target.tolist() == labels.tolist()
    assert pixels.dt is None


def test_permutations_are_those_of_the_papers():
    with torch.random.fork_rng():
        torch.manual_seed(5544)
        expected = torch.randperm(784)
    assert pixel_order("unicornn").tolist() == expected.tolist()
    np.random.seed(42)
    assert pixel_order("irnn").tolist() == np.random.permutation(784).tolist()
    with pytest.raises(ValueError, match="permutation='irn' is not supported.*'irnn'"):
        pixel_order("irn")


@pytest.mark.parametrize("name", ["unicornn", "irnn"])
def test_psmnist_is_smnist_in_another_order(small, name):
    plain, permuted = find_task("smnist").load(seed=3), find_task("psmnist").load(seed=3, permutation=name)
    for part in ("train", "valid", "test"):
        one, other = getattr(plain, part), getattr(permuted, part)
        assert one.ids.tolist() == other.ids.tolist()
        assert one.batch().x[:, pixel_order(name)].equal(other.batch().x)


# ---- parts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_a_batch_of_images_runs_through_a_layer(small, name, protocol):
    parts = find_task(name).load(protocol)
    batch = parts.train.batch([0, 5])
    assert batch.x.dtype == torch.float32
    assert parts.train.num_channels == find_task(name).sizes.channels
    y, _ = chronode.create("mmrnn", parts.train.num_channels, 8)(batch.x, **batch.times)
    assert y.isfinite().all()


@pytest.mark.parametrize("name", TASKS)
def test_training_and_validation_divide_the_training_file(small, name):
    parts = find_task(name).load(seed=1)
    ids = [*parts.train.ids.tolist(), *parts.valid.ids.tolist()]
    assert sorted(ids) == list(range(60))
    assert len(parts.valid) == (6 if name == "row-mnist" else 3)
    for part, labels in ((parts.train, small[1]), (parts.valid, small[1]), (parts.test, small[3])):
        assert part.target.values.tolist() == labels[part.ids].tolist()


def test_the_seed_chooses_the_validation_images_but_not_of_row_mnist(small):
    chosen = {tuple(find_task("smnist").load(seed=seed).valid.ids.tolist()) for seed in range(5)}
    assert len(chosen) > 1
    for seed in range(2):
        assert find_task("row-mnist").load(seed=seed).valid.ids.tolist() == list(range(54, 60))


def test_gaps_can_be_a_channel(small):
    plain, seen = (find_task("event-mnist").load(gaps=gaps).test[0] for gaps in (False, True))
    assert seen.values[:, 0].tolist() == plain.values[:, 0].tolist()
    assert seen.values[:, 1].tolist() == seen.dt.tolist() == plain.dt.tolist()


def test_event_mnist_of_the_paper_closes_nothing(small):
    clean, paper = find_task("event-mnist").load(), find_task("event-mnist").load("paper")
    assert sorted([*paper.train.ids, *paper.valid.ids]) == list(range(60))
    open_ends = small[2].reshape(20, -1)[:, -2:] > 128
    closed = open_ends[:, 0] == open_ends[:, 1]
    assert (clean.test.lengths - paper.test.lengths).tolist() == closed.astype(int).tolist()


# ---- the publishers' files ----------------------------------------------------------------------------------

TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@with_mnist
def test_mnist_has_the_published_counts():
    files = mnist(MIRROR / "mnist")
    assert files.train.shape == (60_000, 28, 28)
    assert files.test.shape == (10_000, 28, 28)
    assert np.bincount(files.train_labels).tolist() == TRAIN_COUNTS
    assert np.bincount(files.test_labels).tolist() == TEST_COUNTS
    assert files.train.mean() == pytest.approx(33.318, abs=1e-3)


@with_mnist
@pytest.mark.parametrize("name", TASKS)
def test_the_tasks_have_the_promised_sizes(name):
    parts, sizes = find_task(name).load(), find_task(name).sizes
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (sizes.train, sizes.valid, sizes.test)
    assert max(int(part.lengths.max()) for part in (parts.train, parts.valid, parts.test)) == sizes.steps


@with_mnist
def test_events_of_mnist_average_53_as_the_paper_says_and_undo():
    files = mnist(MIRROR / "mnist")
    paper = event_series(files.test, files.test_labels, close=False)
    assert round(paper.lengths.mean()) == 53
    batch = event_series(files.test, files.test_labels).batch()
    gaps = (batch.dt * 256).round().long().numpy()
    bits, lengths = decode(Events(batch.x[..., 0].long().numpy(), gaps, batch.lengths.numpy()))
    assert (lengths == 784).all()
    assert (bits == (files.test.reshape(-1, 784) > 128)).all()


@with_cifar
def test_cifar_has_a_thousand_test_images_of_each_class():
    files = cifar10(MIRROR / "cifar10")
    assert np.bincount(files.test_labels).tolist() == [1000] * 10
    assert len(files.train) % 10_000 == 0
    assert bool(files.notes) == (len(files.train) < 50_000)
