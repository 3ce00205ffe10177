"""Transformations of values before a model sees them: the command line, estimators, live data and exports agree."""

import csv
import json
import re

import numpy as np
import pytest
from commands import chronode
from work_folder import work_folder

from chronode import SequenceClassifier, SequenceForecaster
from chronode.runs import Config, prepare

here = pytest.fixture(work_folder)
QUICK = ("--model", "gru", "--hidden", 4, "--epochs", 2, "--batch-size", 8, "--seed", 0)


def sales(path, *, zeros=False):
    """Daily sales that double and halve: additive in their logarithm."""
    rng = np.random.default_rng(0)
    level = 3 + np.sin(2 * np.pi * np.arange(240) / 7) + 0.1 * rng.normal(size=240)
    units = np.exp(level).round(3)
    units[:: 40 if zeros else 10_000] = 0 if zeros else units[0]
    days = np.datetime64("2024-01-01") + np.arange(240)
    path.write_text("day,units\n" + "".join(f"{day},{value}\n" for day, value in zip(days, units, strict=True)))
    return path


def visits(path):
    """Series of two classes; one has an impossible value, another a gap of 1,000 hours."""
    rng, lines = np.random.default_rng(1), ["who,hour,pulse,state"]
    for who in range(40):
        hours = np.cumsum(rng.exponential(size=8)).round(3)
        pulse = (80 + 5 * (who % 2) + 20 * rng.normal(size=8)).round(2)
        pulse[3] = 1e7 if who == 4 else pulse[3]
        hours[5:] += 1000 if who == 6 else 0
        lines += [f"{who},{h},{p},{'ill' if who % 2 else 'well'}" for h, p in zip(hours, pulse, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def frame(path):
    pandas = pytest.importorskip("pandas")
    return pandas.read_csv(path)


def rows(text):
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("zeros", [False, True])
def test_a_forecast_of_logarithms_is_in_the_units_of_the_file(here, zeros):
    data = sales(here / "sales.csv", zeros=zeros)
    common = (data, "--time", "day", "--forecast", 3, "--log", "units", "--intervals", "80", *QUICK)
    output = chronode("train", *common, "--output", here / "run")
    assert ("the logarithm of 1 + value is used because zeros occur: units." in output.out) == zeros
    scaler = json.loads((here / "run" / "data.json").read_text())["reading"]["scaler"]
    assert scaler["shapes"][0]["offset"] == float(zeros)
    scores = json.loads(chronode("evaluate", here / "run", "--json").out)["metrics"]
    assert 0.5 < scores["rmse"] < 40 and 0.5 <= scores["coverage 80%"] <= 1  # units, not logarithms
    written = rows(chronode("predict", here / "run", data).out)
    middle, low, high = (
        np.array([float(row[name]) for row in written]) for name in ("forecast", "lower_80", "upper_80")
    )
    assert (low >= 0).all() and (low < middle).all() and (middle < high).all()
    if not zeros:
        np.testing.assert_allclose(middle / low, high / middle, rtol=1e-3)  # symmetric as logarithms
    made = SequenceForecaster.load(here / "run")
    np.testing.assert_allclose(made.predict(frame(data)).ravel(), middle, rtol=1e-5)
    np.testing.assert_allclose(made.predict_intervals(frame(data))[80].reshape(-1, 2)[:, 0], low, rtol=1e-5)


def test_the_estimator_forecasts_logarithms_and_saves_how(here):
    data = sales(here / "sales.csv")
    options = {"horizon": 3, "hidden_size": 4, "epochs": 2, "random_state": 0, "log": ["units"], "intervals": [80]}
    made = SequenceForecaster("gru", **options).fit(frame(data), time="day")
    assert made.scaler_.shapes[0].offset == 0
    forecasts = made.predict(frame(data))
    again = SequenceForecaster.load(made.save(here / "saved"))
    np.testing.assert_array_equal(again.predict(frame(data)), forecasts)
    assert again.get_params()["log"] == ["units"]
    found = made.backtest(frame(data), origins=1, refit=False, time="day")
    assert found is not None and (forecasts > 0).all()


def test_clipped_values_and_shortened_gaps_are_the_same_everywhere(here):
    data = visits(here / "visits.csv")
    common = ("--id", "who", "--time", "hour", "--target", "state", "--gaps", "cap", "--start", "summaries")
    output = chronode("train", data, *common, *QUICK, "--output", here / "run")
    assert "note: 1 gap is more than 50 times the median" in output.out and "shortened to" in output.out
    assert "values are clipped to the 0.5 to 99.5% range of the training part (pulse to" in output.out
    assert "--clip-values off keeps them all" in output.out
    predicted = {row["who"]: float(row["p_ill"]) for row in rows(chronode("predict", here / "run", data).out)}
    made = SequenceClassifier.load(here / "run")
    own = made.predict_proba(frame(data).drop(columns="state"))[:, list(made.classes_).index("ill")]
    np.testing.assert_allclose(own, [predicted[str(who)] for who in range(40)], rtol=1e-5)
    events = [row for row in rows(data.read_text()) if row["who"] in ("4", "6")]
    (here / "events.jsonl").write_text(
        "".join(json.dumps({n: r[n] for n in ("who", "hour", "pulse")}) + "\n" for r in events)
    )
    live = [json.loads(line) for line in chronode("stream", here / "run", here / "events.jsonl").out.splitlines()]
    last = {answer["who"]: answer["p_ill"] for answer in live}
    assert last == pytest.approx({who: predicted[who] for who in ("4", "6")}, rel=1e-4)
    pytest.importorskip("onnxruntime")
    output = chronode("export", here / "run", "--format", "onnx", "--output", here / "out", "--verify", data).out
    assert float(re.search(r"largest difference\D*([\d.e-]+)", output)[1]) < 1e-4


def test_other_parts_do_not_decide_about_clipping_and_logarithms(here):
    """An impossible value and a zero, which the training part does not have."""
    rng = np.random.default_rng(0)
    cells = {who: [f"{value:.3f}" for value in rng.uniform(1, 2, 20)] for who in range(30)}

    def prepared(**changed):
        lines = ["who,step,x,y"]
        for who, values in (cells | changed.get("cells", {})).items():
            lines += [f"{who},{step},{cell},{who % 2}" for step, cell in enumerate(values)]
        (here / "a.csv").write_text("\n".join(lines) + "\n")
        data = {"source": str(here / "a.csv"), "id": "who", "time": "step", "target": "y", "log": changed["log"]}
        return prepare(Config.from_dict({"data": data, "model": {"model": "gru"}}))

    usual = prepared(log=[])
    tested = int(usual.parts.test.ids[0])
    assert prepared(log=[], cells={tested: ["1e9", *cells[tested][1:]]}).reading.scaler == usual.reading.scaler
    with pytest.raises(ValueError, match=f"series {tested}, which has no logarithm; .* in the training part"):
        prepared(log=["x"], cells={tested: ["0", *cells[tested][1:]]})


def test_keeping_everything_is_the_default_without_outliers(here):
    data = sales(here / "sales.csv")
    chronode("train", data, "--time", "day", "--forecast", 2, *QUICK, "--output", here / "run")
    scaler = json.loads((here / "run" / "data.json").read_text())["reading"]["scaler"]
    assert "shapes" not in scaler and "gaps" not in scaler


def test_what_cannot_be_done_is_refused_with_the_cure(here):
    data = visits(here / "visits.csv")
    common = ("--id", "who", "--time", "hour", "--target", "state", *QUICK)
    output = chronode("train", data, *common, "--log", "puls", code=2).err
    assert "--log" in output and "'pulse'" in output
    negative = here / "negative.csv"
    negative.write_text(data.read_text().replace("10000000.0", "-5.0"))
    output = chronode("train", negative, *common, "--log", "pulse", code=2).err
    assert "--log pulse: channel 'pulse' has the value -5 in series 4" in output
    assert "--clip-values maybe" in chronode("train", data, *common, "--clip-values", "maybe", code=2).err
    output = chronode("train", "bitstream", "--gaps", "cap", "--clip-values", "on", code=2).err
    assert "bitstream is a task with its own data: omit --clip-values, --gaps" in output
    chronode(
        "train", sales(here / "s.csv"), "--time", "day", "--forecast", 2, "--gaps", "log", *QUICK, "-o", here / "w"
    )
    assert "--gaps keep" in chronode("export", here / "w", "--format", "c", "--output", here / "c", code=2).err


def test_a_part_without_a_class_is_noted(here):
    lines = ["who,step,x,state"]
    for who in range(12):
        state = "rare" if who == 0 else "ill" if who % 2 else "well"
        lines += [f"{who},{step},{who + step},{state}" for step in range(4)]
    (here / "few.csv").write_text("\n".join(lines) + "\n")
    output = chronode("train", here / "few.csv", "--id", "who", "--time", "step", "--target", "state", *QUICK).out
    assert "no validation series has the class 'rare': the choice of the best epoch does not depend on it." in output
    assert "no test series has the class 'rare': the metrics say nothing about it." in output


def people(path, *, people=60):
    """Series whose class and value follow from age and sex alone; one has no known age."""
    rng, lines = np.random.default_rng(2), ["who,hour,x,age,sex,state,risk"]
    for who in range(people):
        age, sex = int(rng.integers(20, 90)), "fm"[int(rng.integers(2))]
        state, risk = "ill" if age > 55 else "well", age / 10 + 3 * (sex == "f")
        for hour in range(5):
            known = "" if who == 7 or (hour and who % 3 == 0) else age
            lines.append(f"{who},{hour},{rng.normal():.3f},{known},{sex},{state},{risk:.2f}")
    path.write_text("\n".join(lines) + "\n")
    return path


STATIC = ("--id", "who", "--time", "hour", "--static", "age,sex", "--start", "linear")


def test_static_columns_classify_and_the_estimator_agrees(here):
    data = people(here / "people.csv")
    output = chronode("train", data, *STATIC, "--target", "state", "--ignore", "risk", *QUICK, "--output", here / "run")
    assert "1 channel (x), 3 static values (age, sex=f, sex=m)" in output.out
    summary = json.loads((here / "run" / "summary.json").read_text())
    assert summary["test"]["accuracy"] >= 0.7 > summary["baselines"]["majority"]["accuracy"]
    table = frame(data).drop(columns=["state", "risk"])
    predicted = [float(row["p_ill"]) for row in rows(chronode("predict", here / "run", data).out)]
    made = SequenceClassifier.load(here / "run")
    np.testing.assert_allclose(made.predict_proba(table)[:, 0], predicted, rtol=1e-5, atol=1e-7)
    own = SequenceClassifier("gru", static=["age", "sex"], ignore=["risk"], start="linear", epochs=2, random_state=0)
    own.fit(frame(data), "state", id="who", time="hour")
    assert own.reading_.static == ("age", "sex=f", "sex=m")
    again = SequenceClassifier.load(own.save(here / "saved"))
    np.testing.assert_array_equal(again.predict_proba(table), own.predict_proba(table))
    with pytest.raises(ValueError, match="static names columns of a long frame"):
        SequenceClassifier("gru", static=["age"]).fit(np.zeros((4, 1, 3)), [0, 1, 0, 1])


def test_static_columns_beside_single_readings(here):
    """They classify as those of a table with a row per time, from text and from Parquet."""
    data = people(here / "people.csv")
    readings = frame(data).drop(columns="risk").melt(id_vars=["who", "hour", "age", "sex", "state"], var_name="what")
    readings.to_csv(here / "readings.csv", index=False)
    readings.to_parquet(here / "readings.parquet")
    common = ("--target", "state", *STATIC, *QUICK)
    chronode("train", data, *common, "--ignore", "risk", "--output", here / "wide")
    single = ("--channel", "what", "--value", "value")
    for kind in ("csv", "parquet"):
        chronode("train", here / f"readings.{kind}", *common, *single, "--output", here / kind)
    expected = [float(row["p_ill"]) for row in rows(chronode("predict", here / "wide", data).out)]
    for run, kind in (("csv", "csv"), ("csv", "parquet"), ("parquet", "parquet")):
        found = [float(row["p_ill"]) for row in rows(chronode("predict", here / run, here / f"readings.{kind}").out)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    readings.drop(columns="age").to_csv(here / "without.csv", index=False)
    assert "age: missing from this table" in chronode("predict", here / "csv", here / "without.csv", code=2).err
    usual = ("--id", "who", "--time", "hour", "--target", "state")
    chronode("train", here / "readings.csv", *usual, *single, *QUICK, "-o", here / "noted")
    notes = json.loads((here / "noted" / "data.json").read_text())["notes"]
    assert any("'age', 'sex'" in note and "ignored" in note for note in notes)


def test_static_columns_of_parquet_files_are_read(here):
    frame(people(here / "people.csv")).to_parquet(here / "people.parquet")
    common = (*STATIC, "--target", "state", "--ignore", "risk", *QUICK)
    chronode("train", here / "people.parquet", *common, "-o", here / "run")
    assert len(rows(chronode("predict", here / "run", here / "people.parquet").out)) == 60


def test_labels_and_ignored_columns_of_series_in_rows_are_not_steps(here):
    """A label that is a number must not become the first step of a prediction."""
    lines = ["label,site,ward,t0,t1,t2"] + [f"{i % 2},{i},{i // 2},{i % 3},{i % 5},{i % 7}" for i in range(30)]
    (here / "rows.csv").write_text("\n".join(lines) + "\n")
    (here / "bare.csv").write_text("\n".join(line.split(",", 3)[-1] for line in lines) + "\n")
    common = ("--row-per-series", "--target", "label", "--ignore", "site", "--group", "ward", *QUICK)
    chronode("train", here / "rows.csv", *common, "-o", here / "run")
    full, bare = (chronode("predict", here / "run", here / name) for name in ("rows.csv", "bare.csv"))
    assert full.out == bare.out and "'site', 'ward'" in full.err and "'t0'" not in full.err and not bare.err
    scores = json.loads(chronode("evaluate", here / "run", here / "rows.csv", "--json").out)
    assert scores["series"] == 30


def test_static_columns_explain_a_value_and_enter_forecasts(here):
    data = people(here / "people.csv")
    chronode("train", data, *STATIC, "--target", "risk", "--ignore", "state", *QUICK, "--output", here / "run")
    assert json.loads((here / "run" / "summary.json").read_text())["test"]["r2"] > 0.9
    common = (data, *STATIC, "--forecast", 1, "--ignore", "state,risk", *QUICK)
    chronode("train", *common, "--output", here / "next")
    written = rows(chronode("predict", here / "next", data).out)
    assert {row["channel"] for row in written} == {"x"} and len(written) == 60


def test_static_columns_are_refused_where_they_cannot_work(here):
    data = people(here / "people.csv", people=20)
    chronode("train", data, *STATIC, "--target", "state", "--ignore", "risk", *QUICK, "--output", here / "run")
    assert "train without --static" in chronode("stream", here / "run", here / "people.csv", code=2).err
    assert "train without --static" in chronode("export", here / "run", "--output", here / "c", code=2).err
    output = chronode("train", data, "--id", "who", "--static", "x", "--target", "state", "--ignore", "sex", code=2).err
    assert "--static x: series 0 has the values" in output and "Leave it out of static" in output
    without = here / "without.csv"
    without.write_text("\n".join(line.replace(",sex", ",gender") for line in data.read_text().splitlines()))
    assert "sex: missing from this table" in chronode("predict", here / "run", without, code=2).err


@pytest.mark.parametrize("task", ["class", "forecast"])
def test_values_of_the_test_part_change_nothing_about_training(here, task):
    """The training part decides which channels are clipped, and what is added before a logarithm."""
    if task == "class":
        data = visits(here / "a.csv")
        data.write_text(data.read_text().replace("10000000.0", "81.0"))
        options = (
            "--id",
            "who",
            "--time",
            "hour",
            "--target",
            "state",
            "--log",
            "pulse",
            *QUICK,
            "--start",
            "summaries",
        )
    else:
        data = sales(here / "a.csv")
        options = ("--time", "day", "--forecast", 3, "--log", "units", *QUICK)
    chronode("train", data, *options, "-o", here / "before")
    lines = data.read_text().splitlines()
    if task == "class":
        tested = {row["who"] for row in rows((here / "before" / "predictions.csv").read_text())}
        at = [i for i, line in enumerate(lines) if line.split(",")[0] in tested][:2]
        place = 2
    else:
        at, place = [len(lines) - 12, len(lines) - 11], 1
    for i, value in zip(at, ("1e7", "1e6"), strict=True):
        cells = lines[i].split(",")
        lines[i] = ",".join([*cells[:place], value, *cells[place + 1 :]])
    data.write_text("\n".join(lines) + "\n")
    chronode("train", data, *options, "-o", here / "after")
    readings = [json.loads((here / run / "data.json").read_text())["reading"] for run in ("before", "after")]
    for reading in readings:
        del reading["reference"]  # of the whole file, for later data; it has no part in training
    assert readings[0] == readings[1]
    weights = [(here / run / "model.safetensors").read_bytes() for run in ("before", "after")]
    assert weights[0] == weights[1]
