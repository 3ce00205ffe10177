"""One bit remembered, and spoken digits as raw sound."""

from __future__ import annotations

import numpy as np
import pytest
from test_speech import write_wave

from chronode.lab.tasks import tasks
from chronode.lab.tasks.spoken_digits import RATE, TAKES, read
from chronode.lab.tasks.synthetic import NOISE, one_bit


def test_the_first_value_is_the_class_and_the_others_tell_nothing():
    batch = one_bit(400, np.random.default_rng(0), length=30).batch()
    x, label = batch.x[..., 0].numpy(), batch.target.numpy().reshape(-1)
    np.testing.assert_array_equal(x[:, 0], 2 * label - 1)
    assert abs(float(label.mean()) - 0.5) < 0.1
    np.testing.assert_allclose(x[:, 1:].std(), NOISE, rtol=0.05)
    apart = x[label == 1, 1:].mean() - x[label == 0, 1:].mean()
    assert abs(apart) < 4 * NOISE * np.sqrt(4 / x[:, 1:].size)


def test_parts_differ_and_are_the_same_again():
    first, again = (tasks()["one-bit"].load("clean", length=20, train=30, valid=10, test=10) for _ in range(2))
    np.testing.assert_array_equal(first.test.base_values, again.test.base_values)
    assert not np.array_equal(first.test.base_values, first.valid.base_values)


def test_takes_decide_the_part(tmp_path):
    """Each recording is in one part, with its own length, digit and values."""
    for digit, speaker, take in ((0, "ann", 0), (0, "ann", 5), (7, "ann", 49), (7, "bob", 4), (3, "bob", 10)):
        write_wave(tmp_path / f"{digit}_{speaker}_{take}.wav", np.full(50 + take, 0.1 * digit), rate=RATE)
    parts = {name: read(tmp_path, takes) for name, takes in TAKES.items()}
    found = {name: part.ids.tolist() for name, part in parts.items()}
    assert found == {"test": ["0_ann_0", "7_bob_4"], "valid": ["0_ann_5"], "train": ["3_bob_10", "7_ann_49"]}
    train = parts["train"]
    assert train.lengths.tolist() == [60, 99] and train.target.classes[7] == "7"
    values = train.batch([1]).x[0, :, 0].numpy()
    np.testing.assert_allclose(values, 0.7, atol=1e-4)


def test_other_files_are_refused_by_name(tmp_path):
    write_wave(tmp_path / "seven.wav", np.zeros(50), rate=RATE)
    with pytest.raises(ValueError, match=r"seven.wav: expected a name such as 7_jackson_32.wav"):
        read(tmp_path, TAKES["train"])
    (tmp_path / "seven.wav").unlink()
    with pytest.raises(ValueError, match="no recordings of the takes 10 to 49"):
        read(tmp_path, TAKES["train"])
