"""`chronode data describe`: facts against counting by hand, suspicious things, and a page."""

import json

import numpy as np
import pytest
from commands import chronode, write_vitals


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    home = tmp_path_factory.mktemp("describe")
    rng = np.random.default_rng(0)
    write_vitals(
        home / "vitals.csv",
        sodium=lambda row: "-999" if rng.random() < 0.1 else f"{rng.normal(140, 3):.1f}",
        pulse=lambda row: row["hr"],
        lactate=lambda row: "<0.5" if rng.random() < 0.1 else f"{rng.uniform(0.5, 4):.2f}",
        site=lambda row: "north",
        answer=lambda row: {"ill": "1", "well": "0"}[row["outcome"]],
    )
    flags = ("--target", "outcome", "--missing", "<0.5", "-o", home / "page.html", "--json")
    return home, json.loads(chronode("data", "describe", home / "vitals.csv", *flags).out)


def test_columns_are_those_of_counting(found):
    home, said = found
    lines = [line.split(",") for line in (home / "vitals.csv").read_text().splitlines()]
    names, rows = lines[0], lines[1:]
    columns = {column["name"]: column for column in said["columns"]}
    assert list(columns) == names
    assert said["rows"] == len(rows)
    pulses = [row[names.index("hr")] for row in rows]
    given = [float(text) for text in pulses if text]
    assert columns["hr"]["missing"] == pytest.approx(pulses.count("") / len(pulses))
    assert columns["hr"]["distinct"] == len(set(given))
    assert float(columns["hr"]["low"]) == min(given)
    assert float(columns["hr"]["middle"]) == pytest.approx(np.median(given), rel=1e-5)
    assert {name: columns[name]["role"] for name in ("patient", "charted_at", "outcome", "hr")} == {
        "patient": "id", "charted_at": "time", "outcome": "target", "hr": "channel",
    }  # fmt: skip
    assert columns["patient"]["kind"] == "text"
    assert said["series"]["series"] == 40


def test_suspicious_things_are_named(found):
    notes = "\n".join(found[1]["notes"])
    assert "sodium: -999" in notes
    assert "--missing -999" in notes
    assert "equal columns" in notes
    assert "'answer'" in notes  # the target can be read off it
    assert "site: one value only" in notes


def test_the_page_and_the_table(found):
    home, _ = found
    page = (home / "page.html").read_text()
    assert "<svg" in page
    assert "sodium: -999" in page
    done = chronode("data", "describe", home / "vitals.csv", "--target", "outcome", "--missing", "<0.5")
    assert "charted_at" in done.out
    assert "as options: --id patient" in done.out


def test_texts_among_numbers_are_named_and_what_is_no_table_is_refused(tmp_path):
    rows = [f"{w},{t},{'<0.5' if t == 3 else t / 2},{t}" for w in range(4) for t in range(8)]
    (tmp_path / "lab.csv").write_text("patient,hour,lactate,x\n" + "\n".join(rows) + "\n")
    done = chronode("data", "describe", tmp_path / "lab.csv", "--ignore", "lactate")
    assert "'<0.5'" in done.out
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 4, 1)))
    assert "not a table" in chronode("data", "describe", tmp_path / "a.npz", code=2).err
