"""Labels in a second file on the command line: the same training as with one file."""

import csv
import json

import pytest
from commands import QUICK, VITALS, chronode
from safetensors.numpy import load_file
from work_folder import vitals_file, work_folder

here = pytest.fixture(work_folder)
vitals = pytest.fixture(vitals_file)
SHORT = (*QUICK, "--epochs", 1)


@pytest.fixture
def two_files(here, vitals):
    """The same patients, with their outcomes in a second file."""
    rows = list(csv.DictReader(vitals.open()))
    columns = ("patient", "charted_at", "hr", "temp")
    lines = [",".join(columns), *(",".join(row[name] for name in columns) for row in rows)]
    (here / "readings.csv").write_text("\n".join(lines) + "\n")
    outcomes = {row["patient"]: row["outcome"] for row in rows}
    (here / "outcomes.csv").write_text("\n".join(["patient,outcome", *map(",".join, outcomes.items())]) + "\n")
    return here / "readings.csv", here / "outcomes.csv"


def test_training_evaluation_and_check_with_a_second_file(here, vitals, two_files):
    readings, outcomes = two_files
    chronode("train", vitals, *VITALS, *SHORT, "-o", here / "one")
    done = chronode("train", readings, "--labels", outcomes, *SHORT, "-o", here / "two")
    assert "guessed: --id patient --target outcome --time charted_at" in done.out
    weights = [load_file(here / run / "model.safetensors") for run in ("one", "two")]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    scores = [json.loads(chronode("evaluate", here / run, "--json").out)["metrics"] for run in ("one", "two")]
    assert scores[0] == scores[1]
    whole = json.loads(chronode("evaluate", here / "one", vitals, "--json").out)["metrics"]
    assert (
        json.loads(chronode("evaluate", here / "two", readings, "--labels", outcomes, "--json").out)["metrics"] == whole
    )
    assert json.loads(chronode("evaluate", here / "two", vitals, "--json").out)["metrics"] == whole
    assert "pass it as --labels" in chronode("evaluate", here / "two", readings, code=2).err
    changes = [("one", vitals), ("two", readings, "--labels", outcomes)]
    found = [json.loads(chronode("check", here / run, *more, "--json").out)["metric"] for run, *more in changes]
    assert found[0] == found[1] is not None
    chronode("predict", here / "two", readings)
    chronode("train", readings, "--labels", outcomes, "--from", here / "two", "--epochs", 1, "-o", here / "three")
    chronode("train", readings, "--labels", outcomes, "--test", vitals, *SHORT, "-o", here / "four")
    outcomes.write_text(outcomes.read_text().replace("p01,well", "p01,ill"))
    assert "outcomes.csv has changed since" in chronode("train", "--resume", here / "two", "--epochs", 2, code=2).err


def test_mistakes_name_the_option(here, two_files):
    readings, outcomes = two_files
    with outcomes.open("a") as file:
        file.write("p01,ill\n")
    refused = chronode("train", readings, "--labels", outcomes, *SHORT, code=2).err
    assert "--labels" in refused and "id p01 has two labels in 'outcome', well (row 2) and ill (row 41)" in refused
    assert "no such file. Did you mean" in chronode("train", readings, "--labels", "outcome.csv", code=2).err
    assert "--id who is not a column" in chronode("train", readings, "--labels", outcomes, "--id", "who", code=2).err


def test_weights_count_in_training_and_evaluation(here, vitals):
    rows = list(csv.DictReader(vitals.open()))
    for row in rows:  # half of the patients have the opposite outcome, and do not count
        odd = int(row["patient"][1:]) % 2
        row["share"], row["outcome"] = (
            (0, "ill" if row["outcome"] == "well" else "well") if odd else (2, row["outcome"])
        )
    with (here / "weighted.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    common = (here / "weighted.csv", *VITALS, "--weight", "share", *SHORT, "--start", "linear")
    chronode("train", *common, "-o", here / "run", plots=True)
    assert json.loads(chronode("evaluate", here / "run", "--json").out)["metrics"]["accuracy"] == 1.0
    whole = json.loads(chronode("evaluate", here / "run", here / "weighted.csv", "--json").out)
    assert whole["metrics"]["accuracy"] == 1.0 and whole["baselines"]["majority"]["accuracy"] == pytest.approx(0.65)
    assert json.loads(chronode("evaluate", here / "run", vitals, "--json").out)["metrics"]["accuracy"] == 1.0
    chronode("predict", here / "run", vitals)
    refused = chronode("train", here / "weighted.csv", "--forecast", 2, "--weight", "share", code=2).err
    assert "--weight share belongs to a target" in refused
    refused = chronode("train", vitals, *VITALS, "--weight", "hr", code=2).err
    assert "--weight hr: id p00 has more than one weight" in refused
