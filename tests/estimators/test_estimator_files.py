"""A fitted classifier is fitted on, saved and loaded; what is not its own is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from estimator_samples import classifier, even_times, fitted_classifier, long_frame, waves
from sklearn.exceptions import NotFittedError

from chronode.estimators import SequenceClassifier, SequenceRegressor
from chronode.training import Assembly

fitted = pytest.fixture(scope="module")(fitted_classifier)

# ---- fitted on -----------------------------------------------------------------------------------------------


def test_continue_fit_starts_from_the_weights():
    X, y = waves()
    clf = classifier().fit(X, y)
    before, history = clf.predict_proba(X), len(clf.history_)
    clf.set_params(learning_rate=1e-12).continue_fit(X, y, epochs=1)
    np.testing.assert_allclose(clf.predict_proba(X), before, atol=1e-6)
    assert len(clf.history_) == history + 1 and clf.best_epoch_ == history + 1
    clf.set_params(learning_rate=0.01).continue_fit(X[:1], y[:1], epochs=40)  # one class alone is fine here
    assert clf.predict_proba(X[:1])[0, y[0]] > before[0, y[0]]


def test_continue_fit_keeps_the_positive_class(tmp_path):
    X, y = waves()
    few = {label: [*np.flatnonzero(y == label)[:6], *np.flatnonzero(y != label)] for label in (0, 1)}
    clf = classifier().fit(X[few[0]], y[few[0]])
    assert clf.positive_ == 0
    for own in (clf, SequenceClassifier.load(clf.save(tmp_path / "clf"))):
        assert own.continue_fit(X[few[1]], y[few[1]], epochs=1).positive_ == 0
    assert clf.set_params(positive=1).continue_fit(X[few[1]], y[few[1]], epochs=1).positive_ == 1
    assert clf.set_params(positive=None).fit(X[few[0]], y[few[0]]).positive_ == 0


def test_ctrl_c_ends_fit_with_what_was_learned_so_far(monkeypatch):
    fit = Assembly.fit

    def interrupted(assembly, **options):
        trained = fit(assembly, **options)
        return replace(trained, record=replace(trained.record, stopped="interrupted"))

    monkeypatch.setattr(Assembly, "fit", interrupted)
    X, y = waves()
    clf = classifier()
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert set(clf.predict(X)) <= {0, 1} and len(clf.history_) == 2


def test_continue_fit_refuses_new_classes_and_stays_as_it_was(fitted):
    X, y = waves()
    before = fitted.predict_proba(X)
    with pytest.raises(ValueError, match=r"did not occur in training: \[5\]; training had \[0, 1\]"):
        fitted.continue_fit(X, np.where(y == 1, 5, 0))
    with pytest.raises(ValueError, match="channels"):
        fitted.continue_fit(X[:, :1], y)
    assert (fitted.predict_proba(X) == before).all()


# ---- files ---------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    X, y = waves()
    frame = long_frame(X, y, even_times())
    clf = classifier(hidden_size=np.int64(6), settings={"bidirectional": True}, training={"weight_decay": 0.01})
    clf.fit(frame, "label", time="when", id="who")
    folder = clf.save(tmp_path / "clf")
    names = ["data.json", "estimator.json", "model.json", "model.safetensors", "objective.json"]
    assert sorted(p.name for p in folder.iterdir()) == names
    of_file, loaded = SequenceClassifier.load(clf.save(tmp_path / "clf.chronode")), SequenceClassifier.load(folder)
    assert (of_file.predict_proba(frame) == clf.predict_proba(frame)).all()
    assert (loaded.predict_proba(frame) == clf.predict_proba(frame)).all()
    assert loaded.get_params() == clf.get_params()
    assert loaded.history_ == clf.history_ and loaded.feature_names_in_.tolist() == ["x0", "x1"]
    assert loaded.continue_fit(frame, "label", epochs=1).best_epoch_ == 3
    clf.set_params(random_state=np.random.RandomState(0)).save(folder)
    assert SequenceClassifier.load(folder).random_state is None


def test_an_estimator_with_unknown_fields_is_refused_by_name(fitted, tmp_path):
    folder = fitted.save(tmp_path / "clf")
    path = folder / "estimator.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "scalers": {}}))
    with pytest.raises(ValueError, match=r"estimator\.json: .*scalers is not a known field"):
        SequenceClassifier.load(folder)


def test_an_estimator_of_a_gpu_answers_anywhere(fitted, tmp_path):
    """Trained on a GPU and loaded where there is none: the CPU answers."""
    X, _ = waves()
    folder = fitted.save(tmp_path / "clf")
    path = folder / "estimator.json"
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    loaded = SequenceClassifier.load(folder)
    assert loaded.device == "cuda"
    np.testing.assert_allclose(loaded.predict_proba(X), fitted.predict_proba(X), rtol=1e-4)


def test_load_refuses_what_is_not_its_own(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="save"):
        SequenceClassifier.load(tmp_path)
    folder = fitted.save(tmp_path / "clf")
    with pytest.raises(ValueError, match=r"use SequenceClassifier\.load"):
        SequenceRegressor.load(folder)
    path = folder / "estimator.json"
    facts = json.loads(path.read_text())
    for text in ("{", "[]", json.dumps({**facts, "arguments": {"depth": 3}}), json.dumps({**facts, "history": 3})):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"estimator\.json"):
            SequenceClassifier.load(folder)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="folder"):
        fitted.save(tmp_path / "file")
    with pytest.raises(NotFittedError):
        classifier().save(tmp_path / "none")


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text(encoding="utf-8")
    names: dict = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(example, names)
    assert (tmp_path / "gait" / "estimator.json").is_file()
    assert names["forecaster"].predict(names["waves"]).shape == (20, 3, 1)
