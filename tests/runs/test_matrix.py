"""A model from any source, in any use: the same numbers, or the one reason of `trained.can`.

{classifier, regressor, forecaster, run, pack} x {predict, stream, export c, export onnx, export pt2, pack}: every cell
either gives what the network computes from the scaled series, or is refused with the setting, the reason and the cure
that `can` names.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import QUICK, chronode

from chronode import SequenceClassifier, SequenceForecaster, SequenceRegressor
from chronode.export import Series, export
from chronode.runs import load, pack
from chronode.settings import SettingError
from chronode.stream import Stream

SOURCES = ("classifier", "regressor", "forecaster", "run", "pack")
CONSUMERS = ("predict", "stream", "export c", "export onnx", "export pt2", "pack")
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler")
COMMON = {"hidden_size": 3, "epochs": 1, "random_state": 0}


def table(series=20, seed=0):
    """Irregular series as columns, with a class and a number for each series."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(series):
        times = np.cumsum(rng.exponential(size=rng.integers(5, 8))).round(3)
        rows += [(f"s{i}", t, rng.normal() + i % 2, rng.normal(), "ab"[i % 2], 0.5 * i) for t in times]
    return {
        name: list(column)
        for name, column in zip(("id", "t", "x", "y", "label", "size"), zip(*rows, strict=True), strict=True)
    }


def wave(steps=40, seed=0):
    """One irregular series to forecast."""
    rng = np.random.default_rng(seed)
    return {
        "t": np.cumsum(rng.exponential(size=steps)),
        "x": rng.normal(size=steps).cumsum(),
        "y": rng.normal(size=steps),
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The model of each source, and of others that cannot do everything."""
    folder = tmp_path_factory.mktemp("matrix")
    rows = table()
    lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    options = ("--id", "id", "--time", "t", "--target", "label", "--ignore", "size", "--model", "gru")
    chronode("train", folder / "rows.csv", *options, *QUICK, "--epochs", 1, "-o", folder / "run")
    classifier = SequenceClassifier("gru", ignore=["size"], **COMMON)
    regressor = SequenceRegressor("gru", ignore=["label"], **COMMON)
    bidirectional = SequenceClassifier("gru", ignore=["size"], settings={"bidirectional": True}, **COMMON)
    series = {"id": "id", "time": "t"}
    return {
        "classifier": classifier.fit(rows, "label", **series).trained_,
        "regressor": regressor.fit(rows, "size", **series).trained_,
        "forecaster": SequenceForecaster("gru", horizon=2, window=4, **COMMON).fit(wave(), time="t").trained_,
        "run": load(folder / "run"),
        "pack": load(pack(folder / "run", folder / "run.chronode")),
        "bidirectional": bidirectional.fit(rows, "label", **series).trained_,
    }


def later(trained):
    """Later data of the kind that a model was trained on."""
    return (
        wave(9, seed=1) if trained.reading.horizon else {k: v for k, v in table(3, seed=1).items() if k in "id t x y"}
    )


def expected(trained):
    """The predictions `(series, outputs)`, by the network on series that are scaled by hand."""
    scaled = trained.reading.read(later(trained), labeled=False)
    rows = []
    for row in range(len(scaled)):
        batch = scaled.batch([row])
        with torch.no_grad():
            output = trained.model(batch.x, **batch.inputs)[0].double().numpy()
        if trained.objective.classes is not None:
            rows.append(np.exp(output) / np.exp(output).sum())
        else:
            rows.append(output * trained.scaler.target_std + trained.scaler.target_mean)
    return np.array(rows)


def raw(trained):
    """The later series in their own units, as (values, gaps) of each."""
    reading = replace(trained.reading, scaler=None, window=10**6)
    return [(series.values, series.dt) for series in reading.read(later(trained), labeled=False)]


def predicted(trained, folder):
    return np.array(
        [np.atleast_1d(values) for values in trained.predict(trained.series(later(trained), labeled=False)).values]
    )


def streamed(trained, folder):
    stream, rows = Stream(trained), later(trained)
    ids = rows.get("id", ["0"] * len(rows["t"]))
    names = {name: values for name, values in rows.items() if name in "xy"}
    values = stream.observe_many(ids, list(rows["t"]), names).values
    last = {name: number for number, name in enumerate(ids)}
    return np.array([values[number] for number in last.values()])


def exported(format):
    def run(trained, folder):
        done = export(trained, folder / "export", format=format)
        runner, rows = done.runner(), []
        for values, dt in raw(trained):
            x, gaps = (np.asarray(part, np.float32)[None] for part in (values, dt))
            rows.append(runner.run(done.graph, Series(x, np.ones(x.shape, bool), gaps))[0, -1])
        return np.array(rows)

    return run


def packed(trained, folder):
    return predicted(load(pack(trained, folder / "model.chronode")), folder)


USES = {"predict": predicted, "stream": streamed, "pack": packed}
USES |= {f"export {format}": exported(format) for format in ("c", "onnx", "pt2")}
MARKS = {"export c": needs_compiler, "export pt2": pytest.mark.slow}
CELLS = [pytest.param(use, marks=MARKS.get(use, ())) for use in CONSUMERS]


@pytest.mark.parametrize("use", CELLS)
@pytest.mark.parametrize("source", [*SOURCES, "bidirectional"])
def test_equal_numbers_or_the_one_reason(trained, tmp_path, source, use):
    model = trained[source]
    refusal = model.can(use)
    if refusal is None:
        wanted = expected(model)
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(USES[use](model, tmp_path), wanted, atol=2e-5 * scale, rtol=0)
        return
    with pytest.raises(SettingError) as raised:
        USES[use](model, tmp_path)
    assert (raised.value.argument, raised.value.cure) == (refusal.argument, refusal.cure)
    assert refusal.reason in str(raised.value)


def test_the_matrix_has_refusals_only_where_they_belong(trained):
    refused = {source: [use for use in CONSUMERS if trained[source].can(use)] for source in trained}
    assert refused == {source: [] for source in SOURCES} | {"bidirectional": ["stream", *CONSUMERS[2:5]]}
