"""The archives' .ts files."""

import numpy as np
import pytest
from hypothesis import given
from series_checks import sequences, some

from chronode.data import from_list, read, read_ts, write_ts

nan = float("nan")


def text(tmp_path, content, name="a.ts"):
    path = tmp_path / name
    path.write_text(content)
    return path


def test_equal_length_multivariate_with_classes(tmp_path):
    content = "#comment\n@problemName Basic\n@timeStamps false\n@missing false\n@univariate false\n@dimensions 2\n"
    content += (
        "@equalLength true\n@seriesLength 3\n@classLabel true walk run\n@data\n1,2,3:4,5,6:run\n7,8,9:1,2,3:walk\n"
    )
    made = read(text(tmp_path, content))
    assert made.classes == ("walk", "run")
    assert made.target.values.tolist() == [1, 0]
    assert made[0].values.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert made.batch().dt is None


def test_unequal_lengths_missing_values_headers_in_any_case_and_comments(tmp_path):
    content = (
        "% old\n\n@PROBLEMNAME x\n@UNIVARIATE TRUE\n@ClassLabel True 1 2\n@DATA\n# more\n1,?,3:2\n\n 4 , 5e-1:1 \n"
    )
    made = read(text(tmp_path, content))
    assert made.lengths.tolist() == [3, 2]
    np.testing.assert_array_equal(made[0].values[:, 0], [1, nan, 3])
    assert made.batch().observed[0, :, 0].tolist() == [True, False, True]
    assert made.target.values.tolist() == [1, 0]


def test_regression_targets(tmp_path):
    made = read(text(tmp_path, "@timestamps false\n@targetlabel true\n@data\n1,2:3,4:0.5\n5:6:-1e2\n7:8:?\n"))
    assert made.target.kind == "value"
    np.testing.assert_array_equal(made.target.values[:, 0], [0.5, -100, nan])


def test_no_labels(tmp_path):
    made = read(text(tmp_path, "@classLabel false\n@data\n1,2:3,4\n"))
    assert made.target is None
    assert made.num_channels == 2


def test_classes_that_the_header_does_not_list_come_from_the_data(tmp_path):
    assert read(text(tmp_path, "@classLabel true\n@data\n1:b\n2:a\n")).classes == ("a", "b")


def test_timestamps(tmp_path):
    content = "@timestamps true\n@univariate false\n@classLabel true a b\n@data\n"
    content += "(0,1.5),(2,2.5):(1,7):b\n(0,?),(3,1):(0,2),(3,?):a\n"
    made = read(text(tmp_path, content))
    np.testing.assert_array_equal(made[0].values, [[1.5, nan], [nan, 7], [2.5, nan]])
    assert made[0].dt.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(made[1].values, [[nan, 2], [1, nan]])
    assert made.target.values.tolist() == [1, 0]


def test_timestamps_may_be_dates(tmp_path):
    content = "@timestamps true\n@univariate true\n@targetlabel true\n@data\n"
    content += "(2024-01-01 00:00:00,1),(2024-01-01 01:00:00,2):3.5\n"
    made = read(text(tmp_path, content))
    assert made.clock.unit == "hour"
    assert made.target.values.tolist() == [[3.5]]


@some
@given(sequences(target="class"))
def test_writing_and_reading_changes_nothing(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("ts") / "a.ts"
    again = read(write_ts(made, path))
    np.testing.assert_array_equal(again.values, made.values)
    assert again.target.values.tolist() == made.target.values.tolist()
    assert again.classes == made.classes
    if made.base_times is not None:
        np.testing.assert_allclose(again.dt * again.clock.scale, made.dt, rtol=1e-6, atol=1e-9)


def test_writing_numbers_and_no_target(tmp_path):
    made = from_list([[1.0, nan], [2.5]], target=[0.1, nan])
    again = read_ts(write_ts(made, tmp_path / "a.ts"))
    np.testing.assert_array_equal(again.target.values, made.target.values)
    assert read_ts(write_ts(from_list([[1.0]]), tmp_path / "b.ts")).target is None
    with pytest.raises(ValueError, match="one target per series"):
        write_ts(from_list([[1.0]], target=[[0.5]]), tmp_path / "c.ts")
    with pytest.raises(ValueError, match="class 'a b' cannot be written"):
        write_ts(from_list([[1.0], [2.0]], target=["a b", "c"]), tmp_path / "c.ts")


HEAD = "@univariate false\n@dimensions 2\n@classLabel true a b\n@data\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2,3:a\n", "line 1: a .ts file begins with @ lines, not '1,2,3:a'"),
        ("@classLabel true a b\n", "the file has no @data line"),
        (HEAD, "no series found after @data"),
        (HEAD + "1:2:a\n1,2:a\n", "line 6: found 1 dimensions and a label; expected 2"),
        (HEAD + "1,x:2,3:a\n", "line 5, dimension 1, value 2: 'x' is not a number"),
        (HEAD + "1,,2:2,3,4:a\n", "line 5, dimension 1, value 2: '' is not a number"),
        (HEAD + "1 2,3:2,3:a\n", "line 5, dimension 1, value 1: '1 2' is not a number"),
        (HEAD + "1,2:2:a\n", r"line 5: the dimensions have unequal lengths: \[1, 2\]"),
        (HEAD + "1:2:c\n", "line 5: class 'c' is not in the header: 'a', 'b'"),
        (HEAD + "1:inf:a\n", r"series\[0\], step 0, channel 'x1' is infinite"),
        ("@targetlabel true\n@data\n1:high\n", "line 3: the target 'high' is not a number"),
        ("@timestamps maybe\n@data\n1\n", "line 1: @timestamps needs true or false"),
        ("@dimensions many\n@data\n1\n", "line 1: @dimensions needs a number"),
        ("@timestamps true\n@data\n(1,2),3\n", r"line 3, dimension 1: expected \(time,value\)"),
        ("@timestamps true\n@classLabel true a b\n@data\n:a\n", "line 4: the series has no observation"),
        ("@classLabel true\n@data\n1:a\n2:a\n", "only one class"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(text(tmp_path, content))
    assert "a.ts" in str(caught.value)


def test_classes_of_training_number_those_of_a_test_file(tmp_path):
    path = text(tmp_path, "@classLabel true b c\n@data\n1:c\n")
    assert read(path, classes=["a", "b", "c"]).target.values.tolist() == [2]
    with pytest.raises(ValueError, match="did not occur in training: 'c'"):
        read(path, classes=["a", "b"])


def test_columns_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has no columns to select; omit 'id'"):
        read(text(tmp_path, HEAD + "1:2:a\n"), id="x")
