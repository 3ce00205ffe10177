"""Remarks on data that are probably not as they were meant: ids, labels, columns, ranges."""

import json

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some

from chronode import SequenceClassifier
from chronode.data import Reading, from_long, from_numpy, options_like
from chronode.data._describe import alike, canonical, ranges_of, remarks

nan = float("nan")
SHORT = (*QUICK, "--epochs", 1)


def noted(s, word):
    return [note for note in remarks(s) if word in note]


def people(count=12, **columns):
    rng = np.random.default_rng(0)
    who = np.repeat([f"s{i}" for i in range(count)], 3)
    table = {"who": who, "t": np.tile(np.arange(3), count), "x": rng.normal(size=3 * count)}
    table["y"] = np.repeat(["ill", "well"] * (count // 2), 3)
    return {**table, **columns}


def series(table, **options):
    return from_long(table, id="who", time="t", **{"target": "y", **options})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("p1", "P1"),
        ("é1", "e\u03011"),
        ("p1", "p1\u200b"),
        ("p1", "p01"),
        ("007", "7"),
        ("ＡＢ", "AB"),
        ("a\u00ad", "a"),
    ],
)
def test_ids_that_a_person_takes_for_one_are_noted_with_examples(one, other):
    who = np.repeat([one, other, *(f"s{i}x" for i in range(10))], 3)
    (note,) = noted(series(people(who=who)), "id")
    assert "2 ids" in note and ascii(one) in note and ascii(other) in note and "group" in note
    ward = np.repeat(["w", "w", *(f"w{i}" for i in range(10))], 3)
    assert not noted(series(people(who=who, ward=ward), group="ward"), "ids differ")


@pytest.mark.parametrize(
    ("one", "other"), [("p1", "p10"), ("p1", "p2"), ("p100", "p10"), ("a b", "ab"), ("1.0", "1.00")]
)
def test_other_ids_are_not(one, other):
    assert not alike([one, other])
    assert not noted(series(people()), "id")


@some
@given(st.text(max_size=12))
def test_a_canonical_id_is_its_own(text):
    assert canonical(canonical(text)) == canonical(text)


def test_columns_equal_to_the_target_are_noted():
    codes = np.repeat([1.0, 0.0] * 6, 3)
    (note,) = noted(series(people(z=codes)), "'z'")
    assert "'y'" in note and "ignore='z'" in note
    assert not noted(series(people(z=np.r_[0.0, codes[1:]])), "'z'")
    partly = np.where(np.arange(36) % 3 == 0, codes, nan)
    assert noted(series(people(z=partly)), "'z'")
    numbers = np.repeat(np.random.default_rng(1).normal(size=12), 3)
    assert noted(series(people(y=numbers, z=numbers)), "'z'") and not noted(series(people(y=numbers)), "'x'")
    steps = np.random.default_rng(1).normal(size=36)
    assert noted(series(people(y=steps, z=steps)), "'z'")
    few = series(people(count=4, z=np.repeat([1.0, 0.0] * 2, 3)))
    assert not noted(few, "'z'")  # too few to tell
    assert noted(series(people(z=codes), static=["z"]), "'z'")


def test_equal_columns_are_noted_once():
    rng = np.random.default_rng(2)
    a = np.where(rng.random(36) < 0.2, nan, rng.normal(size=36))
    (note,) = noted(series(people(a=a, b=a.copy(), c=np.zeros(36), d=np.zeros(36))), "equal columns")
    assert "'a', 'b'" in note and "'c'" not in note
    assert not noted(series(people(a=a, b=a + 1e-3)), "equal columns")


def test_labels_that_differ_by_case_or_look_like_ids_are_noted():
    (note,) = noted(series(people(y=np.repeat(["ill", "Ill", "well"] * 4, 3))), "case")
    assert "'Ill' and 'ill'" in note
    assert not noted(series(people()), "case")
    (note,) = noted(series(people(y=np.repeat([f"u{i}" for i in range(12)], 3))), "like an id")
    assert "12 classes for 12 series" in note
    assert not noted(series(people()), "like an id")


def test_values_outside_the_range_of_training_are_noted_everywhere(tmp_path):
    """Pulse in Hz: less than 10 standard deviations from training, and never seen there."""
    write_vitals(tmp_path / "vitals.csv", hr=lambda row: row["hr"] and f"{float(row['hr']):.1f}")
    chronode("train", tmp_path / "vitals.csv", *VITALS, *SHORT, "-o", tmp_path / "run")
    hertz = {"hr": lambda row: row["hr"] and f"{float(row['hr']) / 60:.3f}"}
    write_vitals(tmp_path / "hertz.csv", **hertz)
    for command in ("predict", "evaluate"):
        words = " ".join((done := chronode(command, tmp_path / "run", tmp_path / "hertz.csv")).err.split())
        assert "outside the range of training: hr (100%" in words + " ".join(done.out.split())
        assert "temp" not in words.partition("outside the range")[2]
        same = chronode(command, tmp_path / "run", tmp_path / "vitals.csv")
        assert "outside the range" not in same.err + same.out
    ranges = json.loads((tmp_path / "run" / "data.json").read_text())["reading"]["ranges"]
    assert 30 < ranges[0][0] < 60 < 100 < ranges[0][1] < 140


def test_estimators_warn_about_values_outside_the_range():
    rng = np.random.default_rng(0)
    x = rng.normal(70, 5, size=(20, 1, 6))
    made = SequenceClassifier("gru", hidden_size=2, epochs=1, random_state=0).fit(x, [0, 1] * 10)
    with pytest.warns(UserWarning, match="outside the range of training: x0"):
        made.predict(x / 60)


def test_ranges_belong_to_the_channels_and_are_robust():
    s = from_numpy(np.r_[np.arange(1000.0), 1e9][None], order="NT")
    ((low, high),) = ranges_of(s)
    assert 0 <= low < 10 and 990 < high < 1000
    with pytest.raises(ValueError, match="ranges"):
        Reading.of(s, options=options_like(s), target=(), missing=False, ranges=((0.0, 1.0),) * 2)


def test_a_single_test_series_is_noted(tmp_path):
    write_vitals(tmp_path / "vitals.csv", patients=6)
    chronode("train", tmp_path / "vitals.csv", *VITALS, *SHORT, "-o", tmp_path / "run")
    notes = json.loads((tmp_path / "run" / "data.json").read_text())["notes"]
    assert any("test part is a single series" in note for note in notes)
