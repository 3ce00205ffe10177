"""Every option of `train` that is given an impossible value is named in the error."""

import dataclasses
from typing import get_type_hints

import numpy as np
import pytest
from commands import chronode

from chronode.cli import flags

# Any text is a value of these; a wrong model is answered with the list of models.
FREE = {"missing_values", "sheet", "comment", "model"}


def options():
    """(field, flags) of the options of `train` that take a value."""
    for section in flags.SECTIONS.values():
        hints = get_type_hints(section)
        for field in dataclasses.fields(section):
            if "panel" not in field.metadata or field.name in FREE:
                continue
            own = field.metadata["flags"] or flags._usual_flags(field.name, flags._kind(hints[field.name]))
            if "/" not in own[0]:
                yield pytest.param(field.name, own, id=field.name)


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "sales.csv"
    days = np.datetime64("2024-01-01") + np.arange(90)
    path.write_text("day,sold\n" + "".join(f"{day},{10 + i % 7}\n" for i, day in enumerate(days)))
    return path


@pytest.mark.parametrize("value", ["foo", "-1"])
@pytest.mark.parametrize(("name", "own"), options())
def test_an_impossible_value_is_refused_with_the_name_of_its_option(tmp_path, sales, name, own, value):
    words = ["train", sales, "--time", "day", "--model", "lstm", "--epochs", "1", "-o", tmp_path / "run"]
    words += [] if name in ("forecast", "target") else ["--forecast", "4"]
    error = chronode(*words, own[0], value, code=2).err
    assert any(flag in error for flag in own), error
    assert not (tmp_path / "run").exists()


def test_wrong_times_and_too_few_steps_are_reported_with_their_options(tmp_path, sales):
    chronode(
        "train", sales, "--time", "day", "--forecast", "4", "--model", "lstm", "--epochs", "1", "-o", tmp_path / "run"
    )
    error = chronode("predict", tmp_path / "run", sales, "--at", "tomorrow", code=2).err
    assert error == "chronode: --at tomorrow: times must be written as in the data, such as 2024-01-01.\n"
    error = chronode("backtest", sales, "--time", "day", "--forecast", "40", code=2).err
    assert "--origins 5, --stride 40 and --forecast 40 need 322" in error


def test_a_file_without_header_is_read_with_names(tmp_path, sales):
    bare = tmp_path / "bare.csv"
    bare.write_text("".join(f"{i % 9},{i // 9},{i % 7}\n" for i in range(90)))
    asked = ["--id", "shop", "--time", "day", "--forecast", "2", "--model", "lstm", "--hidden", "4", "--epochs", "1"]
    error = chronode("train", bare, *asked, "-o", tmp_path / "run", code=2).err
    assert "pass --names" in error and "--row-per-series" in error
    done = chronode("train", bare, "--names", "shop,day,sold", *asked, "-o", tmp_path / "run")
    assert "9 series" in done.out and "1 channel (sold)" in done.out
    assert "shop,day,channel,forecast" in chronode("predict", tmp_path / "run", bare).out


def test_notes_name_options(tmp_path, sales):
    words = ["train", sales, "--time", "day", "--forecast", "4", "--model", "lstm", "--epochs", "1"]
    done = chronode(*words, "-o", tmp_path / "run")
    assert "batch_size" not in done.out + done.err
