"""Small searches for the tests of tuning."""

from chronode.runs._config import Config
from chronode.search._ranges import Between, OneOf
from chronode.search._sweep import Search

ASKED = {
    "data": {"source": "bitstream", "options": {"train": 64, "valid": 32, "test": 32}},
    "model": {"model": "unicornn", "hidden": 4},
    "training": {"epochs": 2, "batch_size": 32},
}
RANGES = {"learning_rate": Between(1e-3, 1e-1, log=True), "layers": OneOf((1, 2)), "alpha": Between(0.0, 5.0)}


def search_in(folder, ranges=RANGES, *, pruner="median", **training):
    """A search of a few epochs in `folder`; `training` goes before what is asked."""
    return Search(Config.from_dict(ASKED).with_values({"training": training}), ranges, folder, pruner=pruner)
