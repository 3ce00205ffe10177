"""A cell of the user's own on the command line."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from commands import chronode as command
from commands import run

import chronode
from chronode.nn import _registry
from chronode.runs import load
from chronode.system import _modules

PLUGIN = """
import torch
import chronode


@chronode.register("leaky-plugin", paper="mine", time="native")
class Leaky(chronode.nn.Cell):
    def __init__(self, input_size, hidden_size, tau=1.0):
        super().__init__(input_size, hidden_size)
        self.tau = tau
        self.inputs = torch.nn.Linear(input_size, hidden_size)

    def forward(self, x, state, dt):
        (h,) = state
        h = h * torch.exp(-dt / self.tau) + torch.tanh(self.inputs(x))
        return h, (h,)
"""
SMALL = ("--option", "train=64", "--option", "valid=32", "--option", "test=32", "--hidden", "4", "--epochs", "1")
TRAIN = ("train", "bitstream", "--model", "leaky-plugin", "--set", "tau=2.0", *SMALL)


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A plugin that this process forgets after the test."""
    monkeypatch.setattr(_registry, "_models", dict(_registry._models))
    monkeypatch.setattr(_modules, "_loaded", {})
    path = tmp_path / "leaky.py"
    path.write_text(PLUGIN)
    return path


def forget():
    _registry._models.pop("leaky-plugin")
    _modules._loaded.clear()


def test_train_predict_evaluate_and_resume_with_a_plugin(plugin, tmp_path):
    folder = tmp_path / "run"
    command(*TRAIN, "-o", folder, "--plugin", plugin)
    assert load(folder).model.layer.cells[0].tau == 2.0
    forget()
    for words in (("predict", folder), ("evaluate", folder), ("train", "--resume", folder, "--epochs", "2")):
        refused = command(*words, code=2).err
        assert f"{folder} has the model 'leaky-plugin', which is not registered" in refused
        assert f"--plugin {plugin}" in refused
        assert "leaky-plugin" not in chronode.models()
    for words in (("predict", folder), ("evaluate", folder), ("train", "--resume", folder, "--epochs", "2")):
        command(*words, "--plugin", plugin)
        forget()


def test_a_plugin_reaches_the_workers_of_a_comparison(plugin, tmp_path):
    words = ("compare", "bitstream", "--models", "rnn,leaky-plugin", "--seeds", "1", *SMALL, "--workers", "1")
    output = run(*words, "-o", str(tmp_path / "runs"), "--plugin", str(plugin)).stdout
    assert "leaky-plugin, seed 0: test loss" in output


def test_models_lists_those_of_a_plugin_that_is_a_module(plugin, tmp_path):
    program = "from chronode.cli import main; main()"
    words = [sys.executable, "-c", program, "models", "--json", "--plugin", "leaky"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"leaky-plugin"' in done.stdout


def test_an_installed_plugin_is_found_by_its_entry_point(plugin, monkeypatch):
    monkeypatch.syspath_prepend(str(plugin.parent))
    monkeypatch.delitem(sys.modules, "leaky", raising=False)
    entries = [EntryPoint("mine", "leaky", _modules.GROUP), EntryPoint("broken", "no_such_module", _modules.GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    monkeypatch.setattr(_modules, "_installed", [])
    with pytest.warns(RuntimeWarning, match="the plugin broken \\(no_such_module\\) failed"):
        layer = chronode.create("leaky-plugin", 3, 4)
    assert layer.cells[0].tau == 1.0
    assert "leaky-plugin" in chronode.models()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gone.py", None, "there is no file"),
        ("wrong.py", "raise KeyError('x')", "failed with KeyError: 'x'"),
        ("taken.py", PLUGIN.replace("leaky-plugin", "ltc"), "the name 'ltc' is already used"),
        ("no_such_module", None, "the module no_such_module failed with ModuleNotFoundError"),
    ],
)
def test_a_mistake_is_named(plugin, tmp_path, monkeypatch, name, text, message):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    done = run("models", "--plugin", name, code=2)
    assert message in done.stderr
    assert "--plugin" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_plugins_need_two_names(plugin, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "leaky.py").write_text("")
    _modules.load_plugin(str(plugin))
    _modules.load_plugin(str(plugin))
    with pytest.raises(ValueError, match="have the same name"):
        _modules.load_plugin(str(tmp_path / "other" / "leaky.py"))
