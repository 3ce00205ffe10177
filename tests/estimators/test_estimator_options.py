"""Arguments of estimators: weights of classes and series, columns of frames, progress, callbacks, strides."""

import io

import numpy as np
import pytest
import torch
from estimator_samples import classifier, even_times, long_frame, waves
from sklearn.base import clone

from chronode.data import forecast_windows, from_list
from chronode.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
from chronode.training import EpochDone, Objective
from chronode.training import _progress as progress


def overlapping(count=200, share=0.1):
    """Series of two classes that overlap; the second is rare."""
    rng = np.random.default_rng(0)
    y = (rng.random(count) < share).astype(int)
    return rng.normal(size=(count, 1, 4)) + 0.5 * y[:, None, None], y


def rare(**options):
    return classifier(epochs=15, learning_rate=0.02, validation=0, **options)


# ---- weights -------------------------------------------------------------------------------------------------


def test_weights_of_classes_move_predictions():
    X, y = overlapping()
    plain = rare().fit(X, y).predict(X).mean()
    balanced = rare(class_weight="balanced").fit(X, y).predict(X).mean()
    assert plain < 0.1 < 0.15 < balanced < 0.8
    many = rare(class_weight={1: 1000.0}).fit(X, y).predict(X).mean()
    assert many > 0.7


def test_weights_of_classes_are_those_of_the_command_line():
    X, y = overlapping(40, 0.3)
    by_label = rare(class_weight={0: 1.0, 1: 3.0}).fit(X, y)
    by_setting = rare(training={"class_weights": [1.0, 3.0]}).fit(X, y)
    assert (by_label.predict_proba(X) == by_setting.predict_proba(X)).all()
    with pytest.raises(ValueError, match=r"class_weight has \['x'\], which are not classes; the classes are \[0, 1\]"):
        rare(class_weight={"x": 2.0}).fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        rare(class_weight="balancd").fit(X, y)


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b"], [False, True]])
def test_weights_of_classes_are_saved(labels, tmp_path):
    X, y = overlapping(40, 0.3)
    clf = rare(class_weight={labels[0]: 1.0, labels[1]: 3.0}).fit(X, np.array(labels)[y])
    loaded = SequenceClassifier.load(clf.save(tmp_path / "clf"))
    assert loaded.class_weight == clf.class_weight
    loaded.continue_fit(X, np.array(labels)[y], epochs=1)


def test_weights_of_series_decide_between_labels():
    """Every series twice, with both labels: the weights say which is right."""
    X, y = waves()
    both, labels = np.concatenate([X, X]), np.concatenate([y, 1 - y])
    right = np.repeat([10.0, 0.1], len(X))
    options = {"epochs": 10, "learning_rate": 0.02, "validation": 0}
    clf = classifier(**options).fit(both, labels, sample_weight=right)
    assert (clf.predict(X) == y).mean() > 0.9
    other = classifier(**options).fit(both, labels, sample_weight=right[::-1].tolist())
    assert (other.predict(X) == 1 - y).mean() > 0.9
    clf.continue_fit(both, labels, sample_weight=right[::-1], epochs=30)
    assert (clf.predict(X) == 1 - y).mean() > 0.9


def test_weights_of_series_in_a_regression_and_in_a_frame():
    X, y = waves()
    both, values = np.concatenate([X, X]), np.repeat([1.0, -1.0], len(X))
    weights = np.repeat([10.0, 0.1], len(X))
    reg = SequenceRegressor("gru", hidden_size=6, epochs=10, learning_rate=0.02, validation=0, random_state=0)
    assert reg.fit(both, values, sample_weight=weights).predict(X).mean() > 0.5
    frame = long_frame(X, y, even_times())
    of_frame = classifier().fit(frame, "label", id="who", time="when", sample_weight=np.arange(24))
    of_array = classifier().fit(X, y, times=even_times(), sample_weight=np.arange(24))
    np.testing.assert_array_equal(of_frame.predict_proba(frame), of_array.predict_proba(X, times=even_times()))


@pytest.mark.parametrize("kind", ["class", "value"])
def test_a_loss_with_weights_is_the_loss_with_repeated_series(kind):
    rng = np.random.default_rng(0)
    target = ["a", "b", "a", "b"] if kind == "class" else rng.normal(size=(4, 2))
    s = from_list([rng.normal(size=(3, 1)) for _ in range(4)], target=target, kind=kind)
    objective, output = Objective.for_data(s), torch.randn(4, 2, dtype=torch.float64)
    times = torch.tensor([2, 0, 1, 3])
    goal = s.batch().target
    weighted = objective.loss_of(output, goal, None, times.float())
    repeated = objective.loss_of(output.repeat_interleave(times, 0), goal.repeat_interleave(times, 0))
    torch.testing.assert_close(weighted.mean, repeated.mean)
    torch.testing.assert_close(weighted.weight, repeated.weight)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.ones(3), "inconsistent"),
        (-np.ones(24), "negative"),
        (np.zeros(24), "every weight is zero"),
        ([[1.0]], "1D array"),
    ],
)
def test_wrong_weights_of_series(weights, match):
    with pytest.raises(ValueError, match=match):
        classifier().fit(*waves(), sample_weight=weights)


# ---- columns of frames ---------------------------------------------------------------------------------------


def test_columns_to_ignore_and_text_columns():
    X, y = waves()
    frame = long_frame(X, y, even_times())
    frame["ward"] = np.where(np.arange(len(frame)) % 2, "north", "south")
    frame["comment"] = "none"
    with pytest.raises(ValueError, match="'ward'"):
        classifier().fit(frame, "label", id="who", time="when")
    clf = classifier(ignore=["ward", "comment"]).fit(frame, "label", id="who", time="when")
    assert clf.feature_names_in_.tolist() == ["x0", "x1"]
    coded = classifier(ignore=["comment"], categorical="onehot").fit(frame, "label", id="who", time="when")
    assert coded.feature_names_in_.tolist() == ["x0", "x1", "ward=north", "ward=south"]
    south = frame[frame["ward"] == "south"]  # the channels of training, though one text is missing
    assert coded.predict(south).shape == (24,)
    with pytest.raises(ValueError, match="ignore names columns of a long frame"):
        classifier(ignore=["ward"]).fit(X, y)


# ---- progress and callbacks ----------------------------------------------------------------------------------


def test_callbacks_and_progress(monkeypatch, tmp_path):
    seen, output = [], io.StringIO()
    monkeypatch.setattr(progress.sys, "stderr", output)
    clf = clone(classifier(callbacks=[seen.append], verbose=True))
    clf.fit(*waves())
    epochs = [event.epoch.number for event in seen if isinstance(event, EpochDone)]
    lines = [line for line in output.getvalue().splitlines() if line.startswith("epoch")]
    assert epochs == [1, 2] and len(lines) == 2 and lines[0].startswith("epoch 1/2  loss ")
    clf.continue_fit(*waves(), epochs=3)
    assert "epoch 3/3" in output.getvalue()
    assert SequenceClassifier.load(clf.save(tmp_path / "clf")).callbacks is None


# ---- strides of windows --------------------------------------------------------------------------------------


def test_a_stride_gives_fewer_windows(monkeypatch):
    wave = np.sin(0.3 * np.arange(60))[None]
    every = forecast_windows(from_list([wave[0]]), 2, window=8)
    assert len(forecast_windows(from_list([wave[0]]), 2, window=8, stride=5)) < len(every) / 4
    counts = {}
    for stride in (None, 1, 5):
        batches = []
        forecaster = SequenceForecaster(
            "gru", horizon=2, window=8, stride=stride, hidden_size=3, epochs=1, batch_size=1, callbacks=[batches.append]
        )
        forecaster.fit(wave)
        counts[stride] = len(batches)
        assert forecaster.predict(wave).shape == (1, 2, 1)
    assert counts[None] == counts[1] > 3 * counts[5]
    with pytest.raises(ValueError, match="stride must be at least 1"):
        SequenceForecaster(stride=0).fit(wave)
