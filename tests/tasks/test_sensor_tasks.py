"""What all sensor tasks tell about themselves holds."""

import pytest

import chronode
from chronode.experiments.recipe import by_kind
from chronode.tasks import dsa, gesture, har, occupancy, ozone, person_activity, power, traffic  # noqa: F401 - they add themselves
from chronode.tasks._task import find

NAMES = ("person-activity", "har", "har-2", "gesture", "occupancy", "traffic", "power", "ozone", "dsa-19")


@pytest.mark.parametrize("name", NAMES)
def test_both_protocols_are_told_and_the_leak_is_named(name):
    protocols = find(name).protocols
    assert set(protocols) == {"clean", "paper"}
    assert "Leak" in protocols["paper"] and "Leak" not in protocols["clean"]


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_settings_make_a_model(name):
    task = find(name)
    assert task.settings
    for paper, told in task.settings.items():
        assert paper.split()[0].split("/")[0] in ("mmrnn", "ltc", "irnn", "ernn")
        own = by_kind(told)["model"]
        name, size = own.pop("model"), own.pop("hidden_size", 8)
        layer = chronode.create(name, task.sizes.channels, size, **own)
        assert layer.hidden_size == size
        assert {"batch_size", "optimizer", "learning_rate"} <= set(told)


@pytest.mark.parametrize(
    ("name", "paper", "told"),
    [
        ("person-activity", "mmrnn", (64, "rmsprop", 0.01, 128, 200)),
        ("person-activity", "ltc", (32, "adam", 0.01, 64, 200)),
        ("gesture", "ltc", (32, "adam", 0.01, 16, 200)),
        ("occupancy", "ltc", (32, "adam", 0.005, 16, 200)),
        ("har-2", "irnn", (80, "adam", 0.01, 128, None)),
        ("har-2", "ernn K=1", (80, "adam", 0.01, 128, None)),
    ],
)
def test_numbers_of_the_papers(name, paper, told):
    found = find(name).settings[paper]
    keys = ("hidden_size", "optimizer", "learning_rate", "batch_size", "epochs")
    assert tuple(found.get(key) for key in keys) == told
    assert found.get("K") == {"irnn": 5, "ernn K=1": 1}.get(paper)


@pytest.mark.parametrize("name", NAMES)
def test_how_it_is_learnt_and_scored(name):
    task = find(name)
    if name in ("traffic", "power"):
        assert (task.loss, task.metric, task.sizes.classes) == ("squared", "mse", None)
    else:
        assert (task.loss, task.metric) == ("cross_entropy", "f1" if name == "ozone" else "accuracy")
