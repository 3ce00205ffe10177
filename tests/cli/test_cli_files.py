"""Files as people have them, from training to predictions: what came from the file comes back as it was."""

import csv
import io
import sys

import numpy as np
import pandas
import pytest
from commands import QUICK, chronode


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def rows_of(ids, row):
    rng = np.random.default_rng(0)
    return [row(name, i, t, rng.normal() + i % 2) for i, name in enumerate(ids) for t in range(5)]


def fitted(*arguments):
    """The output of a short training, into the folder `run`."""
    return chronode("train", *arguments, *QUICK, "--epochs", 1, "--output", "run").out


def test_ids_come_back_byte_for_byte(here):
    ids = ["01", "1", "1.0", "1e0", "+1", "000001", "NA", "nan", *(f"{i:06d}" for i in range(2, 20))]
    rows = rows_of(ids, lambda name, i, t, x: f"{name},{t},{x:.3f},{'ab'[i % 2]}")
    (here / "a.csv").write_text("\n".join(["who,t,x,y", *rows]))
    out = fitted("a.csv", "--id", "who", "--time", "t", "--target", "y")
    assert f"{len(rows)} rows → {len(ids)} series, 5 observations each, median gap: 1, 1 channel (x)" in out
    assert [row["who"] for row in table(chronode("predict", "run", "a.csv").out)] == sorted(ids)
    tested = [row["who"] for row in table((here / "run/predictions.csv").read_text())]
    assert set(tested) <= set(ids)


def test_true_values_are_written_as_they_were(here):
    values = [0.0, 123456.789, 0.1, -3.3e-09, 1e10, 2.5, 1 / 3] * 4
    rows = rows_of(range(len(values)), lambda name, i, t, x: f"{name},{t},{x:.3f},{values[i]!r}")
    (here / "a.csv").write_text("\n".join(["who,t,x,y", *rows]))
    fitted("a.csv", "--id", "who", "--time", "t", "--target", "y", "--kind", "value")
    found = table((here / "run/predictions.csv").read_text())
    assert len(found) >= 3
    assert all(float(row["true_y"]) == values[int(row["who"])] for row in found)


def test_true_values_of_forecasts_are_written_as_they_were(here):
    values = np.round(np.sin(np.arange(80)), 2)
    (here / "a.csv").write_text("t,x\n" + "\n".join(f"{t},{x}" for t, x in enumerate(values.tolist())))
    fitted("a.csv", "--time", "t", "--forecast", 1)
    found = table((here / "run/predictions.csv").read_text())
    assert [float(row["true_x+1"]) for row in found] == [values[int(float(row["t"])) + 1] for row in found]


def test_a_german_table_in_an_old_encoding(here):
    def row(name, i, t, x):
        size = "k.A." if (i, t) == (3, 1) else f"{x:.2f}".replace(".", ",")
        return f"{name};{t + 1:02d}.05.2024 10:00;{size};{'Süd' if i % 2 else 'Nord'}"

    text = "\n".join(["# Werk 7", "Gerät;Zeit;Größe;Ort", *rows_of(range(12), row)])
    (here / "a.csv").write_bytes(text.encode("cp1252"))
    flags = ("--id", "Gerät", "--time", "Zeit", "--target", "Ort", "--missing", "k.A.,-999")
    flags += ("--time-format", "%d.%m.%Y %H:%M")
    out = fitted("a.csv", *flags)
    assert "12 series, 5 observations each, median gap: 1 day, 1 channel (Größe), 2% of values missing" in out
    assert "read as cp1252" in out
    assert {row["Ort"] for row in table(chronode("predict", "run", "a.csv").out)} <= {"Süd", "Nord"}
    assert "encoding" in chronode("train", "a.csv", *flags, "--encoding", "ascii", code=2).err


def test_a_target_whose_name_holds_commas(here):
    rows = rows_of(range(12), lambda name, i, t, x: f"{name},{t},{x:.2f},{i % 2}")
    (here / "a.csv").write_text("\n".join(['who,t,"Temp, C","Out, come"', *rows]))
    fitted("a.csv", "--id", "who", "--time", "t", "--target", "Out, come", "--columns", "Temp, C")
    assert "Out, come" in table(chronode("predict", "run", "a.csv").out)[0]
    assert "accuracy" in chronode("evaluate", "run", "a.csv").out


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("day", [f"{day.day}/{day.month}/{day.year}" for day in pandas.date_range("2024-01-01", periods=60)]),
        ("digits", [f"{day:%Y%m%d}" for day in pandas.date_range("2024-01-01", periods=60)]),
        (
            "quarter",
            [f"{period.year}-Q{period.quarter}" for period in pandas.period_range("1970Q1", periods=60, freq="Q")],
        ),
        ("epoch", [str(1_700_000_000 + 60 * i) for i in range(60)]),
    ],
)
def test_times_come_back_in_the_format_of_the_file(here, name, times):
    known = times[:-3]
    (here / "a.csv").write_text(f"{name},x\n" + "\n".join(f"{time},{i % 7}" for i, time in enumerate(known)))
    assert "read as" in fitted("a.csv", "--time", name, "--forecast", 3)
    found = [row[name] for row in table(chronode("predict", "run", "a.csv").out)]
    padded = [f"{int(d):02d}/{int(m):02d}/{y}" for d, m, y in (t.split("/") for t in times)] if name == "day" else times
    assert found == padded[-3:]


def test_pipes_are_trained_on_and_predicted(here, monkeypatch):
    rows = rows_of(range(12), lambda name, i, t, x: f"{name},{t},{x:.2f},{i % 2}")
    content = "\n".join(["who,t,x,y", *rows])
    flags = ("--id", "who", "--time", "t", "--target", "y")

    def piped(*arguments):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        return chronode(*arguments)

    piped("train", "-", *flags, *QUICK, "--epochs", 1, "--output", "run")
    (kept,) = (here / "runs").glob("input-*.csv")
    assert kept.read_text() == content
    assert len(table(piped("predict", "run", "-").out)) == 12
    assert "accuracy" in piped("evaluate", "run", "-").out
    piped("train", "-", *flags, *QUICK, "--epochs", 1, "--output", "again")
    assert len(list((here / "runs").glob("input-*"))) == 1
    assert "finished" in chronode("train", "--resume", "again", "--epochs", 2).out


def test_a_row_per_series_and_an_index_of_pandas(here):
    rng = np.random.default_rng(0)
    rows = ["\t".join(map(str, [i % 2 + 1, *(rng.normal(size=8).round(3) + i % 2)])) for i in range(20)]
    (here / "a.tsv").write_text("\n".join(rows))
    assert "20 rows → 20 series, 8 observations each, 1 channel (value)" in fitted(
        "a.tsv", "--row-per-series", "--target", "0"
    )
    assert len(table(chronode("predict", "run", "a.tsv").out)) == 20
    pandas.DataFrame({"t": range(60), "x": rng.normal(size=60)}).to_csv("b.csv")
    out = chronode("train", "b.csv", "--time", "t", "--forecast", 1, *QUICK, "--epochs", 1, "--output", "other").out
    assert "1 channel (x)" in out
    assert "note: column 'Unnamed: 0' holds row numbers (an unnamed index): dropped." in out
    assert table(chronode("predict", "other", "b.csv").out)[0]["channel"] == "x"


def test_times_that_go_back_are_sorted_with_a_note_on_the_screen(here):
    rows = [f"p{i:02d},{5 - t},{t + i % 2},{'ab'[i % 2]}" for i in range(20) for t in range(5)]
    (here / "a.csv").write_text("\n".join(["who,t,x,y", *rows]))
    done = chronode("train", "a.csv", "--id", "who", "--time", "t", "--target", "y", *QUICK, "--epochs", 1, "-o", "run")
    assert "80 times went back within one id (first at row 2): the rows were sorted by time." in done.out + done.err
    assert "80 times went back" in chronode("predict", "run", "a.csv").err


def test_errors_name_options_and_related_columns_only(here):
    rows = [f"p{i:02d},{t},{'red' if t % 2 else 'blue'},{'ab'[i % 2]}" for i in range(20) for t in range(5)]
    (here / "a.csv").write_text("\n".join(["who,t,color,y", *rows]))
    asked = ("train", "a.csv", "--id", "who", "--time", "t")
    error = chronode(*asked, "--target", "y", "--no-guess", code=2).err
    assert "--categorical codes" in error and "categorical=" not in error
    error = chronode(*asked, "--target", "pulse", code=2).err
    assert "--target pulse is not a column" in error and "Did you mean" not in error
    assert "Did you mean --target color?" in chronode(*asked, "--target", "colr", code=2).err
