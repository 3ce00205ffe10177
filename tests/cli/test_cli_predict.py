"""`chronode predict` and `chronode evaluate`: the same meaning for a new file, or a refusal that says what differs."""

import csv
import gzip
import io
import json
import shutil

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals

import chronode.data as data_module
from chronode.runs import load


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run on classes per patient, in `home / "run"`."""
    home = tmp_path_factory.mktemp("predict")
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 6, "--output", home / "run")
    return home


@pytest.fixture(scope="module")
def wave(tmp_path_factory):
    """A run that forecasts two steps of one of two channels."""
    home = tmp_path_factory.mktemp("wave")
    rows = [f"{w},{t},{np.sin(t + w):.4f},{w}" for w in range(6) for t in range(12)]
    (home / "wave.csv").write_text("w,t,x,y\n" + "\n".join(rows) + "\n")
    flags = ("--id", "w", "--time", "t", "--forecast", 2, "--channels", "x", "--model", "gru")
    chronode("train", home / "wave.csv", *flags, *QUICK, "--epochs", 2, "--output", home / "run")
    return home


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_row_per_patient_with_probabilities_that_are_right(home, tmp_path):
    new = write_vitals(tmp_path / "new.csv", patients=9, seed=5, outcome=None)
    output = chronode("predict", home / "run", new, "-o", tmp_path / "out.csv")
    assert "9 rows with patient, outcome, p_ill, p_well" in output.err
    rows = table((tmp_path / "out.csv").read_text())
    assert [row["patient"] for row in rows] == [f"p{i:02d}" for i in range(9)]
    # An oracle by hand: read, scale and run the model on one patient alone.
    trained = load(home / "run")
    options = {"id": "patient", "time": "charted_at", "unit": "hours"}
    one = trained.reading.scaler.transform(data_module.read(new, **options))[[3]].batch()
    chances = trained.model(one.x, **one.times).softmax(-1)[0].tolist()
    assert [float(rows[3]["p_ill"]), float(rows[3]["p_well"])] == pytest.approx(chances, abs=1e-5)
    assert all((row["outcome"] == "ill") == (float(row["p_ill"]) > 0.5) for row in rows)


def test_predictions_of_the_test_part_are_those_in_the_folder(home):
    said = table(chronode("predict", home / "run").out)
    kept = table((home / "run/predictions.csv").read_text())
    assert said == [{name: cell for name, cell in row.items() if name != "true_outcome"} for row in kept]


def test_parquet_json_and_the_terminal_hold_the_same(home, tmp_path):
    import pyarrow.parquet

    new = write_vitals(tmp_path / "new.csv", patients=6, seed=5)
    rows = json.loads(chronode("predict", home / "run", new, "--json", "-o", tmp_path / "out.parquet").out)
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows
    printed = table(chronode("predict", home / "run", new).out)
    assert [float(row["p_ill"]) for row in printed] == [row["p_ill"] for row in rows]


def test_evaluate_measures_a_labeled_file_as_counting_does(home, tmp_path):
    new = write_vitals(tmp_path / "new.csv", patients=12, seed=7)
    scores = json.loads(chronode("evaluate", home / "run", new, "--json").out)["metrics"]
    said = table(chronode("predict", home / "run", new).out)
    right = [(row["outcome"] == "ill") == (int(row["patient"][1:]) % 3 == 0) for row in said]
    assert scores["accuracy"] == pytest.approx(sum(right) / 12)
    assert "accuracy" in chronode("evaluate", home / "run", new).out


def test_evaluate_shows_baselines_of_the_training_part(home, tmp_path):
    new = write_vitals(tmp_path / "new.csv", patients=20, seed=5)
    output = json.loads(chronode("evaluate", home / "run", new, "--json").out)["baselines"]
    assert {"majority", "linear (summaries)", "nearest by DTW"} <= output.keys()
    # Most patients in training are well.
    outcomes = {row["patient"]: row["outcome"] for row in csv.DictReader(new.open())}
    assert output["majority"]["accuracy"] == pytest.approx(np.mean([name == "well" for name in outcomes.values()]))
    assert "nearest by DTW" in chronode("evaluate", home / "run", new).out
    own = json.loads(chronode("evaluate", home / "run", "--json").out)["baselines"]
    assert own == json.loads((home / "run/summary.json").read_text())["baselines"]


def test_evaluate_without_a_file_gives_the_test_scores_of_the_run(home):
    scores = json.loads(chronode("evaluate", home / "run", "--json").out)["metrics"]
    kept = json.loads((home / "run/summary.json").read_text())["test"]
    assert scores == pytest.approx(kept)


def test_columns_besides_are_ignored_with_a_note(home, tmp_path):
    plain = write_vitals(tmp_path / "plain.csv", patients=6, seed=5)
    more = write_vitals(tmp_path / "more.csv", patients=6, seed=5, ward=lambda row: "north")
    output = chronode("predict", home / "run", more)
    assert "does not use them: 'ward'" in output.err
    assert output.out == chronode("predict", home / "run", plain).out


def test_other_columns_are_refused_with_a_diff(home, tmp_path):
    other = write_vitals(tmp_path / "other.csv", patients=6, hr=None, hr_bpm=lambda row: 70)
    error = chronode("predict", home / "run", other, code=2).err
    assert "other.csv does not match the training data of the model" in error
    assert "- hr: missing from this table. Did you mean 'hr_bpm'?" in error
    assert "+ hr_bpm: not used by the model" in error
    assert "- outcome" not in error


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"charted_at": lambda row: 5.0}, "time: hours here, dates in hours in training"),
        ({"temp": lambda row: 98.6}, "temp: about 98.6 here, 3"),
        ({"charted_at": lambda row: f"2024-01-01T00:00:{np.random.default_rng().integers(60):02d}"}, "median gap"),
    ],
)
def test_other_units_are_refused_with_a_diff(home, tmp_path, columns, expected):
    other = write_vitals(tmp_path / "other.csv", patients=6, **columns)
    assert expected in chronode("predict", home / "run", other, code=2).err


def test_what_looks_like_another_unit_can_be_allowed(home, tmp_path):
    hot = write_vitals(tmp_path / "hot.csv", patients=6, temp=lambda row: 98.6)
    assert "--anyway" in chronode("predict", home / "run", hot, code=2).err
    assert len(table(chronode("predict", home / "run", hot, "--anyway").out)) == 6


def test_classes_that_training_did_not_see_are_refused_when_measured(home, tmp_path):
    other = write_vitals(tmp_path / "other.csv", patients=6, outcome=lambda row: "dead")
    assert "classes that did not occur in training: 'dead'" in chronode("evaluate", home / "run", other, code=2).err
    chronode("predict", home / "run", other)


def test_missing_values_need_a_model_that_was_trained_for_them(tmp_path):
    def full(row):
        return 100 if row["outcome"] == "ill" else 60

    whole = write_vitals(tmp_path / "whole.csv", hr=full, temp=None)
    holes = write_vitals(tmp_path / "holes.csv", patients=6, temp=None)
    for name, flags in (("strict", ()), ("ready", ("--allow-missing",))):
        chronode("train", whole, *VITALS, *QUICK, *flags, "--epochs", 1, "--output", tmp_path / name)
    assert "train with --allow-missing" in chronode("predict", tmp_path / "strict", holes, code=2).err
    assert len(table(chronode("predict", tmp_path / "ready", holes).out)) == 6


def test_forecasts_have_a_row_per_series_future_time_and_channel(wave):
    rows = table(chronode("predict", wave / "run", wave / "wave.csv").out)
    assert list(rows[0]) == ["w", "t", "channel", "forecast"]
    assert [(int(row["w"]), float(row["t"]), row["channel"]) for row in rows] == [
        (w, t, "x") for w in range(6) for t in (12.0, 13.0)
    ]
    wide = table(chronode("predict", wave / "run", wave / "wave.csv", "--wide").out)
    assert list(wide[0]) == ["w", "t", "x"]
    assert [row["x"] for row in wide] == [row["forecast"] for row in rows]


def test_intervals_are_columns_around_the_forecast(wave):
    rows = table(chronode("predict", wave / "run", wave / "wave.csv", "--intervals", "80,95").out)
    assert list(rows[0]) == ["w", "t", "channel", "forecast", "lower_80", "upper_80", "lower_95", "upper_95"]
    for row in rows:
        low, inner_low, middle, inner_high, high = (
            float(row[name]) for name in ("lower_95", "lower_80", "forecast", "upper_80", "upper_95")
        )
        assert low <= inner_low < middle < inner_high <= high
        assert high - middle == pytest.approx(middle - low, abs=1e-4)
    wide = table(chronode("predict", wave / "run", wave / "wave.csv", "--wide", "--intervals", "80").out)
    assert list(wide[0]) == ["w", "t", "x", "x_lower_80", "x_upper_80"]
    assert [row["x_upper_80"] for row in wide] == [row["upper_80"] for row in rows]


def test_forecasts_at_given_times_lie_between_the_steps(wave):
    steps = table(chronode("predict", wave / "run", wave / "wave.csv", "--intervals", "80").out)
    asked = ("--intervals", "80", "--at", "11.5,12,12.25")
    rows = table(chronode("predict", wave / "run", wave / "wave.csv", *asked).out)
    assert [float(row["t"]) for row in rows[:3]] == [11.5, 12.0, 12.25]
    first, second = (float(row["forecast"]) for row in steps[:2])
    last = round(float(np.sin(11.0)), 4)
    expected = [(last + first) / 2, first, 0.75 * first + 0.25 * second]
    assert [float(row["forecast"]) for row in rows[:3]] == pytest.approx(expected, abs=1e-5)
    assert float(rows[1]["upper_80"]) == pytest.approx(float(steps[0]["upper_80"]), abs=1e-5)


def test_times_that_cannot_be_forecast_are_refused(home, wave):
    for times, message in (
        ("11", "its last step is at 11"),
        ("14", "2 steps ahead reach to 13"),
        ("soon", "such as 0"),
    ):
        assert message in chronode("predict", wave / "run", wave / "wave.csv", "--at", times, code=2).err
    assert "--at needs a file" in chronode("predict", home / "run", home / "vitals.csv", "--at", "3", code=2).err


def test_evaluate_reports_how_good_the_intervals_are(wave):
    output = json.loads(chronode("evaluate", wave / "run", "--json").out)["metrics"]
    assert {"coverage 80%", "coverage 95%", "pinball", "crps"} <= set(output) and 0 <= output["coverage 80%"] <= 1
    other = json.loads(chronode("evaluate", wave / "run", "--json", "--intervals", "50").out)["metrics"]
    assert "coverage 50%" in other and other["crps"] == output["crps"]


def test_intervals_that_cannot_be_are_refused(home, wave):
    for levels, message in (("80,oh", "separated by commas"), ("80,100", "from 1 to 99")):
        assert message in chronode("predict", wave / "run", wave / "wave.csv", "--intervals", levels, code=2).err
    output = chronode("predict", home / "run", home / "vitals.csv", "--intervals", "80", code=2).err
    assert "--intervals needs a file to forecast from" in output


def test_a_forecast_is_measured_against_the_file_itself(wave, tmp_path):
    lines = (wave / "wave.csv").read_text().splitlines()
    gaps = []
    for cut in range(5, 11):  # a window is at least as long as half of the steps before the last ones
        (tmp_path / "cut.csv").write_text("\n".join([lines[0], *(x for x in lines[1:] if int(x.split(",")[1]) < cut)]))
        rows = table(chronode("predict", wave / "run", tmp_path / "cut.csv").out)
        gaps += [float(row["forecast"]) - round(float(np.sin(float(row["t"]) + int(row["w"]))), 4) for row in rows]
    scores = json.loads(chronode("evaluate", wave / "run", wave / "wave.csv", "--json").out)["metrics"]
    assert scores["mae"] == pytest.approx(np.abs(gaps).mean(), rel=1e-3)


def test_labels_per_step_come_as_rows_per_step_with_the_dates_of_the_file(tmp_path):
    beats = write_vitals(tmp_path / "beats.csv", outcome=lambda row: "high" if row["hr"] > "70" else "low")
    chronode("train", beats, *VITALS, *QUICK, "--epochs", 1, "--output", tmp_path / "run")
    rows = table(chronode("predict", tmp_path / "run", beats).out)
    with beats.open() as file:
        given = list(csv.DictReader(file))
    assert [(row["patient"], row["charted_at"]) for row in rows] == [
        (row["patient"], f"{row['charted_at']}:00") for row in given
    ]
    assert set(rows[0]) == {"patient", "charted_at", "outcome", "p_high", "p_low"}


def test_a_run_without_a_model_and_a_wrong_output_are_refused(home, tmp_path):
    (tmp_path / "half").mkdir()
    for name in ("run.json", "config.json", "environment.json"):
        (tmp_path / "half" / name).write_bytes((home / "run" / name).read_bytes())
    assert "has no model yet (new)" in chronode("predict", tmp_path / "half", home / "vitals.csv", code=2).err
    error = chronode("predict", home / "run", home / "vitals.csv", "-o", "out.xlsx", code=2).err
    assert ".csv or .parquet" in error
    assert "no such file" in chronode("predict", home / "run", tmp_path / "none.csv", code=2).err


def test_a_run_on_a_task_answers_about_its_test_part(tmp_path):
    few = ("--option", "train=32", "--option", "valid=8", "--option", "test=8")
    chronode("train", "bitstream", *few, *QUICK, "--epochs", 1, "--output", tmp_path / "run")
    assert len(table(chronode("predict", tmp_path / "run").out)) == 8
    assert len(table(chronode("predict", tmp_path / "run", "bitstream").out)) == 8
    (tmp_path / "x.csv").write_text("x\n1\n")
    assert "was trained on the task" in chronode("predict", tmp_path / "run", tmp_path / "x.csv", code=2).err


def _parquet(home):
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv(write_vitals(home / "a.csv")), home / "a.parquet")
    return "a.parquet", VITALS


def _packed(home):
    (home / "a.csv.gz").write_bytes(gzip.compress(write_vitals(home / "a.csv").read_bytes()))
    return "a.csv.gz", VITALS


def _readings(home):
    rows = [f"{w},{t},{what},{w % 2 + t / 9},{w % 2}" for w in range(12) for t in range(5) for what in ("hr", "bp")]
    (home / "a.csv").write_text("w,t,what,x,y\n" + "\n".join(rows))
    return "a.csv", ("--id", "w", "--time", "t", "--channel", "what", "--value", "x", "--target", "y")


def _arrays(home):
    values = np.random.default_rng(0).normal(size=(20, 5, 2)).astype(np.float32)
    np.savez(home / "a.npz", values=values, label=np.arange(20) % 2)
    return "a.npz", ("--order", "NTD", "--target", "label")


def _saved(home):
    series = [np.full((4, 1), i % 2, dtype=np.float32) for i in range(20)]
    data_module.from_list(series, target=["a", "b"] * 10).save(home / "a.npz")
    return "a.npz", ()


def _texts(home):
    return write_vitals(home / "a.csv", hr=lambda row: row["outcome"][::-1]).name, (*VITALS, "--categorical", "onehot")


def _plain_steps(home):
    return write_vitals(home / "a.csv").name, ("--id", "patient", "--target", "outcome", "--ignore", "charted_at")


@pytest.mark.parametrize("make", [_parquet, _packed, _readings, _arrays, _saved, _texts, _plain_steps])
def test_every_kind_of_file_is_trained_on_measured_and_predicted(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, flags = make(tmp_path)
    chronode("train", name, *flags, *QUICK, "--epochs", 1, "--output", "run")
    output = json.loads(chronode("evaluate", "run", name, "--json").out)
    rows = table(chronode("predict", "run", name).out)
    assert output["series"] == len(rows) >= 12
    whole = {next(iter(row.values())): row for row in rows}
    for row in table(chronode("predict", "run").out):
        assert_same_row(row, whole[next(iter(row.values()))])


def test_an_array_file_is_forecast(tmp_path):
    np.save(tmp_path / "a.npy", np.sin(np.arange(30) + np.arange(8)[:, None]).astype(np.float32))
    flags = ("--order", "NT", "--forecast", 2, *QUICK, "--epochs", 1, "--output", tmp_path / "run")
    chronode("train", tmp_path / "a.npy", *flags)
    assert len(table(chronode("predict", tmp_path / "run", tmp_path / "a.npy").out)) == 16


def assert_same_row(row, other):
    """The same to the letter, but for the last digit of a number: torch's products round by the size of the batch."""
    assert row.keys() == other.keys()
    for name, text in row.items():
        if name.startswith("p_"):
            assert float(text) == pytest.approx(float(other[name]), abs=1e-6)
        else:
            assert text == other[name]


def test_nothing_is_overwritten_without_force_and_no_folder_is_made(home):
    words = ("predict", home / "run", home / "vitals.csv")
    kept = home / "kept.csv"
    kept.write_text("precious")
    assert f"--output {kept} exists already; --force overwrites it." in chronode(*words, "-o", kept, code=2).err
    assert kept.read_text() == "precious"
    chronode(*words, "-o", kept, "--force")
    assert kept.read_text() != "precious"
    missing = home / "new" / "out.csv"
    assert f"there is no folder {missing.parent}" in chronode(*words, "-o", missing, code=2).err
    assert not missing.parent.exists()


def test_the_example_overwrites_nothing_without_force(tmp_path):
    target = tmp_path / "mine.csv"
    target.write_text("precious")
    assert "exists already" in chronode("data", "example", target, "--patients", 2, code=2).err
    assert target.read_text() == "precious"
    chronode("data", "example", target, "--patients", 2, "--force")
    assert target.read_text().startswith("patient,")


def test_a_failed_run_is_not_used_without_a_word(home, tmp_path):
    folder = tmp_path / "failed"
    shutil.copytree(home / "run", folder)
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "status": "failed", "fault": "the loss has exploded."}))
    for words in (("evaluate", folder), ("predict", folder, home / "vitals.csv")):
        refused = chronode(*words, code=2).err
        assert "failed failed (the loss has exploded)" in refused and "--anyway uses the best weights" in refused
        chronode(*words, "--anyway")


def test_texts_that_spreadsheets_would_calculate_can_be_escaped(home, tmp_path):
    changes = {"p00": "=1+1", "p01": "+x", "p02": "-y", "p03": "@z", "p04": "a=b"}
    text = (home / "vitals.csv").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    (tmp_path / "new.csv").write_text(text)
    plain = chronode("predict", home / "run", tmp_path / "new.csv").out
    chronode("predict", home / "run", tmp_path / "new.csv", "--escape-formulas", "-o", tmp_path / "out.csv")
    escaped = chronode("predict", home / "run", tmp_path / "new.csv", "--escape-formulas").out
    assert (tmp_path / "out.csv").read_text() == escaped
    ids = [row["patient"] for row in table(plain)]
    assert set(changes.values()) <= set(ids)
    wanted = [f"'{name}" if name[0] in "=+-@" else name for name in ids]
    assert [row["patient"] for row in table(escaped)] == wanted
    assert [row["p_ill"] for row in table(escaped)] == [row["p_ill"] for row in table(plain)]
    as_json = json.loads(chronode("predict", home / "run", tmp_path / "new.csv", "--escape-formulas", "--json").out)
    assert [row["patient"] for row in as_json] == ids
