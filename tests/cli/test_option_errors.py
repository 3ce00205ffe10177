"""Every option of `train` that is given an impossible value is named in the error."""

import dataclasses

import numpy as np
import pytest
from commands import chronode

from chronode.cli import flags
from chronode.settings import flags_of

# Any text is a value of these; a wrong model is answered with the list of models.
FREE = {"missing_values", "sheet", "comment", "model"}


def options():
    """(field, flags) of the options of `train` that take a value."""
    for section in flags.SECTIONS.values():
        for field in dataclasses.fields(section):
            if "panel" not in field.metadata or field.name in FREE:
                continue
            own = flags_of(field.name)
            if "/" not in own[0]:
                yield pytest.param(field.name, own, id=field.name)


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "sales.csv"
    days = np.datetime64("2024-01-01") + np.arange(90)
    path.write_text("day,sold\n" + "".join(f"{day},{10 + i % 7}\n" for i, day in enumerate(days)))
    return path


@pytest.mark.parametrize("value", ["foo", "-1"])
@pytest.mark.parametrize(("name", "own"), list(options()))
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
    words = ["--forecast", "2", "--origins", "1", "--no-refit", "--epochs", "1", "--model", "lstm", "--season", "500"]
    error = chronode("backtest", sales, "--time", "day", *words, "-o", tmp_path / "past", code=2).err
    assert "--season 500 is longer than the series before the first origin (88 steps)" in error


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--forecast", "400"], "90 steps cannot train and test --forecast 400: it needs at least"),
        (["--forecast", "2", "--model", "mmrnn", "--set", "foo=3"], "--set: MixedMemoryCell has no setting 'foo'"),
        (["--target", "sold", "--ignore", "so ld"], '--ignore "so ld" is not a column'),
    ],
)
def test_values_that_do_not_suit_the_file_are_reported_with_their_options(tmp_path, sales, words, expected):
    words = ["--model", "lstm", *words] if "--model" not in words else words
    assert expected in chronode("train", sales, "--time", "day", *words, "-o", tmp_path / "run", code=2).err


def test_other_mistakes_are_one_line_with_their_cure(tmp_path, sales):
    few = tmp_path / "few.csv"
    few.write_text("id,t,x,y\na,0,1,u\na,1,2,u\nb,0,2,v\n")
    error = chronode("train", few, "--id", "id", "--time", "t", "--target", "y", code=2).err
    assert error == (
        "chronode: 2 groups of series are too few for training, validation and test: add series (a target of whole "
        "series needs at least 3 groups).\n"
    )
    assert "no-runs does not exist" in chronode("runs", tmp_path / "no-runs", code=2).err
    error = chronode("predict", sales, tmp_path, code=2).err  # the wrong way round
    assert "sales.csv: this is neither a run folder nor a packed model" in error
    settings = tmp_path / "bad.yaml"
    settings.write_text("training: {epochss: 3}\n")
    error = chronode("train", sales, "--time", "day", "--forecast", "2", "--config", settings, code=2).err
    assert "training has no setting 'epochss'. Did you mean 'epochs'" in error
    assert "--drop" not in error
    error = chronode(
        "sweep", sales, "--time", "day", "--forecast", "2", "--model", "lstm", "--range", "lr=", code=2
    ).err
    assert "such as learning_rate=1e-4:1e-2:log or hidden_size=32,64" in error


def test_texts_that_training_did_not_see_are_named(tmp_path):
    rows = [f"{i},{t},{i % 2 + t},{'red' if i % 2 else 'blue'},{'ab'[i % 2]}" for i in range(12) for t in range(3)]
    file, later = tmp_path / "a.csv", tmp_path / "b.csv"
    file.write_text("\n".join(["id,t,x,color,y", *rows]) + "\n")
    later.write_text("id,t,x,color\n1,0,2,green\n1,1,2,red\n")
    roles = ["--id", "id", "--time", "t", "--target", "y", "--categorical", "onehot"]
    chronode("train", file, *roles, "--model", "lstm", "--hidden", "4", "--epochs", "1", "-o", tmp_path / "run")
    error = chronode("predict", tmp_path / "run", later, code=2).err
    assert "column 'color' has texts that did not occur in training ('green'; 1 row)" in error
    assert "train with --allow-missing" in error
    error = chronode("train", file, *roles, "--model", "lstm", "--window", "5000", code=2).err
    assert "--window 5000 is longer than every series: the longest has 3 steps" in error


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
