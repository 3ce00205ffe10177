"""The papers' figures by name: each is drawn at the smoke budget."""

import json

import pytest

import chronode
from chronode.lab.experiments.figures import Canvas, _study, drawings

NAMES = sorted(drawings())
FIGURES = {
    "mmrnn": "figure1 figure3 table2",
    "unicornn": "figure2 figure3 figure4 figure5 figure6 figure7",
    "ltc": "figure1 figure2 figure3 table2",
    "irnn": "figure2 figure3 figure4 figure6 figure7 figure8 figure9",
    "ernn": "figure1 figure2 figure5 figure6",
}
PARTS = {"mmrnn/figure3": 2, "ltc/figure2": 5, "ltc/figure3": 5}
QUICK = ("mmrnn/figure1", "mmrnn/table2", "unicornn/figure2", "ltc/figure1", "ltc/table2", "irnn/figure2")


def test_every_figure_that_is_promised_is_there():
    assert sorted(f"{paper}/{name}" for paper, names in FIGURES.items() for name in names.split()) == NAMES


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NAMES])
def test_it_is_drawn(name, tmp_path):
    drawn = drawings()[name].draw(tmp_path, "smoke")
    assert len(drawn) == PARTS.get(name, 1)
    for path in drawn:
        assert path.name.startswith(f"{name.replace('/', '-')}-smoke")
        assert path.read_bytes().startswith(b"\x89PNG")
        numbers = [path.with_suffix(".json"), *tmp_path.glob(f"{path.stem}-[0-9]*.json")]
        assert any(file.is_file() and json.loads(file.read_text()) for file in numbers)


@pytest.mark.parametrize(("task", "units"), [("eigenworms", 32), ("noisy-cifar", 128), ("psmnist", 256)])
def test_the_papers_budget_has_the_papers_settings(task, units, tmp_path):
    trial = _study(Canvas("unicornn/figure3", tmp_path, "paper"), task)
    assert (trial.task, trial.hidden_size, trial.runs) == (task, units, 10)
    assert trial.training.epochs >= 250
    layer = chronode.create("unicornn", 1, 4, num_layers=trial.num_layers, **trial.settings)
    assert float(layer.cells[-1].delta_t) != 0.1  # its own, not the default


def test_an_unknown_budget_is_reported():
    with pytest.raises(ValueError, match="budget='all'"):
        drawings()["mmrnn/table2"].draw("unused", "all")
