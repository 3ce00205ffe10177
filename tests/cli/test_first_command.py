"""The first command of a new user: what it guesses, and the one option that it asks for."""

import subprocess
import sys

import pytest
from commands import MAIN, QUICK, chronode, write_vitals
from work_folder import copy_run, work_folder

here = pytest.fixture(work_folder)
FAST = (*QUICK, "--epochs", 1, "--model", "gru")


def test_roles_are_guessed_and_printed_as_options(here):
    rows = write_vitals(here / "vitals.csv").read_text().splitlines()
    (here / "a.csv").write_text(
        "\n".join([f"{rows[0]},sex", *(f"{row},{'fm'[int(row[1:3]) % 2]}" for row in rows[1:])]) + "\n"
    )
    out = chronode("train", "a.csv", "--target", "outcome", *FAST, "-o", "run").out
    assert "guessed: --id patient --time charted_at --static sex (40 series)" in out
    with_options = ("--id", "patient", "--time", "charted_at", "--static", "sex", "--no-guess")
    same = chronode("train", "a.csv", "--target", "outcome", *with_options, *FAST, "-o", "run2").out
    assert "guessed" not in same
    assert (here / "run/predictions.csv").read_text() == (here / "run2/predictions.csv").read_text()
    predicted = chronode("predict", "run", "a.csv").out  # a run reads later files by the same roles
    assert predicted.splitlines()[0].startswith("patient,outcome")


def test_text_that_changes_becomes_channels_and_long_text_is_left_out(here):
    rows = [f"{day},{'sun' if day % 3 else 'rain'},note {day},{day % 7}" for day in range(60)]
    (here / "a.csv").write_text("day,sky,comment,x\n" + "\n".join(rows) + "\n")
    out = chronode("train", "a.csv", "--target", "x", "--kind", "value", *FAST, "-o", "run").out
    assert (
        "guessed: --time day --categorical onehot --ignore comment" in out and "2 channels (sky=rain, sky=sun)" in out
    )


@pytest.mark.parametrize(("text", "steps"), [("7d", 7), ("2w", 14), ("36h", 2), ("3", 3)])
def test_durations_ahead(here, text, steps):
    rows = [f"2024-{1 + day // 28:02d}-{1 + day % 28:02d},{day % 7}" for day in range(28)]
    (here / "a.csv").write_text("date,x\n" + "\n".join(rows) + "\n")
    assert f"horizon: {steps}\n" in chronode("train", "a.csv", "--forecast", text, "--print-config").out


CURES = {
    "a target of a forecast": (("a.csv", "--forecast", "7", "--target", "sales"), "pass --channels sales instead of"),
    "a duration without dates": (("steps.csv", "--forecast", "7d"), "--forecast 7d needs dates"),
    "no duration": (("a.csv", "--forecast", "soon"), "a duration such as 7d"),
    "a column in other letters": (("a.csv", "--target", "sales", "--id", "patient_id"), 'mean --id "Patient ID"?'),
    "no such column": (("a.csv", "--target", "profit"), "--target profit is not a column; the columns are"),
    "several series": (("firms.csv", "--target", "y"), "name the column that tells them apart: --id firm, or"),
    "several series of several columns": (("panel.csv", "--target", "y"), "no column alone tells them apart: add one"),
    "a web address": (("https://example.org/a.csv", "--target", "y"), "download it first"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "cure"), CURES.values(), ids=CURES)
def test_errors_name_the_option_that_helps(here, words, cure):
    days = [f"{who},2024-01-{day:02d},{day}" for who in "ab" for day in range(1, 29)]
    (here / "a.csv").write_text("Patient ID,date,sales\n" + "\n".join(days) + "\n")
    (here / "steps.csv").write_text("x\n" + "\n".join("123456789"))
    panel = [f"{2000 + year},{site},{kind},1.5" for year in range(3) for site in "abc" for kind in "uv" for _ in "12"]
    (here / "panel.csv").write_text("year,site,kind,y\n" + "\n".join(panel) + "\n")
    firms = [f"{row},{row % 5},{'uv'[row % 2]},{2000 + row // 5},{row * 0.5}" for row in range(40)]
    (here / "firms.csv").write_text("row,firm,kind,year,y\n" + "\n".join(firms) + "\n")
    done = chronode("train", *words, code=2)
    assert cure in done.err and len(done.err.splitlines()) == 1
    assert not (here / "runs").exists()


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_swapped_arguments_are_named(here, command):
    copy_run(here / "run")
    write_vitals(here / "vitals.csv")
    assert f"arguments swapped: the run comes first: chronode {command} run vitals.csv" in (
        chronode(command, "vitals.csv", "run", code=2).err
    )


@pytest.mark.parametrize("words", [("missing.csv", "--target", "y"), ("a.csv", "--target", "y"), ("a.csv", "--foo")])
def test_mistakes_are_answered_before_torch_is_imported(here, words):
    (here / "a.csv").write_text("id,t,x\n" + "".join(f"{i // 3},{i % 3},{i}\n" for i in range(30)))
    code = MAIN.replace("main()", "\ntry: main()\nfinally: print('torch' in sys.modules)")
    code = code if "import sys" in code else f"import sys; {code}"
    done = subprocess.run([sys.executable, "-c", code, "train", *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (2, "False"), done
