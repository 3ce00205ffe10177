"""Commands on a folder of files give the numbers of the one file that holds the same rows."""

import csv

import pytest
from commands import QUICK, VITALS, chronode, write_vitals


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("folder")
    write_vitals(home / "vitals.csv")
    rows = list(csv.reader((home / "vitals.csv").open()))
    (home / "wards").mkdir()
    for number, start in enumerate(range(1, len(rows), 150)):
        with (home / "wards" / f"part-{number}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([rows[0], *rows[start : start + 150]])
    return home


def test_a_folder_trains_predicts_and_resumes_like_one_file(home):
    flags = (*VITALS, *QUICK, "--epochs", 2)
    chronode("train", home / "vitals.csv", *flags, "--output", home / "one")
    chronode("train", home / "wards", *flags, "--output", home / "many")
    one, many = ((home / name / "model.safetensors").read_bytes() for name in ("one", "many"))
    assert one == many
    wanted = chronode("predict", home / "one", home / "vitals.csv").out
    assert chronode("predict", home / "many", f"{home}/wards/*.csv").out == wanted
    assert chronode("evaluate", home / "many", "--json").out.count("accuracy")
    chronode("train", "--resume", home / "many", "--epochs", 3)
    with (home / "wards" / "part-0.csv").open("a") as file:
        file.write("\n")
    done = chronode("train", "--resume", home / "many", "--epochs", 4, code=2)
    assert "wards" in done.err and "changed" in done.err


def test_a_pattern_without_files_is_refused(home):
    done = chronode("train", f"{home}/wards/*.parquet", *VITALS, code=2)
    assert "*.parquet" in done.err and "no such file" in done.err
