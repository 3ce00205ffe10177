"""Every task that can be made or read here: it loads in both protocols, and one batch runs through mmRNN."""

import json
from dataclasses import replace

import pytest

from chronode.lab.datasets._download import present
from chronode.lab.experiments.recipe import recipes
from chronode.lab.tasks import Parts, tasks
from chronode.model._model import SequenceModel
from chronode.training._assembly import spec_for

FEW = {"train": 40, "valid": 20, "test": 20}
LARGE = {
    "smnist",
    "psmnist",
    "event-mnist",
    "noisy-mnist",
    "noisy-cifar",
    "row-mnist",
    "imdb",
    "power",
    "dsa-19",
    "har",
    "har-2",
}


def cases():
    for name, task in tasks().items():
        marks = [pytest.mark.slow] if name in LARGE else []
        for protocol in task.protocols:
            yield pytest.param(name, protocol, id=f"{name}-{protocol}", marks=marks)


def loaded(name, protocol):
    task = tasks()[name]
    few = {key: value for key, value in FEW.items() if isinstance(task.options.get(key), int)}
    if name == "walker2d":
        few["source"] = "scripted"
    elif task.data is not None and present(task.data) is None:
        pytest.skip(f"the data set {task.data} is not on this machine")
    return task, task.load(protocol, **few)


@pytest.mark.parametrize(("name", "protocol"), list(cases()))
def test_loads_and_one_batch_runs_through_mmrnn(name, protocol):
    task, parts = loaded(name, protocol)
    for part in (parts.train, parts.valid, parts.test):
        assert len(part)
        assert part.target is not None
        assert part.target.classes == parts.train.target.classes
    batch = parts.train.batch(range(2))
    network = SequenceModel.build(spec_for(parts, "mmrnn", hidden_size=4), parts.vectors)
    answer = network(batch.x, **batch.times)
    assert answer.isfinite().all()
    assert answer.shape[-1] == (task.sizes.classes or batch.target.shape[-1])


@pytest.mark.parametrize("name", [name for name, task in tasks().items() if task.data is None])
def test_made_tasks_repeat_by_seed_and_differ_by_seed(name):
    few = {key: value for key, value in FEW.items() if key in tasks()[name].options}
    load = tasks()[name].load
    one, again, other = (load(seed=seed, **few).train.batch() for seed in (3, 3, 4))
    assert one.x.equal(again.x)
    assert one.target.equal(again.target)
    assert not (one.x.shape == other.x.shape and one.x.equal(other.x))


@pytest.mark.parametrize("again", [lambda part: part, lambda part: part[:]], ids=["the same", "a copy"])
def test_a_validation_part_that_is_the_test_part_is_refused(again):
    made = tasks()["bitstream"].load(**FEW)
    leaky = replace(
        tasks()["bitstream"], make=lambda protocol, seed: Parts(made.train, again(made.test), made.test), options={}
    )
    with pytest.raises(ValueError, match="bitstream, protocol 'paper': the validation part is the test part"):
        leaky.load("paper")


def used():
    """Every task with the options and protocol of a recipe."""
    cells = [cell for recipe in recipes().values() for cell in recipe.cells("paper")]
    return sorted({(cell.task, cell.protocol, json.dumps(cell.config["options"], sort_keys=True)) for cell in cells})


@pytest.mark.parametrize(
    ("name", "protocol", "options"), [pytest.param(*case, marks=pytest.mark.slow) for case in used()]
)
def test_no_recipe_validates_on_its_test_part(name, protocol, options):
    task = tasks()[name]
    if task.data is not None and present(task.data) is None:
        pytest.skip(f"the data set {task.data} is not on this machine")
    small = {key: value for key, value in FEW.items() if isinstance(task.options.get(key), int)}
    parts = task.load(protocol, **{**json.loads(options), **small})
    rows = [{row.values.tobytes() for row in part[:200]} for part in (parts.valid, parts.test)]
    assert len(rows[0] & rows[1]) < 0.5 * len(rows[0])
