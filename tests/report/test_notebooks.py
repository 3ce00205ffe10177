"""Displays in notebooks: HTML of series, runs, comparisons, searches and estimators, and a bar that is written over."""

import io
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from html_checks import ATTACK, check_html

import chronode
from chronode.data import from_list
from chronode.runs import Config, Run, train_run
from chronode.search import Between, Search
from chronode.training import BatchDone, Epoch, EpochDone, Note, ProgressBar, fit

SMALL = {
    "data": {"source": "bitstream", "options": {"train": 24, "valid": 8, "test": 8}},
    "model": {"model": "mmrnn", "hidden": 4},
}


@pytest.mark.parametrize("channels", [1, 3, 20])
@pytest.mark.parametrize("target", [None, "class", "value"])
def test_series(channels, target):
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(length, channels)) * 10 ** np.arange(channels) for length in (5, 3, 1, 700)]
    values[0][1, 0] = np.nan
    times = [np.cumsum(rng.exponential(size=len(one))) for one in values]
    targets = {None: None, "class": [ATTACK, "b", ATTACK, "b"], "value": [1.0, 2.0, 3.0, 4.0]}[target]
    names = [f"{ATTACK}{n}" for n in range(channels)]
    s = from_list(values, times=times, target=targets, channels=names, ids=[f"{ATTACK}{n}" for n in range(4)])
    seen = check_html(s._repr_html_())
    for words in ("1 to 700", "Gaps", "Missing values", f"{channels}: ", "series "):
        assert words in seen, words
    assert "<script" not in s._repr_html_()
    check_html(s[:0]._repr_html_())


def test_symbols_and_series_without_times():
    check_html(from_list([np.array([[0], [2], [1]])], dtype=np.int64)._repr_html_())


def test_runs(tmp_path):
    config = Config.from_dict({**SMALL, "training": {"epochs": 2}})
    outcome = train_run(config, tmp_path / "run")
    seen = check_html(outcome.run._repr_html_())
    for words in ("finished", "majority", "best epoch", "Loss", f"{outcome.summary['parameters']:,}"):
        assert words in seen.replace(str(outcome.summary["parameters"]), f"{outcome.summary['parameters']:,}"), words
    assert outcome._repr_html_() == outcome.run._repr_html_()
    new = Run.create(tmp_path / "new", {**config.as_dict(), "model": {"model": ATTACK}})
    assert ATTACK in check_html(new._repr_html_())


def test_searches(tmp_path):
    ranges = {"learning_rate": Between(1e-3, 1e-1, log=True)}
    search = Search(Config.from_dict({**SMALL, "training": {"epochs": 1}}), ranges, tmp_path)
    check_html(search._repr_html_())
    search.run(trials=2)
    assert "learning_rate" in check_html(search._repr_html_())


def test_estimators():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 1, 6)), np.arange(12) % 2
    estimator = chronode.SequenceClassifier(model="gru", hidden_size=4, epochs=2, random_state=0)
    before = estimator._repr_mimebundle_()["text/html"]
    assert "best epoch" not in before
    estimator.fit(x, y)
    shown = estimator._repr_mimebundle_()["text/html"]
    assert "best epoch" in shown
    assert "<svg" in shown[len(before) - 200 :]
    assert "best epoch" in estimator._repr_html_()
    check_html(estimator._fitted_html())


class FakeNotebook:
    """IPython as a kernel has it: display gives a handle whose output can be replaced."""

    def __init__(self, monkeypatch):
        self.shown, self.updates = [], 0
        python, display = ModuleType("IPython"), ModuleType("IPython.display")
        python.get_ipython = lambda: SimpleNamespace(kernel=object())
        display.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", python)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(data)
        return self

    def update(self, data, *, raw):
        assert raw
        self.shown[-1] = data
        self.updates += 1


def test_a_notebook_has_one_output_that_is_replaced(monkeypatch):
    notebook = FakeNotebook(monkeypatch)
    s = from_list([[0.1, 0.2]] * 8, target=["a", "b"] * 4)
    fit(s, chronode.ModelSpec.for_data(s, "gru", 4), chronode.training.Settings(epochs=3), on_event=ProgressBar(3))
    (data,) = notebook.shown
    assert notebook.updates >= 3
    seen = check_html(data["text/html"])
    assert "epoch 3/3" in seen
    assert "Loss" in seen
    assert "epoch 3/3" in data["text/plain"]


def test_files_get_a_line_per_epoch_and_notes():
    output = io.StringIO()
    show = ProgressBar(2, file=output)
    show(Note("few series"))
    for epoch in (1, 2):
        show(BatchDone(epoch, 1, 2, 1, 0.7))
        show(EpochDone(Epoch(epoch, 0.5, 0.4), epoch == 1))
    lines = output.getvalue().splitlines()
    assert lines == [
        "note: few series",
        "epoch 1/2  loss 0.5  valid loss 0.4  (best)",
        "epoch 2/2  loss 0.5  valid loss 0.4",
    ]


def test_a_terminal_has_one_line_that_is_written_over():
    output = io.StringIO()
    output.isatty = lambda: True
    show = ProgressBar(3, file=output)
    for epoch in (1, 2, 3):
        show(EpochDone(Epoch(epoch, 0.5, 0.4), True))
    text = output.getvalue()
    assert text.count("\r") == 3
    assert text.count("\n") == 1
    assert "left)" in text


def test_a_terminal_shows_many_runs_in_one_line_above_which_results_stay(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    output = io.StringIO()
    output.isatty = lambda: True
    with ProgressBar(2, file=output, runs=2, costs={"a": 3.0, "b": 1.0}) as bar:
        bar.begin("a")
        bar.event("a", Note("few series"))
        bar.event("b", Note("few series"))
        bar.shown = -1e9  # without a wait between two events
        bar.event("a", BatchDone(2, 2, 2, 4, 0.7))
        bar.end("a", "a: accuracy 0.9")
    text = output.getvalue()
    assert text.count("note: few series") == 1
    assert "0/2  a  epoch 2/2  loss 0.7" in text and "1/2  a: accuracy 0.9\n" in text
    drawn = [line for line in text.replace("\n", "\r").split("\r\x1b[K") if "epoch 2/2" in line]
    assert drawn[0].count("━") == 12  # 3 of 4 by cost
    assert max(len(line) for line in text.replace("\r\x1b[K", "\n").splitlines()) < 60
    assert text.endswith("\n")
