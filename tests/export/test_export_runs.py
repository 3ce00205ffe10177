"""`chronode export` of trained runs: the whole path, from a raw file to its answers."""

import re
import shutil

import numpy as np
import pytest
from commands import QUICK, chronode, write_vitals

import chronode as package
from chronode.export import export
from chronode.export._deployment import Series
from chronode.export._verify import irregular, predictions
from chronode.runs import load
from chronode.settings import SettingError

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler")


@pytest.fixture(scope="module")
def vitals(tmp_path_factory):
    return write_vitals(tmp_path_factory.mktemp("data") / "vitals.csv")


def trained(folder, vitals, *options):
    usual = ["--id", "patient", "--time", "charted_at", "--epochs", 2, *QUICK]
    chronode("train", vitals, *usual, *options, "-o", folder / "run")
    return folder / "run"


POOLED = ["--set", "pool=mean"]
CASES = {
    "classes": ["--target", "outcome", "--model", "mmrnn"],
    "scaled time": ["--target", "outcome", "--model", "gru-d", "--scale-time"],
    "layers": ["--target", "outcome", "--model", "unicornn", "--layers", 3, "--set", "residual=1"],
    "forecast": ["--forecast", 2, "--channels", "hr", "--per-step", "--ignore", "outcome", "--model", "ltc"],
    "not scaled": ["--target", "outcome", "--model", "lstm-dt", "--no-scale"],
    "linear start": ["--target", "outcome", "--model", "gru-d", "--start", "summaries"],
    "linear start per step": ["--forecast", 1, "--per-step", "--ignore", "outcome", "--start", "summaries"],
    "windows": ["--forecast", 1, "--channels", "hr", "--window", 3, "--ignore", "outcome", "--model", "gru"],
    "state space": ["--target", "outcome", "--model", "linoss", "--layers", 2, *("--set", "block=residual"), *POOLED],
    "pooled windows": [
        "--forecast",
        1,
        "--channels",
        "hr",
        "--window",
        3,
        "--ignore",
        "outcome",
        "--model",
        "gru",
        *POOLED,
    ],
    "longest gap": ["--target", "outcome", "--model", "rnn-decay", "--set", "max_gap=1.5"],
}


@pytest.mark.parametrize("format", ["onnx", "pt2"])
def test_other_formats_answer_as_predict_does(tmp_path, vitals, format):
    run = trained(tmp_path, vitals, *CASES["forecast"])
    done = chronode("export", run, "--format", format, "-o", tmp_path / "out", "--verify", vitals)
    found = float(re.search(r"largest difference (\S+) in", done.out)[1])
    assert found <= 1e-5 * max(load(run).scaler.target_std)


SLOW = ("layers", "not scaled", "pooled windows", "scaled time")  # the others take the same path
OPTIONS = [pytest.param(own, id=name, marks=pytest.mark.slow if name in SLOW else []) for name, own in CASES.items()]


@needs_compiler
@pytest.mark.parametrize("options", OPTIONS)
def test_an_export_answers_as_predict_does(tmp_path, vitals, options):
    run = trained(tmp_path, vitals, *options)
    done = chronode("export", run, "-o", tmp_path / "c", "--verify", vitals)
    assert "multiply-adds" in done.out
    found = export(run, tmp_path / "again").verify(load(run), vitals)
    scale = max(load(run).scaler.target_std, default=1.0) if "--forecast" in options else 1.0
    assert found.difference <= 1e-5 * scale
    assert f"largest difference {found.difference:.3g} in {found.count:,} predictions" in done.out


def test_classes_names_and_units_are_in_the_files(tmp_path, vitals):
    run = trained(tmp_path, vitals, *CASES["classes"])
    chronode("export", run)
    header = (run / "export-c" / "chronode_model.h").read_text()
    source = (run / "export-c" / "chronode_model.c").read_text()
    assert '"hr", "temp",' in source
    assert '"ill", "well",' in source
    assert f'TIME_UNIT "{load(run).reading.unit}"' in header
    assert "#define CHRONODE_MODEL_MISSING 1" in header


@needs_compiler
def test_a_packed_model_exports_as_its_run_does(tmp_path, vitals):
    run = trained(tmp_path, vitals, *CASES["classes"])
    chronode("pack", run, "-o", tmp_path / "model.chronode")
    chronode("export", tmp_path / "model.chronode")
    chronode("export", run)
    found, wanted = ((folder / "chronode_model.c").read_text() for folder in (tmp_path / "model-c", run / "export-c"))
    assert found == wanted


@needs_compiler
def test_numbers_of_one_plain_channel(tmp_path):
    """No scaling, no classes, nothing missing, two layers of an odd size."""
    model = package.SequenceModel.build(package.ModelSpec("cfc", 1, 1, hidden_size=5, num_layers=2))
    done = package.export(model, tmp_path)
    series = irregular(done.graph.deployment, 2, 50)
    assert np.abs(done.runner().run(done.graph, series) - predictions(done.graph.deployment, series)).max() < 1e-5


@needs_compiler
def test_an_export_does_not_overwrite_a_folder_unless_asked_to(tmp_path, vitals):
    run, folder = trained(tmp_path, vitals, *CASES["classes"]), tmp_path / "device"
    chronode("export", run, "-o", folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = chronode("export", run, "-o", folder, "--weights", "int8", code=2)
    assert f"--output {folder} is not empty; --force overwrites" in " ".join(done.err.split())
    with pytest.raises(ValueError, match="is not empty; force=True overwrites"):
        export(run, folder, weights="int8")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    chronode("export", run, "-o", folder, "--weights", "int8", "--force")
    assert export(run, folder, weights="int8", force=True).files
    assert (folder / "chronode_model.c").read_bytes() != before["chronode_model.c"]


def test_an_export_into_a_file_is_refused(tmp_path):
    model = package.SequenceModel.build(package.ModelSpec("gru", 2, 2, hidden_size=4))
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ValueError, match="taken is a file; give a folder"):
        package.export(model, tmp_path / "taken", force=True)
    assert (tmp_path / "taken").read_text() == "mine"


REFUSED = {
    "bidirectional": {"bidirectional": True},
    "solver": {"model": "neural-ode", "solver": "dopri5"},
}


@pytest.mark.parametrize("argument", REFUSED)
def test_what_cannot_be_exported_is_refused_with_what_to_train(tmp_path, argument):
    settings = dict(REFUSED[argument])
    model = package.SequenceModel.build(package.ModelSpec(settings.pop("model", "gru"), 2, 2, settings=settings))
    with pytest.raises(SettingError) as error:
        package.export(model, tmp_path / "none")
    assert error.value.argument == argument and "train with" in error.value.cure
    assert not (tmp_path / "none").exists()


def test_a_linear_start_that_needs_whole_series_is_refused_with_the_start_to_train_with(tmp_path):
    spec = package.ModelSpec("gru", 2, 2, hidden_size=4, start={"kind": "values", "channels": 2, "steps": 5})
    with pytest.raises(SettingError) as error:
        package.export(package.SequenceModel.build(spec), tmp_path / "none")
    assert (error.value.argument, error.value.cure) == ("start", "train with start='summaries'")
    assert not (tmp_path / "none").exists()


def test_a_forecast_from_windows_needs_their_length(tmp_path):
    model = package.SequenceModel.build(package.ModelSpec("gru", 2, 2, hidden_size=4, relative=(0, 1)))
    with pytest.raises(ValueError, match="this is a forecast from windows: pass window="):
        package.export(model, tmp_path)
    other = package.SequenceModel.build(package.ModelSpec("gru", 2, 2, hidden_size=4))
    with pytest.raises(ValueError, match="this is not a forecast from windows: leave window out"):
        package.export(other, tmp_path, window=3)


@needs_compiler
def test_a_forecaster_exports_its_model(tmp_path):
    waves = np.sin(0.5 * np.arange(40) + np.arange(12)[:, None]).astype(np.float32)
    fitted = package.SequenceForecaster("gru", horizon=2, hidden_size=4, window=6, epochs=1, random_state=0)
    fitted.fit(waves)
    done = package.export(fitted.model_, tmp_path, scaler=fitted.scaler_, window=fitted.window_)
    x = waves[:, :, None]
    series = Series(x, np.ones(x.shape, bool), np.ones(waves.shape, np.float32))
    found = done.runner().run(done.graph, series)[:, -1]
    np.testing.assert_allclose(found, fitted.predict(waves)[..., 0], atol=1e-5)


WRONG = [
    ({"format": "tflite"}, "format='tflite' is not supported"),
    ({"weights": "int4"}, "weights='int4' is not supported"),
    ({"math": "fast"}, "math='fast' is not supported"),
    ({"classes": ["a", "b", "c"]}, "classes has 3 names, the model has 2"),
    ({"channels": ["a"]}, "channels has 1 names, the model has 2"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_wrong_arguments_are_named(tmp_path, options, text):
    model = package.SequenceModel.build(package.ModelSpec("gru", 2, 2, hidden_size=4))
    with pytest.raises(ValueError, match=text):
        package.export(model, tmp_path, **options)


def test_the_command_names_its_options(tmp_path):
    assert "--format='tflite' is not supported" in chronode("export", tmp_path, "--format", "tflite", code=2).err
