"""Text tables as people really have them: separators, decimal commas, encodings, comments, markers, ids."""

import gzip

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some

from chronode.data import from_long, read
from chronode.data._readers import column_names


def put(path, content, encoding="utf-8"):
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


# ---- ids ------------------------------------------------------------------------------------------------


def test_ids_that_look_like_numbers_stay_apart_and_as_they_are(tmp_path):
    ids = ["01", "1", "1.0", "1e0", "000001", "+1", "NA", "nan", "None", "?", "2024-01-01", "true", "1,0", "0x1"]
    rows = [f'"{name}",{t},{t}.5,{t}' for name in ids for t in (0, 1)]
    path = put(tmp_path / "a.csv", "\n".join(["who,t,x,y", *rows]))
    made = read(path, id="who", time="t", group="who")
    assert made.ids.tolist() == sorted(ids)
    assert made.groups.tolist() == sorted(ids)
    assert made.lengths.tolist() == [2] * len(ids)


def test_ids_that_are_plain_whole_numbers_are_sorted_as_numbers(tmp_path):
    path = put(tmp_path / "a.csv", "who,x\n10,1\n9,2\n-3,3\n123456789012345678,4\n")
    assert read(path, id="who").ids.tolist() == [-3, 9, 10, 123456789012345678]
    path = put(tmp_path / "b.csv", "who,x\n10,1\n9,2\n12345678901234567890123,3\n")
    assert read(path, id="who").ids.tolist() == ["10", "12345678901234567890123", "9"]


@some
@given(st.lists(st.text("0123456789.+-eE", min_size=1, max_size=8), min_size=1, max_size=8, unique=True))
def test_any_id_of_digits_comes_back_byte_for_byte(tmp_path_factory, ids):
    path = put(tmp_path_factory.mktemp("ids") / "a.csv", "\n".join(["who,x", *(f"{name},1" for name in ids)]))
    assert sorted(str(name) for name in read(path, id="who").ids.tolist()) == sorted(ids)


def test_labels_with_leading_zeros_keep_them(tmp_path):
    path = put(tmp_path / "a.csv", "who,x,zip\na,1,01\nb,2,1\nc,3,01\nd,4,1\n")
    assert read(path, id="who", target="zip").classes == ("01", "1")
    path = put(tmp_path / "b.csv", "who,x,y\na,1,1.0\nb,2,0\nc,3,1\nd,4,\n")
    assert read(path, id="who", target="y").classes == ("0", "1")


def test_channels_keep_their_names(tmp_path):
    path = put(tmp_path / "a.csv", "t,what,v\n0,01,1\n0,1,2\n1,01,3\n")
    assert read(path, time="t", channel="what", value="v").channels == ("01", "1")


# ---- separators, decimal points, thousands --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n1,5;2\n2,5;3\n", [[1.5, 2], [2.5, 3]]),
        ("a;b\n1,5;1.234,5\n2,5;2.345.678,25\n", [[1.5, 1234.5], [2.5, 2345678.25]]),
        ("a;b\n1,5;1.234\n2,5;2.345\n", [[1.5, 1234], [2.5, 2345]]),
        ('a,b\n"1,5",2\n"22,25",3\n', [[1.5, 2], [22.25, 3]]),
        ('a,b\n"1,234,567",2\n5,3\n', [[1234567, 2], [5, 3]]),
        ('a,b\n"1,234",0.5\n5,3\n', [[1234, 0.5], [5, 3]]),
        ('a,b\n"1,234.5",2\n5,3\n', [[1234.5, 2], [5, 3]]),
        ("a\tb\n1 234,5\t2\n2 345,5\t3\n", [[1234.5, 2], [2345.5, 3]]),
        ("a|b\n1'234.5|2\n2|3\n", [[1234.5, 2], [2, 3]]),
        ("a;b\n1,5e3;2\n-0,5;\n", [[1500, 2], [-0.5, np.nan]]),
        ("a b\n1 2.5\n3 4\n", [[1, 2.5], [3, 4]]),
        ("a;b\n,5;NA\n1,5;3\n", [[0.5, np.nan], [1.5, 3]]),
    ],
)
def test_decimal_commas_and_thousands_are_found(tmp_path, text, expected):
    made = read(put(tmp_path / "a.csv", text))
    np.testing.assert_array_equal(made.values, np.array(expected, dtype=np.float32))
    assert made.channels == ("a", "b")


def test_a_comma_that_may_be_either_is_asked_for(tmp_path):
    path = put(tmp_path / "a.csv", "a;b\n1,234;1\n2,345;2\n")
    with pytest.raises(
        ValueError, match=r"a.csv: '1,234' in column 'a' can be read .*: pass decimal=',' or thousands=','"
    ):
        read(path)
    assert read(path, decimal=",").values[0].tolist() == pytest.approx([1.234, 1])
    assert read(path, thousands=",").values[0].tolist() == [1234, 1]
    assert read(path, decimal=".").values[0].tolist() == [1234, 1]


def test_decimal_commas_in_times_and_targets(tmp_path):
    made = read(put(tmp_path / "a.csv", "t;x;y\n0,5;1;1,25\n1,75;2;2,5\n"), time="t", target="y")
    assert made[0].dt.tolist() == [0, 1.25]
    assert made.target.values[:, 0].tolist() == [1.25, 2.5]


def test_text_with_commas_is_not_a_number(tmp_path):
    path = put(tmp_path / "a.csv", 'x,place\n1,"Rome, IT"\n2,"Oslo, NO"\n')
    made = read(path, categorical="codes")
    assert made.categories == {"place": ("Oslo, NO", "Rome, IT")}


@pytest.mark.parametrize(
    "text",
    [
        '"Temp, C",x\n1.5,2\n',
        '"Temp, C";x\n1,5;2\n',
        "Temp, C;x\n1,5;2\n",
        "Temp, C\tx\n1.5\t2\n",
        "Temp, C;Press, hPa;x\n1,5;2,5;3\n",
    ],
)
def test_column_names_with_commas(tmp_path, text):
    made = read(put(tmp_path / "a.csv", text))
    assert made.channels[0] == "Temp, C"
    assert made.values[0, 0] == 1.5
    assert read(tmp_path / "a.csv", columns=["Temp", "C"]).channels == ("Temp, C",)
    assert read(tmp_path / "a.csv", columns=["Temp", "C", "x"]).channels == ("Temp, C", "x")
    assert read(tmp_path / "a.csv", target=["Temp", "C"], ignore=()).target.names == ("Temp, C",)


NUMBERS = st.floats(-1e6, 1e6, width=32).map(lambda x: round(x, 3))


@some
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=8), st.sampled_from(";\t|"))
def test_what_pandas_writes_with_decimal_commas_is_read_or_asked_about(tmp_path_factory, rows, separator):
    frame = pandas.DataFrame(rows, columns=["a", "b"])
    path = tmp_path_factory.mktemp("commas") / "a.csv"
    frame.to_csv(path, index=False, sep=separator, decimal=",")
    expected = frame.to_numpy().astype(np.float32)
    np.testing.assert_array_equal(read(path, decimal=",").values, expected)
    try:
        made = read(path)
    except ValueError as error:
        assert "decimal=','" in str(error)
    else:
        np.testing.assert_array_equal(made.values, expected)


# ---- encodings ------------------------------------------------------------------------------------------

TEXT = "größe,x\n1.5,2\n3,4\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_are_found(tmp_path, encoding, packed):
    content = TEXT.encode(encoding)
    path = put(tmp_path / ("a.csv.gz" if packed else "a.csv"), gzip.compress(content) if packed else content)
    made = read(path)
    assert made.channels == ("größe", "x")
    assert made.values.tolist() == [[1.5, 2], [3, 4]]
    assert any("cp1252" in note for note in made.notes) == (encoding in ("latin-1", "cp1252"))


def test_an_encoding_that_shows_late_is_found_too(tmp_path):
    rows = [f"{i},{i % 7},north" for i in range(60_000)]
    path = put(tmp_path / "a.csv", "\n".join(["t,x,place", *rows, "60000,1,Süd"]).encode("latin-1"))
    made = read(path, time="t", categorical="codes")
    assert made.categories["place"] == ("Süd", "north")
    assert any("read as cp1252" in note for note in made.notes)


def test_an_encoding_that_cannot_be_found_is_named_in_the_error(tmp_path):
    path = put(tmp_path / "a.csv", "温度,x\n1,2\n".encode("shift_jis") + b"\x81\x8d,1\n")
    with pytest.raises(
        ValueError, match=r"a.csv: this is not UTF-8 text, nor cp1252 .*encoding='latin-1' or 'shift_jis'"
    ):
        read(path)
    path = put(tmp_path / "b.csv", "温度,x\n1,2\n".encode("shift_jis"))
    assert read(path, encoding="shift_jis").channels == ("温度", "x")
    with pytest.raises(ValueError, match="text is not in the encoding ascii"):
        read(put(tmp_path / "c.csv", "x,place\n1,Süd\n"), encoding="ascii")


# ---- comments and missing markers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "# station 7\n# units: C\n\nt,x\n0,1.5\n# restarted, by hand\n1,2.5\n",
        "# t,x\n0,1.5\n1,2.5\n",
        "#t,x\n0,1.5\n1,2.5\n",
        "# station 7\n# t , x\n0,1.5\n1,2.5\n",
    ],
)
def test_comment_lines_are_found(tmp_path, text):
    made = read(put(tmp_path / "a.csv", text), time="t")
    assert made.channels == ("x",)
    assert made.values[:, 0].tolist() == [1.5, 2.5]


def test_what_numpy_writes_is_read(tmp_path):
    values = np.arange(6.0).reshape(3, 2)
    np.savetxt(tmp_path / "a.txt", values, header="a b")
    assert read(tmp_path / "a.txt").values.tolist() == values.tolist()


def test_comments_in_the_middle_are_named_in_the_error_or_skipped(tmp_path):
    path = put(tmp_path / "a.csv", "t,x\n0,1\n# sensor restarted\n1,2\n")
    with pytest.raises(
        ValueError, match=r"row 2 has 1 cells instead of 2: '# sensor restarted'. If it is a comment, pass comment='#'"
    ):
        read(path)
    assert read(path, comment="#").values[:, 1].tolist() == [1, 2]
    assert read(put(tmp_path / "b.csv", "t,x\n% 1\n0,1\n"), comment="%").values.tolist() == [[0, 1]]
    assert read(put(tmp_path / "c.csv", "#id,x\n#1,5\n#2,6\n"), comment="", id="#id").ids.tolist() == ["#1", "#2"]


def test_own_markers_of_missing_values(tmp_path):
    path = put(tmp_path / "a.csv", "id,x,z,y\n-999,<0.5,1,p\n1,-999,-999.0,n/a\n2,3,n/a,q\n3,4,5,q\n4,4,5,p\n")
    made = read(path, id="id", target="y", missing_values=["<0.5", "n/a", "-999"])
    nan = np.nan
    np.testing.assert_array_equal(made.values, [[nan, 1], [nan, nan], [3, nan], [4, 5], [4, 5]])
    assert made.ids.tolist() == [-999, 1, 2, 3, 4]
    assert made.target.values.tolist() == [0, -100, 1, 1, 0]


def test_own_markers_in_frames_and_readings():
    frame = pandas.DataFrame({"x": [1, -999, 3], "z": ["1", "n/a", "2"], "t": [0, 1, 2]})
    made = from_long(frame, time="t", missing_values=[-999, "n/a"])
    np.testing.assert_array_equal(np.isnan(made.values), [[0, 0], [1, 1], [0, 0]])


def test_an_unknown_marker_is_named_in_the_error(tmp_path):
    path = put(tmp_path / "a.csv", "x\n1\n2\n3\n<0.5\n5\nbelow\n")
    with pytest.raises(
        ValueError, match=r"row 4 has '<0.5'. If it means a missing value, pass missing_values=\['<0.5', 'below'\]"
    ):
        read(path)
    with pytest.raises(ValueError, match=r"row 3 has '3\\x1a'. Correct it, or"):  # nobody could type that marker
        read(put(tmp_path / "c.csv", "x\n1\n2\n3\x1a\n"))
    path = put(tmp_path / "b.csv", "t,what,v\n0,a,1\n1,a,<1\n")
    with pytest.raises(ValueError, match=r"row 2 is not a number: '<1'. .*missing_values=\['<1'\]"):
        read(path, time="t", channel="what", value="v")
    assert read(path, time="t", channel="what", value="v", missing_values=["<1"]).lengths.tolist() == [2]


# ---- the index of pandas --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "filtered", "twice", "xlsx", "parquet"])
def test_the_index_of_pandas_is_dropped_with_a_note(tmp_path, kind):
    frame = pandas.DataFrame({"t": [0, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]})
    path = tmp_path / "a.csv"
    if kind == "filtered":
        frame = frame[frame.t != 1]
    if kind == "twice":
        frame.to_csv(path)
        frame = pandas.read_csv(path)
    if kind == "xlsx":
        path = tmp_path / "a.xlsx"
        frame.to_excel(path)
    elif kind == "parquet":
        path = tmp_path / "a.parquet"
        frame[frame.t != 1].to_parquet(path)
    else:
        frame.to_csv(path)
    made = read(path, time="t")
    assert made.channels == ("x",)
    assert any("holds row numbers (an unnamed index): dropped" in note for note in made.notes)


def test_an_index_that_is_used_or_holds_something_else_stays(tmp_path):
    path = put(tmp_path / "a.csv", ",x\n5,1\n6,2\n")
    assert read(path, time="Unnamed: 0")[0].dt.tolist() == [0, 1]
    assert read(path, columns=["Unnamed: 0", "x"]).channels == ("Unnamed: 0", "x")
    assert read(put(tmp_path / "b.csv", ",x\n0.5,1\n0.5,2\n")).channels == ("Unnamed: 0", "x")
    with pytest.raises(ValueError, match="It looks like a time: pass time='Unnamed: 0'"):
        read(put(tmp_path / "c.csv", ",x\n2024-01-01,1\n2024-01-02,2\n"))


@pytest.mark.parametrize("rows", ['"{i}",{i}.5,a', '"r{i}",{i}.5,a'])
def test_a_table_of_r_without_a_name_for_its_rows(tmp_path, rows):
    path = put(tmp_path / "a.txt", "\n".join(['"x","place"', *(rows.format(i=i) for i in range(3))]))
    options = {"id": "Unnamed: 0"} if "r{" in rows else {}
    made = read(path, ignore=["place"], **options)
    assert made.channels == ("x",)
    assert made.values[:, 0].tolist() == [0.5, 1.5, 2.5]
    assert made.ids.tolist() == (["r0", "r1", "r2"] if options else [0])
    assert column_names(path, {}) == ["Unnamed: 0", "x", "place"]


@pytest.mark.parametrize("text", ["1/1/1998,0.8,?,3\n1/2/1998,2.8,3,4\n", "2024-01-01 10:00,5\n2024-01-02 10:00,6\n"])
def test_a_first_line_of_dates_and_numbers_has_no_names(tmp_path, text):
    path = put(tmp_path / "a.data", text)
    with pytest.raises(ValueError, match="the first line holds numbers, not column names"):
        read(path)
    names = ["day", "x", "y", "z"][: text.partition("\n")[0].count(",") + 1]
    assert read(path, names=names, time="day", time_format="%m/%d/%Y" if "/" in text else None).lengths.tolist() == [2]


def test_numbers_as_names_beside_an_index(tmp_path):
    pandas.DataFrame(np.arange(6.0).reshape(3, 2)).to_csv(tmp_path / "a.csv")
    assert read(tmp_path / "a.csv").channels == ("0", "1")


# ---- numbers with signs, text above the table, aligned columns ---------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected", "sign"),
    [
        (["5%", "6.5 %", "", "-1%"], [5.0, 6.5, None, -1.0], "%"),
        (['"$1,200.50"', "-$3.25", "$ 4", "NA"], [1200.5, -3.25, 4.0, None], "$"),
        (['"1,5 €"', '"2,25 €"', '"1.000,5 €"', '"3 €"'], [1.5, 2.25, 1000.5, 3.0], "€"),
        (["\u22125", "6.5", "1", "2"], [-5.0, 6.5, 1.0, 2.0], ""),
    ],
)
def test_signs_beside_numbers_are_removed_with_a_note(tmp_path, cells, expected, sign):
    path = put(tmp_path / "a.csv", "\n".join(["t,x", *(f"{t},{cell}" for t, cell in enumerate(cells))]) + "\n")
    made = read(path, time="t")
    assert [None if np.isnan(x) else x for x in made.values[:, 0].tolist()] == expected
    assert any(f"column 'x' has numbers with '{sign}'" in note for note in made.notes) == bool(sign)


def test_other_texts_with_signs_stay_text(tmp_path):
    path = put(tmp_path / "a.csv", "id,t,x,dose\na,0,1,5%\nb,0,2,10%\n")
    assert read(path, id="id", time="t", target="dose").classes == ("10%", "5%")
    path = put(tmp_path / "b.csv", "t,x\n0,5%\n1,6\n")  # is 6 a percentage?
    with pytest.raises(ValueError, match="column 'x' is not numeric: row 1 has '5%'"):
        read(path, time="t")


@pytest.mark.parametrize(
    ("above", "count"),
    [
        ("Station 7\nexported 2024-01-01\n\n", "2 lines"),
        ("% made by a logger\n", "1 line"),
        ("a, b, and c\n", "1 line"),
    ],
)
def test_lines_above_the_table_are_skipped_with_a_note(tmp_path, above, count):
    path = put(tmp_path / "a.csv", above + "t,x\n0,1.5\n1,2.5\n")
    made = read(path, time="t")
    assert made.values[:, 0].tolist() == [1.5, 2.5]
    assert made.notes[0] == f"skipped {count} above the table ({above.splitlines()[0]!r})."
    assert column_names(path, {}) == ["t", "x"]


def test_a_row_that_is_too_long_is_no_reason_to_skip_the_header(tmp_path):
    path = put(tmp_path / "a.csv", "t,x\n0,1.5,3\n1,2.5\n2,3.5\n")
    with pytest.raises(ValueError, match="row 1 has 3 cells instead of 2: '0,1.5,3'"):
        read(path, time="t")


def test_columns_that_are_aligned_with_spaces(tmp_path):
    path = put(tmp_path / "a.txt", "who   t    x\nann   0  1.5\nann  10  2.5\nbob   0   -3\n")
    made = read(path, id="who", time="t")
    assert (made.ids.tolist(), made.values[:, 0].tolist()) == (["ann", "bob"], [1.5, 2.5, -3.0])
    path = put(tmp_path / "b.txt", "t x y\n0  3\n1 2 4\n")  # an empty cell, not an aligned column
    assert np.isnan(read(path, time="t").values[0, 0])


def test_an_encoding_that_was_given_is_used_or_refused(tmp_path):
    path = put(tmp_path / "a.csv", "t,Höhe\n0,1\n1,2\n", "latin-1")
    assert read(path, time="t", encoding="latin-1").channels == ("Höhe",)
    with pytest.raises(
        ValueError, match="this text is not in the encoding utf-8; pass another, e.g. encoding='latin-1'"
    ):
        read(path, time="t", encoding="utf-8")


def test_whole_numbers_in_the_time_column_do_not_decide_about_commas(tmp_path):
    path = put(tmp_path / "a.csv", 't,x\n1,"1,234"\n2,"2,345"\n')
    with pytest.raises(ValueError, match="pass decimal=',' or thousands=','"):
        read(path, time="t")
    assert read(path, time="t", thousands=",").values[0, 0] == 1234


@pytest.mark.parametrize(
    "odd", ["007", "-0", "+7", "7.0", "99999999999999999999", "x", "-9223372036854775808", "0", "-12"]
)
def test_ids_are_whole_numbers_only_if_all_are_written_plainly(tmp_path, odd):
    """The other ids would be other names as numbers: "007" is not "7"."""
    path = tmp_path / "a.csv"
    path.write_text("who,x\n" + "".join(f"{name},1\n" for name in (10, -3, 0, odd, odd)))
    ids = read(path, id="who").ids.tolist()
    plain = odd in ("0", "-12", "-9223372036854775808")
    assert (int(odd) if plain else odd) in ids and all(isinstance(name, int if plain else str) for name in ids)
