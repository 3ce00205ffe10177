"""Names of models: registering, listing, creating."""

import pytest
import torch

import chronode
from chronode.nn import _registry as registry


def define(name="leaky", time="native", tau=1.0, **settings):
    """Runs a class statement such as a notebook cell holds, and registers the class."""

    @chronode.register(name, paper="mine", time=time, **settings)
    class Leaky(chronode.nn.Cell):
        """h' = h e^(-dt/τ) + tanh(W x + U h + b).

        More about it.
        """

        def __init__(self, input_size, hidden_size, tau=tau):
            super().__init__(input_size, hidden_size)
            self.tau = tau
            self.inputs = torch.nn.Linear(input_size, hidden_size)
            self.recurrent = torch.nn.Linear(hidden_size, hidden_size, bias=False)

        def forward(self, x, state, dt):
            (h,) = state
            h = h * torch.exp(-dt / self.tau) + torch.tanh(self.inputs(x) + self.recurrent(h))
            return h, (h,)

    return Leaky


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """Forgets the models that a test registers."""
    monkeypatch.setattr(registry, "_models", dict(registry._models))


def test_a_registered_cell_is_created_by_name():
    leaky = define()
    layer = chronode.create("leaky", 3, 4, num_layers=2, tau=2.0)
    assert all(type(cell) is leaky and cell.tau == 2.0 for cell in layer.cells)
    y, (h,) = layer(torch.randn(2, 5, 3), dt=torch.rand(2, 5), lengths=[5, 2])
    assert y.shape == (2, 5, 4)
    assert h.shape == (2, 2, 4)


def test_the_same_class_may_be_registered_again():
    first, second = define(), define()
    assert first is not second
    assert chronode.models()["leaky"].cell is second


def test_a_taken_name_is_refused():
    with pytest.raises(ValueError, match="the name 'ltc' is already used by chronode.nn.cells.ltc.LTCCell"):
        define("ltc")
    assert chronode.models()["ltc"].cell is chronode.nn.LTCCell


def test_presets_can_be_overridden():
    define("slow", tau=10.0)
    assert chronode.create("slow", 3, 4).cells[0].tau == 10.0
    assert chronode.create("slow", 3, 4, tau=5.0).cells[0].tau == 5.0


def test_one_class_under_two_names():
    names = {name for name, model in chronode.models().items() if model.cell is chronode.nn.EquilibriumCell}
    assert names == {"irnn", "sirnn", "ernn"}
    assert [chronode.create(name, 3, 4).cells[0].K for name in ("irnn", "sirnn", "ernn")] == [5, 1, 3]


def test_only_cells_can_be_registered():
    with pytest.raises(TypeError, match="register\\('mine'\\) takes a subclass of chronode.nn.Cell, got <class 'int'>"):
        chronode.register("mine", paper="mine", time="none")(int)  # pyrefly: ignore[bad-specialization]
    with pytest.raises(TypeError, match="takes a subclass of chronode.nn.Cell"):
        chronode.register("mine", paper="mine", time="none")(chronode.nn.Cell(1, 1))  # pyrefly: ignore[bad-specialization]
    assert "mine" not in chronode.models()


def test_how_time_is_used_must_be_given():
    with pytest.raises(ValueError, match="time='natural' is not supported; choose one of 'native', 'feature', 'none'"):
        chronode.register("mine", paper="mine", time="natural")


def test_models_are_sorted_and_a_copy():
    models = chronode.models()
    assert list(models) == sorted(models)
    assert {"mmrnn", "unicornn", "ltc", "irnn", "sirnn", "ernn", "lstm-dt"} <= set(models)
    models.clear()
    assert chronode.models()


@pytest.mark.parametrize("name", chronode.models())
def test_facts_of_a_model(name):
    model = chronode.models()[name]
    assert model.name == name
    assert model.paper
    assert model.time in ("native", "feature", "none")
    assert isinstance(model.kernel(), str)
    assert model.summary, "the first line of a cell's docstring says what it is"


def test_parameters_are_counted():
    define()
    assert chronode.models()["leaky"].parameters() == 64 * (1 + 64 + 1)
    assert chronode.models()["leaky"].parameters(input_size=3, hidden_size=4) == 4 * (3 + 4 + 1)


def test_asking_for_facts_leaves_the_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    chronode.models()["ltc"].parameters()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("name", "near"), [("ltcc", "'ltc'"), ("lstmdt", "'lstm-dt'"), ("UniCORNN", "'unicornn'")])
def test_an_unknown_name_is_reported_with_similar_ones(name, near):
    with pytest.raises(ValueError, match=f"there is no model '{name}'. Did you mean .*{near}.*chronode models"):
        chronode.create(name, 3, 4)


def test_a_name_far_from_all():
    with pytest.raises(ValueError, match="there is no model 'qqqq'. `chronode models` .* lists all"):
        chronode.create("qqqq", 3, 4)


@pytest.mark.parametrize("name", [None, ["ltc"], chronode.nn.LTCCell])
def test_a_name_is_a_string(name):
    with pytest.raises(TypeError, match="name must be the name of a model such as 'ltc'"):
        chronode.create(name, 3, 4)


@pytest.mark.parametrize("name", ["mmrnn", "unicornn", "ltc", "irnn", "sirnn", "ernn"])
def test_create_gives_the_class_of_that_name(name):
    layer = chronode.create(name, 3, 4)
    (cls,) = [cls for cls in vars(chronode.nn).values() if isinstance(cls, type) and cls is type(layer)]
    assert cls.__name__.lower() == name
    alone = cls(3, 4)  # pyrefly: ignore
    assert [p.shape for p in alone.parameters()] == [p.shape for p in layer.parameters()]


def test_presets_of_a_name_hold_for_its_class_and_can_be_overridden():
    assert (chronode.nn.SiRNN(3, 4).cells[0].K, chronode.nn.ERNN(3, 4).cells[0].K) == (1, 3)
    assert chronode.nn.SiRNN(3, 4, K=2).cells[0].K == chronode.create("sirnn", 3, 4, K=2).cells[0].K == 2


def test_models_are_filtered_by_pattern():
    assert list(chronode.models("ct-*")) == ["ct-gru", "ct-lstm", "ct-rnn"]
    assert chronode.models("nothing*") == {}


@pytest.mark.parametrize(
    ("layer", "shown"),
    [
        (lambda: chronode.nn.LTC(3, 4), "LTC(\n  3, 4\n"),
        (
            lambda: chronode.create("lstm", 3, 4, 2, bidirectional=True),
            "(\n  LSTMCell, 3, 4, num_layers=2, bidirectional=True\n",
        ),
        (lambda: chronode.create("lstm-dt", 3, 4, memory="low"), "(\n  LSTMCell, 3, 4, memory='low', sees_dt=True\n"),
        (lambda: chronode.nn.MMRNN(3, 4, variant="gated", flow="ctrnn"), "MMRNN(\n  3, 4, flow='ctrnn'\n"),
        (lambda: chronode.nn.UnICORNN(3, 4, 2, delta_t=[0.1, 0.2]), "(\n  3, 4, num_layers=2, delta_t=[0.1, 0.2]\n"),
    ],
)
def test_repr_shows_what_differs_from_the_defaults(layer, shown):
    assert shown in repr(layer())


FAMILIES = {
    "antisymmetric": "antisymmetric gated-antisymmetric lipschitz",
    "cfc": "cfc",
    "decay": "ct-gru ct-lstm decay-gru gru-d rnn-decay rnn-decay-mmrnn",
    "elementwise": "dense-indrnn indrnn sru",
    "fastgrnn": "fastgrnn fastrnn",
    "irnn": "ernn irnn sirnn",
    "latent": "latent-ode rnn-vae",
    "linear": "mingru minlstm",
    "linoss": "d-linoss linoss",
    "ltc": "ltc",
    "mmrnn": "mmrnn",
    "ncde": "log-ncde ncde",
    "ode_rnn": "ct-rnn gru-ode neural-ode ode-rnn reciprocal reciprocal-mmrnn",
    "orthogonal": "exprnn spectral urnn",
    "oscillators": "cornn lem unicornn",
    "phased_lstm": "phased-lstm phased-lstm-mmrnn",
    "skip": "skip-gru skip-lstm",
    "state_space": "lru s4d s5",
    "textbook": "gru lstm lstm-dt relu-gru rnn rnn-dt ugrnn",
}


def test_the_models_of_a_family_are_in_one_file():
    homes = {name: model.cell.__module__ for name, model in chronode.models().items()}
    inside = {name: home for name, home in homes.items() if home.startswith("chronode.")}
    inside.pop("leaky-doc", None)  # registered by the example of `register`, if that was run before
    assert inside == {
        name: f"chronode.nn.cells.{family}" for family, names in FAMILIES.items() for name in names.split()
    }
