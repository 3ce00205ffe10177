"""Helpers of the tests of the sensor tasks: the real files where they are, the papers' recipe, damaged files."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import chronode


def mirror(name):
    """The folder with the publisher's files; without it the test is skipped."""
    folder = Path(os.environ.get("CHRONODE_DATA_MIRROR", "")) / name
    if "CHRONODE_DATA_MIRROR" not in os.environ or not folder.exists():
        pytest.skip(f"CHRONODE_DATA_MIRROR has no {name}")
    return folder


def range_starts(rows, length, stride):
    return list(range(0, rows - length, stride))


def shuffled_starts(starts, seed, valid=0.1, test=0.15):
    """LTC's recipe, transcribed: the starts of the windows of training, validation and test."""
    order = np.random.RandomState(seed).permutation(len(starts))
    valid_size, test_size = int(valid * len(starts)), int(test * len(starts))
    parts = order[valid_size + test_size :], order[:valid_size], order[valid_size : valid_size + test_size]
    return [[starts[i] for i in part] for part in parts]


def same_windows(part, x, y, starts, length):
    """Whether the windows of `part` are rows of x and y, in this order."""
    batch = part.batch()
    rows = np.asarray(starts)[:, None] + np.arange(length)
    np.testing.assert_allclose(batch.x.numpy(), x[rows], rtol=1e-4, atol=1e-5)
    target = batch.target.numpy()
    np.testing.assert_allclose(target[..., 0] if target.ndim == 3 else target, y[rows], rtol=1e-4, atol=1e-5)


def rows_of(part, scaler, channel=0):
    """The numbers of the rows of a part, which the file holds in one of its channels; (windows, steps)."""
    values = part.batch().x[..., channel].numpy().astype(np.float64)
    return np.rint(values * scaler.std[channel] + scaler.mean[channel]).astype(int)


def check_blocks(parts, rows, length):
    """No row in two parts, parts in the order of time, windows of neighboring rows, nearly all rows used."""
    found = [rows_of(part, parts.scaler) for part in (parts.train, parts.valid, parts.test)]
    for windows in found:
        assert (np.diff(windows, axis=1) == 1).all()
        assert windows.shape[1] == length
    assert found[0].max() < found[1].min() <= found[1].max() < found[2].min()
    assert len({row for windows in found for row in windows.ravel().tolist()}) > rows - 3 * length
    groups = [set(part.groups.tolist()) for part in (parts.train, parts.valid, parts.test)]
    assert not groups[0] & groups[1] and not groups[1] & groups[2] and not groups[0] & groups[2]


def runs_a_batch(parts):
    """One batch through a model."""
    has_missing = any(part.has_missing for part in (parts.train, parts.valid, parts.test))
    layer = chronode.create("mmrnn", parts.train.num_channels, 8, missing=has_missing)
    batch = parts.train.batch([0, 1, 2])
    y, _ = layer(batch.x, **batch.times)
    assert torch.isfinite(y).all() and y.shape[:2] == batch.x.shape[:2]


@st.composite
def damaged(draw, text):
    """The bytes of a text file with a few of them cut out or replaced."""
    content = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.integers(0, 12))
        content[start:end] = draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b",", b"\n", b"x", b"nan", b"1e99"]))
        )
    return bytes(content)


def reads_or_tells(read, file):
    """A damaged file is read, or refused with a ValueError that names it."""
    try:
        read()
    except ValueError as error:
        assert type(error) is ValueError and file.name in str(error), repr(error)
