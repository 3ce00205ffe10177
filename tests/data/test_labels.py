"""Labels in a second table: the series of a table that has them already, and errors that name the place."""

import numpy as np
import pytest

from chronode.data import from_long, pack, read
from chronode.data._readers import read_frame
from chronode.settings import SettingError

ROWS = {"who": ["b", "a", "a", "c", "b"], "t": [0, 3, 1, 2, 9], "x": [1.0, 2.0, 3.0, 4.0, 5.0]}
OPTIONS = {"id": "who", "time": "t"}


def joined(labels, **options):
    return read_frame(dict(ROWS), labels=labels, **{**OPTIONS, **options})


def test_labels_by_id_are_those_of_a_joined_table():
    labels = {"who": ["c", "a", "b"], "ill": ["no", "yes", "no"]}
    whole = from_long({**ROWS, "ill": ["no", "yes", "yes", "no", "no"]}, target="ill", **OPTIONS)
    for target in ("ill", None):  # the only other column of the labels
        s = joined(labels, target=target)
        assert s.ids.tolist() == whole.ids.tolist() and s.classes == whole.classes and s.target.names == ("ill",)
        np.testing.assert_array_equal(s.target.values, whole.target.values)
        np.testing.assert_array_equal(s.values, whole.values)
        assert s.notes == whole.notes


def test_labels_with_times_are_targets_per_step():
    labels = {"t": [1, 3, 0, 9, 2, 7], "who": ["a", "a", "b", "b", "c", "c"], "y": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]}
    s = joined(labels, target="y")
    assert s.target.per_step and s.target.values[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    dated = {**ROWS, "t": ["2024-01-01", "2024-01-04", "2024-01-02", "2024-01-03", "2024-01-10"]}
    other = {"who": ["a", "b"], "t": ["2024-01-04 00:00", "2024-01-01 00:00:00"], "y": [0.25, 0.5]}
    s = read_frame(dated, labels=other, target="y", per_step=True, **OPTIONS)
    np.testing.assert_array_equal(s.target.values[:, 0], [np.nan, 0.25, 0.5, np.nan, np.nan])
    with pytest.raises(SettingError, match="dates in only one"):
        read_frame(dated, labels=labels, target="y", **OPTIONS)


def test_ids_without_label_and_labels_without_rows_are_noted():
    s = joined({"who": ["a", "z", "b"], "ill": [1, 0, 0]}, target="ill")
    assert [one.target.item() for one in s.labeled()] == [1, 0]
    text = "\n".join(s.notes)
    assert "1 of 3 series have no label ('c')" in text and "1 id is not in the data ('z')" in text


def test_a_repeated_label_counts_once_and_different_ones_are_refused():
    twice = {"who": ["a", "b", "c", "a"], "ill": ["yes", "no", "no", "yes"]}
    assert joined(twice, target="ill").target.values.tolist() == [1, 0, 0]
    twice["ill"][3] = "no"
    with pytest.raises(SettingError, match=r"id a has two labels in 'ill', yes \(row 1\) and no \(row 4\); 1 such id"):
        joined(twice, target="ill")


@pytest.mark.parametrize(
    ("labels", "options", "problem"),
    [
        ({"name": ["a"], "ill": [1]}, {}, "has no column 'who', only 'name', 'ill': name its column of ids"),
        ({"who": ["a", None], "ill": [1, 0]}, {}, "the id of row 2 is missing"),
        ({"who": ["p1", "p2"], "ill": [1, 0]}, {}, r"no 'who' is in both files \('p1', 'p2' there, 'a', 'b', 'c'"),
        ({"who": ["a", "b"], "ill": [1, 0]}, {"id": None}, "name the column of ids with id="),
        ({"who": ["a", "b"], "x": [1, 0]}, {"target": "x"}, "the data have a column 'x' too"),
        ({"who": ["a", "b"], "ill": [1, 0]}, {"target": "il"}, "Did you mean 'ill'"),
        ({"who": ["a", "b"], "ill": [1, 0], "age": [3, 4]}, {"target": None}, "name the target with target="),
        ("none.csv", {}, "labels='none.csv': no such file"),
    ],
)
def test_refused(labels, options, problem):
    with pytest.raises(SettingError, match=problem):
        joined(labels, **{"target": "ill", **options})


def test_files_and_whole_numbers_of_other_types(tmp_path):
    (tmp_path / "a.csv").write_text("who,t,x\n1,0,1\n1,1,2\n2,0,3\n")
    (tmp_path / "labels.csv").write_text("who;score\n2;0,5\n1;n/a\n")
    s = read(tmp_path / "a.csv", labels=tmp_path / "labels.csv", target="score", missing_values=["n/a"], **OPTIONS)
    np.testing.assert_array_equal(s.target.values[:, 0], [np.nan, 0.5])
    with pytest.raises(SettingError, match="cannot be packed: join the labels first"):
        pack(tmp_path / "a.csv", tmp_path / "store", labels=str(tmp_path / "labels.csv"), **OPTIONS)
    with pytest.raises(SettingError, match="omit labels"):
        read(pack(tmp_path / "a.csv", tmp_path / "store", **OPTIONS), labels="b.csv")
