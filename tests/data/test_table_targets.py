"""The rules for targets and groups in tables, one test each; docs/data.md tells them."""

import numpy as np
import pytest
from long_tables import long, made

from chronode.data import Scaler, concat, from_long, from_wide, read


def test_targets_by_id_need_the_same_ids():
    assert made(target={"a": 1.5, "b": 2.5}, ignore=["y"]).target.values.tolist() == [[1.5], [2.5]]
    assert made(target={"a": "p", "b": "q"}, ignore=["y"]).classes == ("p", "q")
    with pytest.raises(ValueError, match="id 'c' has no rows"):
        made(target={"a": 1, "b": 0, "c": 1}, ignore=["y"])
    with pytest.raises(ValueError, match="id 'b' has no target"):
        made(target={"a": 1}, ignore=["y"])


def test_infinite_targets_are_an_error_with_row():
    with pytest.raises(ValueError, match="the target 'y' at row 3 is infinite"):
        made(long(y=[1, 1, float("inf"), 2]))


def test_a_target_with_one_class_is_an_error():
    with pytest.raises(ValueError, match="target 'y' has only one class .'p'.: there is nothing to learn"):
        made(long(y=["p"] * 4))
    assert made(long(y=["p"] * 4), classes=["p", "q"]).target.values.tolist() == [0, 0]


def test_a_class_seen_once_is_kept_with_a_note():
    s = made(long(id=["a", "b", "c", "d"], y=["p", "p", "q", "p"]))
    assert s.notes == ("classes of 'y' that occur once: 'q' (id c): kept; a split puts them into training.",)


def test_classes_that_training_did_not_see_are_an_error():
    with pytest.raises(ValueError, match="classes that did not occur in training: 'q'; training had 'p', 'r'"):
        made(classes=["p", "r"])
    assert made(classes=["q", "r", "p"]).target.values.tolist() == [2, 0]


def test_a_target_that_is_missing_is_unknown_with_a_note():
    s = made(long(y=["p", "p", None, None], id=["a", "b", "c", "c"], z=[1, 2, 3, 4]), classes=["p", "q"])
    assert s.target.values.tolist() == [0, 0, -100]
    assert "1 series without target 'y': kept." in s.notes
    with pytest.raises(ValueError, match="target 'y' is missing everywhere"):
        made(long(y=[None] * 4))


def test_a_target_that_changes_within_an_id_is_per_step_with_a_note():
    s = made(long(y=["p", "q", "q", "q"]))
    assert s.target.per_step
    assert s.notes[0] == "the target 'y' changes within 1 id (first: a): used as a target per step."
    with pytest.raises(ValueError, match="changes within 1 id .first: a.: per_step=False needs one"):
        made(long(y=["p", "q", "q", "q"]), per_step=False)
    assert made(per_step=True).target.per_step


def test_one_series_has_a_target_per_step():
    assert from_wide({"x": [1, 2], "y": ["p", "q"]}, target="y").target.per_step


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["p", "p", "q", "q"], "class"),
        ([True, True, False, False], "class"),
        ([0, 0, 1, 1], "class"),
        ([0.0, 0.0, 1.0, 1.0], "class"),
        ([0.5, 0.5, 1.0, 1.0], "value"),
        (["0", "0", "1", "1"], "class"),
    ],
)
def test_the_kind_of_target_is_found(column, kind):
    assert made(long(y=column)).target.kind == kind


def test_many_whole_numbers_are_values_and_few_are_classes_unless_specified():
    table = {"x": np.zeros(30), "y": np.arange(30)}
    assert from_wide(table, target="y").target.kind == "value"
    assert len(from_wide(table, target="y", kind="class").classes) == 30
    assert made(long(y=[0, 0, 1, 1]), kind="value").target.values.tolist() == [[0], [1]]
    with pytest.raises(ValueError, match="the target 'y' at row 1 is not a number: 'p'"):
        made(kind="value")


def test_class_names_of_numbers_are_sorted_as_numbers():
    assert made(long(y=[10, 10, 9, 9])).classes == ("9", "10")
    assert made(long(y=[10.0, 10.0, None, 9.0])).classes == ("9", "10")


def test_the_kind_of_each_of_several_targets_is_that_of_its_column():
    columns = {"y": [1.5, 1.5, 2.0, 2.0], "w": [3, 3, 4, 4]}
    numbers = made(long(**columns), target=["y", "w"], kind="value")
    assert numbers.target.values.tolist() == [[1.5, 3], [2, 4]] and numbers.target.kind == "value"
    assert numbers.target.names == ("y", "w")
    assert made(long(**columns), target=["y", "w"]).target.levels == (None, ("3", "4"))
    both = made(long(y=[1, 1, 2, 2], w=[3, 3, 4, 4]), target=["y", "w"], kind="class")
    assert both.target.levels == (("1", "2"), ("3", "4")) and both.target.values.tolist() == [[0, 0], [1, 1]]


def test_groups_belong_to_ids():
    assert made(long(ward=[1, 1, 2, 2]), group="ward").groups.tolist() == [1, 2]
    with pytest.raises(ValueError, match="ward: id a has more than one group"):
        made(long(ward=[1, 2, 2, 2]), group="ward")
    with pytest.raises(ValueError, match="ward: id b has no group"):
        made(long(ward=[1, 1, None, 2]), group="ward")


def test_groups_survive_merging():
    s = made(long(t=[1, 1, 0, 2], ward=["u", "u", "v", "v"]), group="ward")
    assert s.groups.tolist() == ["u", "v"]


@pytest.mark.parametrize("labels", [["p", "q"], ["0", "1"], ["0.25", "1.5"], ["true", "false"], ["01", "1"]])
@pytest.mark.parametrize("place", ["last", "first", "middle", "some"])
def test_a_label_in_some_rows_of_a_series_is_that_of_the_series(tmp_path, labels, place):
    rows = []
    for name, label in zip("abcd", labels * 2, strict=True):
        given = {"last": [3], "first": [0], "middle": [1], "some": [0, 2]}[place]
        rows += [f"{name},{t},{t}.5,{label if t in given else ''}" for t in range(4)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["id,t,x,y", *rows]))
    made = read(path, id="id", time="t", target="y")
    assert not made.target.per_step
    assert made.target.known.all()
    assert not any("changes" in note for note in made.notes)
    if made.classes is None:
        assert made.target.values[:, 0].tolist() == [0.25, 1.5] * 2
    else:
        assert [made.classes[code] for code in made.target.values.tolist()] == labels * 2


def test_a_label_that_changes_besides_empty_cells_is_one_per_step():
    made = from_long({"id": [1, 1, 1, 2, 2], "x": [1.0] * 5, "y": ["a", None, "b", None, "a"]}, id="id", target="y")
    assert made.target.per_step
    assert made.target.values.tolist() == [0, -100, 1, -100, 0]


def test_numbers_of_the_target_are_kept_as_they_were_given():
    exact = [0.0, 123456.789, 0.1, -3.3e-09]
    made = from_long({"id": [0, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0], "y": exact}, id="id", target="y")
    scaled = Scaler.fit(made).transform(made)
    assert scaled.target.given[:, 0].tolist() == exact
    assert scaled[[3, 1]].target.given[:, 0].tolist() == [exact[3], exact[1]]
    assert concat([scaled[:2], scaled[2:]]).target.given[:, 0].tolist() == exact
    assert scaled.target.values.mean() == pytest.approx(0, abs=1e-6)
