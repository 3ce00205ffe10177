import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import chronode
from chronode.data import from_list, from_numpy
from chronode.lab.tasks.bitstream import bitstream
from chronode.model._model import SequenceModel
from chronode.model._spec import ModelSpec
from chronode.model.start._features import build_features


@chronode.register("running-mean", paper="mine", time="none")
class RunningMean(chronode.nn.Cell):
    """h' = h + r (W x - h);  y = h'."""

    def __init__(self, input_size, hidden_size, *, rate=0.5):
        super().__init__(input_size, hidden_size)
        self.inputs = torch.nn.Linear(input_size, hidden_size)
        self.rate = rate

    def forward(self, x, state, dt):
        (h,) = state
        h = h + self.rate * (self.inputs(x) - h)
        return h, (h,)


def test_spec_follows_from_the_data():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 5, 3))
    labeled = from_numpy(values, order="NTD", target=np.array(["a", "b", "c"] * 2))
    assert ModelSpec.for_data(labeled, "gru").num_outputs == 3
    values[1, 2, 0] = np.nan
    numbers = from_numpy(values, order="NTD", target=rng.normal(size=(6, 4)))
    spec = ModelSpec.for_data(numbers, "gru", hidden_size=7, num_layers=2, dropout=0.5)
    assert (spec.input_size, spec.num_outputs, spec.missing, spec.per_step) == (3, 4, True, False)
    model = SequenceModel.build(spec)
    assert (model.layer.num_layers, model.layer.dropout, model.layer.hidden_size) == (2, 0.5, 7)
    batch = numbers.batch()
    assert model(batch.x, **batch.times).shape == (6, 4)


def test_a_target_at_every_step_gets_an_answer_at_every_step():
    data = from_list([[1.0, 2.0, 3.0], [4.0]], target=[[0.0, 1.0, 2.0], [3.0]], per_step=True, kind="value")
    spec = ModelSpec.for_data(data, "ltc", hidden_size=4)
    batch = data.batch()
    assert spec.per_step
    assert SequenceModel.build(spec)(batch.x, **batch.times).shape == (2, 3, 1)


def symbols():
    return from_list([[0, 3, 1], [2, 2]], target=["x", "y"], dtype=np.int64)


def test_symbols_get_vectors():
    data = symbols()
    spec = ModelSpec.for_data(data, "gru", hidden_size=4, embedding_size=5)
    assert (spec.symbols, spec.input_size) == (4, 1)
    vectors = np.arange(20, dtype=np.float32).reshape(4, 5)
    vectors[2] = np.nan
    model = SequenceModel.build(spec, vectors)
    table = model.embedding.weight
    assert torch.equal(table[[0, 1, 3]], torch.tensor(vectors[[0, 1, 3]]))
    assert table[2].isfinite().all()
    batch = data.batch()
    y, _ = model.layer(table[batch.x[..., 0]], **batch.times)
    torch.testing.assert_close(model(batch.x, **batch.times), model.head(y))
    with pytest.raises(ValueError, match="shape"):
        SequenceModel.build(spec, vectors[:3])


def test_embedding_dropout_acts_in_training_only():
    model = SequenceModel.build(ModelSpec.for_data(symbols(), "gru", hidden_size=4, embedding_dropout=0.5))
    x = symbols().batch().x
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


def test_words_without_a_vector_are_of_the_size_of_the_others():
    rng = np.random.default_rng(0)
    vectors = rng.normal([5.0, -3.0], [0.1, 2.0], size=(4000, 2)).astype(np.float32)
    vectors[::2] = np.nan
    spec = ModelSpec("gru", 1, 2, hidden_size=3, symbols=4000, embedding_size=2)
    drawn = SequenceModel.build(spec, vectors).embedding.weight[::2].detach().numpy()
    np.testing.assert_allclose(drawn.mean(0), [5.0, -3.0], atol=0.2)
    np.testing.assert_allclose(drawn.std(0), [0.1, 2.0], rtol=0.1)


def test_word_dropout_drops_a_word_at_all_its_places_and_keeps_the_mean():
    spec = ModelSpec("gru", 1, 2, hidden_size=3, symbols=5000, embedding_size=1, word_dropout=0.4)
    table = SequenceModel.build(spec, np.ones((5000, 1), dtype=np.float32)).embedding
    first, again = table(torch.arange(5000).repeat(2, 1))
    assert first.equal(again)
    assert {round(value, 4) for value in first.unique().tolist()} == {0.0, round(1 / 0.6, 4)}
    assert first.mean().item() == pytest.approx(1, abs=0.05)
    assert not table(torch.arange(5000)).equal(first)
    assert table.eval()(torch.arange(5000)).eq(1).all()


@pytest.mark.parametrize(("head_init", "spread"), [("uniform", 1 / np.sqrt(3 * 900)), ("normal", np.sqrt(2 / 900))])
def test_the_head_is_drawn_as_asked(head_init, spread):
    head = SequenceModel.build(ModelSpec("rnn", 1, 9, hidden_size=900, head_init=head_init)).head
    assert head.weight.std().item() == pytest.approx(spread, rel=0.05)
    assert (head.bias == 0).all() == (head_init == "normal")


@pytest.mark.parametrize("name", ["mmrnn", "gru-d", "running-mean"])
def test_pieces_with_a_carried_state_give_the_numbers_of_the_whole(name):
    model = SequenceModel.build(ModelSpec(name, 2, 3, hidden_size=4, per_step=True))
    x, dt = torch.randn(5, 9, 2), torch.rand(5, 9)
    whole, last = model.run(x, dt=dt)
    first, state = model.run(x[:, :4], dt=dt[:, :4])
    second, state = model.run(x[:, 4:], state, dt=dt[:, 4:])
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    for one, other in zip(state, last, strict=True):
        torch.testing.assert_close(one, other)


def test_a_model_keeps_the_settings_of_its_weights_if_a_default_has_changed(tmp_path, monkeypatch):
    data = bitstream(16, seed=0)
    model = SequenceModel.build(ModelSpec.for_data(data, "running-mean", hidden_size=4)).eval()
    path = model.save(tmp_path / "model")
    monkeypatch.setitem(RunningMean.__init__.__kwdefaults__, "rate", 0.125)
    batch = data.batch()
    for _ in range(2):
        loaded = SequenceModel.load(path)
        assert loaded.spec.settings == {"rate": 0.5}
        assert torch.equal(loaded(batch.x, **batch.times), model(batch.x, **batch.times))
        path = loaded.save(tmp_path / "again")
    spec = json.loads((tmp_path / "model.json").read_text()) | {"settings": {"rate": 0.25}}
    (tmp_path / "model.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match="saved with rate=0.5, but this layer has rate=0.25"):
        SequenceModel.load(tmp_path / "model")


def test_a_saved_model_gives_the_same_predictions_and_is_not_a_pickle(tmp_path):
    data = bitstream(16, seed=0)
    spec = ModelSpec.for_data(data, "running-mean", hidden_size=4, rate=0.25)
    model = SequenceModel.build(spec).eval()
    path = model.save(tmp_path / "model")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
    assert json.loads((tmp_path / "model.json").read_text())["settings"] == {"rate": 0.25}
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    loaded = SequenceModel.load(path)
    assert torch.equal(torch.rand(1), expected)  # loading draws nothing from the caller's generator
    batch = data.batch()
    assert torch.equal(loaded(batch.x, **batch.times), model(batch.x, **batch.times))
    assert loaded.spec == spec
    assert not loaded.training


def test_a_broken_file_is_named(tmp_path):
    path = SequenceModel.build(ModelSpec("gru", 1, 2, hidden_size=3)).save(tmp_path / "model")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="model.safetensors"):
        SequenceModel.load(path)
    path.write_bytes(whole)
    content = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps({**content, "hidden_size": 4}))
    with pytest.raises(ValueError, match="model.safetensors"):
        SequenceModel.load(path)
    path.with_suffix(".json").write_text(json.dumps({**content, "hiden_size": 4}))
    with pytest.raises(ValueError, match="Did you mean 'hidden_size'"):
        SequenceModel.load(path)


def test_a_model_put_together_by_hand_says_why_it_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="by hand"):
        SequenceModel(chronode.create("gru", 1, 2), 2).save(tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "mmrn"}, "Did you mean 'mmrnn'"),
        ({"hidden_size": 0}, "hidden_size must be at least 1"),
        ({"symbols": 5, "input_size": 2}, "a single channel"),
        ({"embedding_dropout": 1.0}, "embedding_dropout must be less than 1"),
        ({"word_dropout": 1.0}, "word_dropout must be less than 1"),
        ({"head_init": "nromal"}, "Did you mean 'normal'"),
        ({"settings": {"outputs": "all"}}, "follows from per_step"),
    ],
)
def test_a_wrong_spec_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        ModelSpec(**{"model": "gru", "input_size": 1, "num_outputs": 2, **options})


def test_double_data_are_read_by_a_float_model():
    model = SequenceModel.build(ModelSpec("gru", 1, 2, hidden_size=3))
    assert model(torch.zeros(2, 3, 1, dtype=torch.float64)).dtype == torch.float32


def test_weights_of_another_size_are_refused_in_a_short_line_that_names_one():
    spec = ModelSpec("gru", 2, 3, hidden_size=64, num_layers=4)
    small = SequenceModel.build(replace(spec, hidden_size=5)).state_dict()
    with pytest.raises(ValueError) as refused:
        SequenceModel.from_weights(spec, small, "weights")
    line = str(refused.value)
    assert "(192, 2)" in line
    assert "(15, 2)" in line
    assert len(line) < 250


@pytest.mark.parametrize("name", ["channels", "steps", "season"])
def test_a_size_of_features_that_is_no_number_is_refused(name):
    description = {"kind": "values", "channels": 2, "steps": 5, "season": 0, name: ["a", "b"]}
    with pytest.raises(TypeError, match=f"start.{name}"):
        build_features(description)
