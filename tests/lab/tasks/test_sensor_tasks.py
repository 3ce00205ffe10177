"""Descriptions of all sensor tasks agree with their data."""

import pytest

from chronode.lab.tasks import dsa, gesture, har, occupancy, ozone, person_activity, power, traffic  # noqa: F401 - they add themselves
from chronode.training._task import find_task

NAMES = ("person-activity", "har", "har-2", "gesture", "occupancy", "traffic", "power", "ozone", "dsa-19")


@pytest.mark.parametrize("name", NAMES)
def test_both_protocols_are_described_and_the_leak_is_named(name):
    protocols = find_task(name).protocols
    assert set(protocols) == {"clean", "paper"}
    assert "Leak" not in protocols["clean"]
    assert "Leak" in protocols["paper"] or protocols["paper"].startswith("the same")


@pytest.mark.parametrize("name", NAMES)
def test_how_it_is_learned_and_scored(name):
    task = find_task(name)
    if name in ("traffic", "power"):
        assert (task.loss, task.metric, task.sizes.classes) == ("squared", "mse", None)
    else:
        assert (task.loss, task.metric) == ("cross_entropy", "f1" if name == "ozone" else "accuracy")
