"""Small searches and backtests."""

import numpy as np

from chronode.estimators import SequenceForecaster
from chronode.runs._config import Config
from chronode.search._ranges import Between, OneOf
from chronode.search._sweep import Search

ASKED = {
    "data": {"source": "bitstream", "options": {"train": 64, "valid": 32, "test": 32}},
    "model": {"model": "unicornn", "hidden": 4},
    "training": {"epochs": 2, "batch_size": 32},
}
RANGES = {"learning_rate": Between(1e-3, 1e-1, log=True), "num_layers": OneOf((1, 2)), "alpha": Between(0.0, 5.0)}


def search_in(folder, ranges=RANGES, *, pruner="median", **training):
    """A search of a few epochs in `folder`; `training` goes before what is asked."""
    return Search(Config.from_dict(ASKED).with_values({"training": training}), ranges, folder, pruner=pruner)


class Watch:
    """Calls a function with every event of a backtest, and keeps the lines of the runs that ended."""

    def __init__(self, on_event):
        self.on_event, self.ended = on_event, []

    def begin(self, label):
        assert label.startswith("origin ")

    def event(self, label, event):
        self.on_event(label, event)

    def end(self, label, line):
        self.ended.append(line)


def backtest_with(on_event, **options):
    """A backtest with two origins, and the lines of its runs."""
    watch = Watch(on_event)
    waves = np.sin(0.5 * np.arange(40) + np.arange(4)[:, None])
    forecaster = SequenceForecaster("gru", horizon=2, hidden_size=4, epochs=3, batch_size=4, random_state=0)
    return forecaster.backtest(waves, origins=2, progress=watch, **options), watch.ended
