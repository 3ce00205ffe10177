"""`evaluate --until` and `--first`: as if the file had ended then; and predictions of files and frames in Python."""

import csv
import json

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals

import chronode as package


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("early")
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 3, "--output", home / "run")
    return home


def shortened(path, target, kept):
    """A copy of the file with the rows for which `kept(row, rows of the patient so far, first time)` holds."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    seen, first, chosen = {}, {}, []
    for row in rows:
        patient, moment = row["patient"], np.datetime64(row["charted_at"])
        first.setdefault(patient, moment)
        seen[patient] = seen.get(patient, 0) + 1
        if kept(seen[patient], (moment - first[patient]) / np.timedelta64(1, "m")):
            chosen.append(row)
    with open(target, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(chosen)
    return target


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (("--until", "90 min,3h"), [lambda count, minutes: minutes <= 90, lambda count, minutes: minutes <= 180]),
        (("--first", "1,3"), [lambda count, minutes: count <= 1, lambda count, minutes: count <= 3]),
    ],
)
def test_metrics_are_those_of_a_file_that_ends_then(home, tmp_path, flags, kept):
    new = write_vitals(home / "vitals.csv")
    found = json.loads(chronode("evaluate", home / "run", new, *flags, "--json").out)
    for row, rule in enumerate([*kept, lambda count, minutes: True]):
        part = shortened(new, tmp_path / "part.csv", rule)
        whole = json.loads(chronode("evaluate", home / "run", part, "--json", "--anyway").out)["metrics"]
        assert found["scores"][row] == pytest.approx(whole, abs=1e-6)
    assert found["labels"][-1] == "all"
    assert found["ended"][-1] == 1.0
    assert all(
        low[name] <= scores[name] <= high[name]
        for low, high, scores in zip(found["low"], found["high"], found["scores"], strict=True)
        for name in low
    )


def test_the_page_and_refusals(home, tmp_path):
    chronode("evaluate", home / "run", "--until", "1h,2h", "-o", tmp_path / "early.html")
    assert "hours since the first observation" in (tmp_path / "early.html").read_text()
    assert "--until" in chronode("evaluate", home / "run", "--until", "soon", code=2).err
    assert "--first" in chronode("evaluate", home / "run", "--first", "x", code=2).err
    assert "--first" in chronode("evaluate", home / "run", "--first", "1", "--until", "1h", code=2).err
    assert "--until" in chronode("evaluate", home / "run", "-o", "page.html", code=2).err


def test_a_loaded_model_predicts_files_and_frames_as_the_command_does(home, tmp_path):
    pandas = pytest.importorskip("pandas")
    new = write_vitals(tmp_path / "new.csv", patients=7, seed=3, outcome=None)
    rows = json.loads(chronode("predict", home / "run", new, "--json").out)
    model = package.load(home / "run")
    for source in (new, str(new), pandas.read_csv(new)):
        found = model.predict(source)
        assert [float(chances[0]) for chances in found.values] == pytest.approx([row["p_ill"] for row in rows])
        assert found.labels == [row["outcome"] for row in rows]
