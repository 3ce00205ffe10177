"""`chronode train --for stream|export`: the automatic choice is fit for the purpose, or refused before training."""

import numpy as np
import pytest
from commands import chronode, write_vitals

from chronode.runs import load
from chronode.stream import Stream


@pytest.fixture(scope="module")
def stays(tmp_path_factory):
    home = tmp_path_factory.mktemp("purpose")
    return write_vitals(home / "stays.csv", age=lambda row: str(40 + int(row["patient"][1:])))


QUICK = ("--target", "outcome", "--epochs", 2, "--budget", "1s", "--threads", 1)


def test_the_default_model_can_be_streamed_and_exported(stays, tmp_path):
    done = chronode("train", stays, *QUICK, "--for", "stream", "-o", tmp_path / "run")
    assert "--static" not in done.out
    assert "not for" not in done.out
    trained = load(tmp_path / "run")
    assert [trained.can(use) for use in ("stream", "export c", "export onnx")] == [None, None, None]
    assert "age" in trained.reading.channels
    said = Stream(trained).observe("p", "2024-01-01 10:00", {"hr": 70.0, "temp": 37.0, "age": 50.0})
    assert np.isfinite(said["p_ill"])


def test_without_it_the_end_of_training_says_what_the_model_is_not_for(stays, tmp_path):
    done = chronode("train", stays, *QUICK, "--model", "gru", "-o", tmp_path / "run")
    assert "--static age" in done.out
    assert "--for stream" in done.out
    assert load(tmp_path / "run").can("stream") is not None


@pytest.mark.parametrize(
    ("flags", "argument"),
    [
        (("--static", "age", "--model", "gru"), "--static"),
        (("--model", "gru", "--set", "bidirectional=true"), "bidirectional"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_training(stays, tmp_path, flags, argument):
    done = chronode("train", stays, *QUICK, *flags, "--for", "export", "-o", tmp_path / "run", code=2)
    assert "--for export" in done.err
    assert argument in done.err
    assert not (tmp_path / "run").exists()
