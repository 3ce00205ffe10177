"""Studies of UnICORNN that train, with tiny budgets: what is varied is what is trained."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import chronode
from chronode.data import from_list, from_numpy
from chronode.lab.analysis import _oscillator_studies as studies
from chronode.lab.analysis import plot
from chronode.lab.analysis._learning import StudySetup
from chronode.lab.tasks import Parts, Sizes, Task
from chronode.model._spec import ModelSpec
from chronode.training import Settings


def _make(protocol, seed):
    """Whether a series of noise goes up from its first to its last step."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(96, 6, 1)).astype(np.float32)
    rises = (values[:, -1, 0] > values[:, 0, 0]).astype(int)
    series = from_numpy(values, order="NTD", target=rises, classes=["down", "up"])
    return Parts(series[:64], series[64:80], series[80:])


RISES = Task(
    name="rises",
    what="noise; up or down",
    make=_make,
    sizes=Sizes(64, 16, 16, steps=6, channels=1, classes=2),
    loss="cross_entropy",
    metric="accuracy",
    protocols={},
)
TINY = StudySetup(RISES, hidden_size=4, training=Settings(epochs=2, batch_size=32), runs=2)


@pytest.fixture
def built(monkeypatch):
    """Collects what every training is given: (ModelSpec, seed, steps of the longest training series)."""
    calls, assemble = [], studies.StudySetup.train.__globals__["assemble"]

    def spy(parts, model, settings, **others):
        assembly = assemble(parts, model, settings, **others)
        calls.append((assembly.network.spec, settings.seed, int(parts.train.lengths.max())))
        return assembly

    monkeypatch.setitem(studies.StudySetup.train.__globals__, "assemble", spy)
    return calls


def test_effective_steps_by_hand():
    layer = chronode.create("unicornn", 1, 3, num_layers=2, delta_t=[0.1, 0.4])
    for cell in layer.cells:
        cell.c.data = torch.tensor([np.log(3.0), 0.0, -np.log(3.0)])
    found = studies.effective_steps(layer)
    np.testing.assert_allclose(found.steps, np.outer([0.1, 0.4], [0.25, 0.5, 0.75]), rtol=1e-6)
    assert found.spread == pytest.approx(4)


def test_learned_steps_are_those_of_the_trained_model():
    again = studies.effective_steps(TINY.train(TINY.load())[0].model)  # the same seed gives the same model
    found = studies.learned_steps(TINY)
    np.testing.assert_array_equal(found.steps, again.steps)
    assert found.steps.shape == (2, 4)


def test_weight_norms_begin_with_the_weights_before_training():
    found = studies.weight_norms(TINY)
    assert found.norms.shape == (2, 2, 3)  # runs, layers, epochs + 1
    torch.manual_seed(TINY.training.seed)
    spec = ModelSpec.for_data(TINY.load().train, "unicornn", 4, num_layers=2, delta_t=0.3)
    layer = chronode.model._model.SequenceModel.build(spec).layer
    np.testing.assert_allclose(found.norms[0, :, 0], [cell.w.abs().max().item() for cell in layer.cells], rtol=1e-6)
    assert (found.norms[:, :, 1:] != found.norms[:, :, :-1]).any()


def test_sensitivity_varies_one_thing_at_a_time(built):
    seen = []
    found = studies.sensitivity(TINY, delta_t=[0.1, 0.5], alpha=[2.0], progress=lambda *done: seen.append(done))
    result = [(spec.settings.get("delta_t"), spec.settings.get("alpha"), seed) for spec, seed, _ in built]
    assert result == [(0.1, None, 0), (0.1, None, 1), (0.5, None, 0), (0.5, None, 1), (0.3, 2.0, 0), (0.3, 2.0, 1)]
    assert found.delta_t.scores.shape == (1, 2, 2)
    assert found.alpha.scores.shape == (1, 1, 2)
    assert seen == [(i, 6) for i in range(1, 7)]


def test_stacking_compares_three_kinds(built):
    found = studies.stacking(TINY, layers=[3])
    result = [
        (spec.num_layers, spec.settings.get("residual", 0), spec.settings.get("train_c", True)) for spec, *_ in built
    ]
    assert result[::2] == [(3, 0, True), (3, 2, True), (3, 0, False)]
    assert found.kinds == ("plain", "residual", "single-scale")
    assert ((found.scores >= 0) & (found.scores <= 1)).all()


def test_subsampling_shortens_every_part(built):
    found = studies.subsampling(TINY, entries=[2, 4])
    assert [steps for *_, steps in built] == [2, 2, 4, 4, 2, 2, 4, 4]
    assert found.kinds == ("last entries", "random entries")


def test_entries_keep_times_and_targets():
    series = from_list([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0]], times=[[0, 1, 3, 6], [2, 5]], target=["a", "b"])
    last = studies.last_entries(series, 3)
    assert [one.values[:, 0].tolist() for one in last] == [[2.0, 3.0, 4.0], [5.0, 6.0]]
    assert last[0].dt.tolist() == [0.0, 2.0, 3.0]
    drawn = studies.random_entries(series, 3, seed=1)
    for one, whole in zip(drawn, series, strict=True):
        assert len(one.values) == min(3, len(whole.values))
        assert set(zip(one.values[:, 0], one.times, strict=True)) <= set(
            zip(whole.values[:, 0], whole.times, strict=True)
        )
        assert (np.diff(one.times) > 0).all()
        assert one.target == whole.target


def test_what_cannot_be_cut_is_refused():
    per_step = from_list([[1.0, 2.0]], target=[[0, 1]], per_step=True)
    with pytest.raises(ValueError, match="one target each"):
        studies.last_entries(per_step, 1)
    with pytest.raises(ValueError, match="entries must be at least 1"):
        studies.random_entries(from_list([[1.0]], target=[0.5]), 0)
    with pytest.raises(ValueError, match="there is no task 'digit'"):
        studies.learned_steps(StudySetup("digit"))
    with pytest.raises(ValueError, match="kinds='dense' is not supported"):
        studies.stacking(TINY, kinds=["dense"])


def test_every_study_is_json_and_a_picture(tmp_path):
    scores = np.random.default_rng(0).random((2, 3, 2))
    fields = ("task", "accuracy", "layers", (3, 4, 5), ("plain", "residual"), scores)
    compared = studies.StudyScores(*fields)
    drawn = {
        "effective_steps": studies.effective_steps(chronode.create("unicornn", 1, 8)),
        "weight_norms": studies.WeightNorms("task", scores),
        "sensitivity": studies.Sensitivity(compared, compared),
        "stacking": compared,
        "subsampling": replace(compared, over="entries"),
    }
    for name, found in drawn.items():
        assert json.loads(found.to_json()).keys() == found.as_dict().keys()
        path = plot(found, tmp_path / f"{name}.png")
        assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="one by one"):
        plot([compared, compared], tmp_path / "two.png")
    with pytest.raises(TypeError, match="results of analyses, got int"):
        plot(3, tmp_path / "three.png")
    assert not (tmp_path / "two.png").exists()


@pytest.mark.slow
def test_a_longer_training_learns_and_spreads_the_time_steps():
    trial = StudySetup(training=Settings(epochs=15, learning_rate=1e-2), settings={"delta_t": 1.0})
    fitted, score = trial.train(trial.load())
    assert score > 0.7
    assert studies.effective_steps(fitted.model).spread > 1 + np.exp(0.1)  # the most before training: c ≥ -0.1
