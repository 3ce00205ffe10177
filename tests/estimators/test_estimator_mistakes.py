"""A mistake in the data or the arguments of a classifier is reported with its cure."""

import numpy as np
import pytest
import torch
from estimator_samples import classifier, even_times, fitted_classifier, long_frame, waves
from sklearn.exceptions import NotFittedError

from chronode.data import from_list, from_numpy

fitted = pytest.fixture(scope="module")(fitted_classifier)

X, Y = waves()
TIMES = even_times()
SERIES = list(X.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("options", "data", "more", "match"),
    [
        ({}, (X, np.zeros(24)), {}, "only one class"),
        ({}, (X, None), {}, "requires y"),
        ({}, (X, np.where(Y == 1, np.nan, 0)), {}, "NaN"),
        ({}, (X, Y[:-1]), {}, "inconsistent"),
        ({}, (X, Y + 0.5 * np.arange(24)), {}, "continuous"),
        ({}, (X[:0], Y[:0]), {}, "0 sample"),
        ({}, ([], []), {}, "1D array"),
        ({}, (np.where(X > 1, np.inf, X), Y), {}, "infinity"),
        ({"order": "TDN"}, (X, Y), {}, "order='TDN'"),
        ({}, (X.transpose(0, 2, 1), Y), {"times": TIMES}, r"Did you mean order='NTD'\?"),
        ({}, ([x.T[: 3 + i % 5] for i, x in enumerate(X)], Y), {}, r"3 to 7 channels .* Did you mean order='NTD'\?"),
        ({}, (X, Y), {"id": "who"}, "frame"),
        ({}, (from_list(SERIES), Y), {"times": TIMES}, "own times"),
        ({}, (from_list([[1.0, 2.0]] * 4, target=[[0, 1]] * 4), None), {}, "every step"),
        ({}, (X, Y), {"groups": [1, 2]}, "groups"),
        ({"settings": {"hidden_size": 3}}, (X, Y), {}, "pass hidden_size="),
        ({"training": {"seed": 3}}, (X, Y), {}, "pass random_state="),
        ({"training": {"learning": 3}}, (X, Y), {}, "learning_rate"),
        ({"validation": 1.5}, (X, Y), {}, "validation"),
        ({"device": "tpu"}, (X, Y), {}, "device='tpu'.*choose one of 'cpu', 'cuda'"),
        ({"training": {"accelerator": "gpu"}}, (X, Y), {}, "pass device="),
    ],
)
def test_mistakes_are_reported(options, data, more, match):
    with pytest.raises(ValueError, match=match):
        classifier(**options).fit(*data, **more)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ValueError, match="device='cuda': torch sees no CUDA device"):
        classifier(device="cuda").fit(X, Y)


def test_an_unknown_setting_of_the_model_is_reported():
    with pytest.raises(TypeError, match=r"no setting 'depht'"):
        classifier(settings={"depht": 3}).fit(X, Y)


def test_mistakes_in_a_frame_are_reported():
    frame = long_frame(X, Y, TIMES)
    with pytest.raises(TypeError, match="y must be the name of a column"):
        classifier().fit(frame, Y, id="who")
    with pytest.raises(ValueError, match="'label'"):
        classifier().fit(frame, "lable", id="who")
    for X_, y in ((frame, "label"), (dict(frame.items()), None)):
        with pytest.raises(ValueError, match="pass id="):
            classifier().fit(X_, y)
    with pytest.raises(TypeError, match="X is a frame: pass the name of its column of times as time="):
        classifier().fit(frame, "label", id="who", times=TIMES)


@pytest.mark.parametrize(
    ("given", "more", "match"),
    [
        (X[:, :1], {}, "channels: 'x0' here, 'x0', 'x1' in training"),
        (X[:, :, :2].transpose(0, 2, 1)[:, :1], {}, "channels: 'x0' here"),
        (X.transpose(0, 2, 1), {}, r"'x8' here, 'x0', 'x1' in training\n  Did you mean order='NTD'\?"),
        (X, {"times": TIMES}, "time: .* here, steps in training"),
    ],
)
def test_series_that_are_not_like_those_of_training(fitted, given, more, match):
    with pytest.raises(ValueError, match=match):
        fitted.predict(given, **more)


def test_channels_may_get_names_where_training_had_none(fitted):
    assert (fitted.predict(from_list(SERIES, channels=["a", "b"])) == fitted.predict(X)).all()


def test_other_names_of_channels_are_refused_with_what_differs():
    named = from_numpy(X, order="NDT", channels=["hr", "bp"], target=Y)
    clf = classifier().fit(named)
    with pytest.raises(ValueError, match="channels: 'hr', 'temp' here, 'hr', 'bp' in training"):
        clf.predict(from_numpy(X, order="NDT", channels=["hr", "temp"]))
    with pytest.raises(ValueError, match="channels: 'bp', 'hr' here, 'hr', 'bp' in training"):
        clf.predict(from_numpy(X, order="NDT", channels=["bp", "hr"]))
    with pytest.raises(NotFittedError):
        classifier().predict(X)
