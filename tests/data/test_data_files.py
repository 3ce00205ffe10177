"""Files: read by suffix, refused when they are not what they say, whatever bytes they hold."""

import gzip
import lzma
import warnings

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import assert_same, some

from chronode.data import from_list, from_long, load, read

TABLE = {
    "id": ["a", "a", "b"],
    "t": ["2024-01-01 10:00:00", "2024-01-01 12:00:00", "2024-01-02 10:00:00"],
    "x": [1.0, None, 3.0],
    "y": ["p", "p", "q"],
}
ROLES = {"id": "id", "time": "t", "target": "y"}


@pytest.fixture
def csv(tmp_path):
    pandas.DataFrame(TABLE).to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv"


def put(path, content):
    (path.write_bytes if isinstance(content, bytes) else path.write_text)(content)
    return path


def test_csv_and_parquet_give_what_the_frame_gives(csv, tmp_path):
    expected = from_long(TABLE, **ROLES)
    assert_same(read(csv, **ROLES), expected)
    pandas.DataFrame(TABLE).to_parquet(tmp_path / "a.parquet")
    assert_same(read(tmp_path / "a.parquet", **ROLES), expected)
    assert_same(read(tmp_path / "a.parquet", columns=["x"], **ROLES), expected)
    parsed = pandas.DataFrame({**TABLE, "t": pandas.to_datetime(TABLE["t"])})
    parsed.to_parquet(tmp_path / "b.pq")
    assert read(tmp_path / "b.pq", **ROLES).times.tolist() == expected.times.tolist()


def test_packed_text(csv, tmp_path):
    expected = read(csv, **ROLES)
    with gzip.open(tmp_path / "b.csv.gz", "wb") as file:
        file.write(csv.read_bytes())
    with lzma.open(tmp_path / "b.csv.xz", "wb") as file:
        file.write(csv.read_bytes())
    for name in ("b.csv.gz", "b.csv.xz"):
        assert_same(read(tmp_path / name, **ROLES), expected)
    for name in ("c.csv.gz", "c.csv.xz"):
        with pytest.raises(ValueError, match=f"{name}: this file cannot be opened as"):
            read(put(tmp_path / name, csv.read_bytes()), **ROLES)


@pytest.mark.parametrize(("separator", "name"), [(";", "a.csv"), ("\t", "a.tsv"), ("\t", "a.txt"), ("|", "a.data")])
def test_separators_are_found(tmp_path, separator, name):
    path = tmp_path / name
    pandas.DataFrame(TABLE).to_csv(path, index=False, sep=separator)
    assert_same(read(path, **ROLES), from_long(TABLE, **ROLES))


def test_decimal_commas_names_and_encodings(tmp_path):
    made = read(put(tmp_path / "a.csv", "x;z\n1,5;2\n2,5;3\n"), decimal=",")
    assert made.values.tolist() == [[1.5, 2], [2.5, 3]]
    with pytest.raises(ValueError, match="first line holds numbers, not column names"):
        read(put(tmp_path / "b.csv", "1,2\n3,4\n"))
    assert read(tmp_path / "b.csv", names=["u", "v"]).values.tolist() == [[1, 2], [3, 4]]
    latin = put(tmp_path / "c.csv", "größe,x\n1,2\n3,4\n".encode("latin-1"))
    assert read(latin, encoding="latin-1").channels == ("größe", "x")
    with pytest.raises(ValueError, match="encoding='klingon' is not supported"):
        read(latin, encoding="klingon")


def test_types_that_change_after_the_first_block(tmp_path):
    """The first megabyte holds whole numbers, plain ids, seconds; what follows does not."""
    count = 120_000
    lines = ["id,t,x,gap"] + [f"{i % 5},2024-01-01 00:00:{i % 60:02d},{i % 10}," for i in range(count)]
    lines += ["A7,2024-01-01 00:00:00.5,0.25,1", "A7,2024-01-02 00:00:00,9,2"]
    made = read(put(tmp_path / "a.csv", "\n".join(lines)), id="id", time="t")
    assert made.ids.tolist() == ["0", "1", "2", "3", "4", "A7"]
    assert made[-1].values.tolist() == [[0.25, 1], [9, 2]]
    with pytest.raises(ValueError, match="column 'x' is not numeric: row 120,003 has 'oops'"):
        read(put(tmp_path / "b.csv", "\n".join([*lines, "A7,2024-01-03,oops,2"])), id="id", time="t")


def test_quoted_line_breaks(tmp_path):
    path = put(tmp_path / "a.csv", 'x,note\n1,"two\nlines"\n2,"one"\n')
    assert read(path, ignore=["note"]).values[:, 0].tolist() == [1, 2]


def test_words_for_missing_values(tmp_path):
    path = put(tmp_path / "a.csv", "x,z\n1,?\nNA,2\n,nan\n3,4\n")
    np.testing.assert_array_equal(np.isnan(read(path).values), [[0, 1], [1, 0], [1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "the file is empty"),
        ("a.parquet", "", "the file is empty"),
        ("a.ts", "", "the file is empty"),
        ("a.npz", "", "the file is empty"),
        ("a.csv", "\n \n", "the file is empty"),
        ("a.csv", "x,t\n", "the table has no rows"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\0\0", "this is not a .csv file but a PNG image"),
        ("a.ts", b"PAR1....", "this is not a .ts file but a Parquet file"),
        ("a.csv", b"PK\x03\x04....", "not a .csv file but a zip archive"),
        ("a.parquet", "x,t\n1,2\n", r"this is not a .parquet file but begins with b'x,t"),
        ("a.parquet", b"PAR1 and nothing more", "not a valid Parquet file"),
        ("a.npz", "x,t\n", "this is not a .npz file but begins with"),
        ("a.npz", b"PK\x03\x04 and nothing more", "not a valid .npz file"),
        ("a.csv", b"x,y\n1,\0\0\n", "not a text file .it has zero bytes"),
        ("a.csv", "x,z\n1,2\n3\n4,5\n6\n", "row 2 has 1 cells instead of 2: '3'"),
        ("a.csv", b"x,z\n1,\xff\xfe\n", "column 'z' is not numeric: row 1"),
        ("a.csv", "x,x\n1,2\n", "two columns have the same name: 'x'"),
        ("a.csv", "x,z\n1,inf\n", "z: the value of row 1 is infinite"),
        ("a.xlsx", "x", "this is not a .xlsx file but begins with b'x'"),
        ("a.xlsx", b"PK\x03\x04 and nothing more", "not a valid .xlsx file"),
        ("a.feather", b"ARROW1 and nothing more", "not a valid Arrow .Feather. file"),
        ("a.arrow", b"and nothing more", "not a valid Arrow .Feather. file"),
        ("a.npy", b"\x93NUMPY and nothing more", "not a valid .npy file"),
        ("a.npy", "x", "this is not a .npy file but begins with"),
        ("a.jsonl", '{"x": 1}\n{"x": \n', "line 2: this is not valid JSON"),
        ("a.json", "[" * 100_000, "this is not valid JSON"),
        ("a.json", "[1, 2]", "row 1 is not an object .*: '1'"),
        ("a.jsonl", b'{"x": "\xff"}', "JSON must be UTF-8 text"),
        ("a.xls", "x", r"files with the suffix .xls are not supported; use one of '.csv'.* Save it as .xlsx"),
        ("a.pkl", "x", "the suffix .pkl are not supported.* save the frame with to_parquet"),
        ("a", "x", "the table has no rows"),
        ("a.csv", "<!DOCTYPE html>\n<p>404</p>\n", "this is not a .csv file but a web page"),
        ("a.csv", "version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer .`git lfs pull`"),
        ("a.csv", gzip.compress(b"t,x\n1,2\n", mtime=0), "but gzip data. Rename it to a.csv.gz."),
    ],
)
def test_a_file_that_is_not_what_its_name_says(tmp_path, name, content, message):
    path = put(tmp_path / name, content)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(csv):
    csv.with_name("vitals.csv").touch()
    with pytest.raises(FileNotFoundError, match=r"vital.csv: no such file. Did you mean 'vitals.csv'\?"):
        read(csv.with_name("vital.csv"))
    with pytest.raises(FileNotFoundError, match=r"sales.csv: no such file.$"):  # nothing related
        read(csv.with_name("sales.csv"))
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(csv.with_name("b.npz"))
    csv.with_name("nothing").mkdir()
    with pytest.raises(FileNotFoundError, match="there are no files"):
        read(csv.with_name("nothing"))


def test_errors_of_tables_name_the_file(csv):
    with pytest.raises(ValueError, match=r"a.csv: id='idd' is not a column"):
        read(csv, id="idd")


def test_readings_can_be_read(tmp_path):
    path = put(tmp_path / "a.csv", "id,t,what,v\n1,0,hr,60\n1,1,temp,37\n2,0,hr,70\n")
    made = read(path, id="id", time="t", channel="what", value="v")
    assert made.channels == ("hr", "temp")
    pandas.read_csv(path).to_parquet(tmp_path / "a.parquet")
    assert_same(
        read(tmp_path / "a.parquet", id="id", time="t", channel="what", value="v", columns=["hr", "temp"]), made
    )


def test_arrays_in_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones((2, 3, 4)), y=np.array([0, 1]))
    made = read(path, order="NDT", target="y")
    assert made.num_channels == 3
    assert made.classes == ("0", "1")
    with pytest.raises(
        ValueError, match="the order of its axes is required: order='NTD' or order='NDT'; it holds 'x', 'y'"
    ):
        read(path)
    with pytest.raises(ValueError, match="target='z' is not an array; the arrays are 'x', 'y'"):
        read(path, order="NTD", target="z")
    with pytest.raises(ValueError, match="not written by Sequences.save"):
        load(path)


def test_pickles_are_never_loaded(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="not a valid .npz file: x.npy holds object"):
        read(path, order="NTD")


def test_saved_sequences_are_read_and_take_no_options(tmp_path):
    made = from_list([[1.0], [2.0]])
    made.save(tmp_path / "a.npz")
    assert_same(read(tmp_path / "a.npz"), made)
    with pytest.raises(ValueError, match="accepts no options, got 'order'"):
        read(tmp_path / "a.npz", order="NTD")
    with pytest.raises(ValueError, match="use that suffix"):
        made.save(tmp_path / "a.dat")


@pytest.mark.parametrize("place", range(10, 1500, 40))
def test_a_damaged_saved_file_is_refused_or_unharmed(tmp_path, place):
    made = from_list([[1.0, 2.0], [3.0]], times=[[0, 1], [5]], target=["a", "b"])
    path = made.save(tmp_path / "a.npz")
    whole = path.read_bytes()
    place %= len(whole)
    put(path, whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
    try:
        assert_same(load(path), made)
    except ValueError as error:
        assert "a.npz" in str(error)
    put(path, whole[:place])
    with pytest.raises(ValueError, match="not a valid .npz file"):
        load(path)


def test_a_newer_or_foreign_format_is_refused(tmp_path):
    path = from_list([[1.0]]).save(tmp_path / "a.npz")
    arrays = dict(np.load(path))
    content = bytes(arrays["json"]).decode()
    for old, new, message in (
        ('"version": 1', '"version": 9', "the file has version 9, but this chronode reads version 1"),
        ("chronode-sequences", "other", "no format 'chronode-sequences'"),
        ('"channels": ["x0"]', '"channels": ["x0", "x1"]', "do not match"),
    ):
        assert old in content
        np.savez(path, **{**arrays, "json": np.frombuffer(content.replace(old, new).encode(), dtype=np.uint8)})
        with pytest.raises(ValueError, match=f"a.npz.*{message}"):
            load(path)


def attempt(path, **options):
    """Reads; only the two clear errors may come, and they name the file or the argument."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(path, **options)
        except (ValueError, FileNotFoundError) as error:
            assert str(error)


PIECES = [
    *("id", "t", "x", "y", ",", ";", "\n", "\r\n", '"', "1", "2.5", "-3e9", "nan", "?", "", "2024-01-01", "T10:00Z"),
    *("@data", "@classLabel true a b", "@timestamps true", "@univariate false", ":", "(", ")", "a", "inf", "#"),
    *("\0", "|", "\t", "é"),
]
words = st.sampled_from(PIECES)
ROLES_OR_NOT = st.sampled_from([{}, {"id": "id"}, {"time": "t"}, {"id": "id", "time": "t", "target": "y"}])


@some
@given(st.lists(words, max_size=40).map("".join), st.sampled_from(["a.csv", "a.ts", "a.tsv"]), st.data())
def test_any_text_is_read_or_refused_clearly(tmp_path_factory, content, name, data):
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(content.encode())
    attempt(path, **(data.draw(ROLES_OR_NOT) if name != "a.ts" else {}))


@some
@given(st.lists(words, max_size=30).map("".join), ROLES_OR_NOT)
def test_any_table_is_read_or_refused_clearly(tmp_path_factory, content, roles):
    path = tmp_path_factory.mktemp("fuzz") / "a.csv"
    path.write_bytes(b"id,t,x,y\na,1,2,p\n" + content.encode())
    attempt(path, **roles)


@some
@given(st.binary(max_size=80), st.sampled_from(["a.csv", "a.ts", "a.parquet", "a.npz", "a.csv.gz", "a.csv.xz"]))
def test_any_bytes_are_read_or_refused_clearly(tmp_path_factory, content, name):
    path = tmp_path_factory.mktemp("fuzz") / name
    magic = {"a.parquet": b"PAR1", "a.npz": b"PK\x03\x04"}.get(name, b"")
    for head in {b"", magic}:
        path.write_bytes(head + content + (magic if name == "a.parquet" else b""))
        attempt(path)


@some
@given(st.data())
def test_damaged_files_are_read_or_refused_clearly(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    suffix = data.draw(st.sampled_from(["csv", "parquet", "npz", "ts"]))
    path = folder / f"a.{suffix}"
    if suffix == "csv":
        pandas.DataFrame(TABLE).to_csv(path, index=False)
    elif suffix == "parquet":
        pandas.DataFrame(TABLE).to_parquet(path)
    elif suffix == "npz":
        from_long(TABLE, **ROLES).save(path)
    else:
        path.write_text("@univariate false\n@classLabel true a b\n@data\n1,2:3,4:a\n5:6:b\n")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    attempt(path, **(ROLES if suffix in ("csv", "parquet") else {}))


def test_space_after_commas_is_removed(tmp_path):
    path = put(tmp_path / "a.csv", "id, t, x, y\na, 0, 1, p\na , 1, , p\nb, 0, 3, q\n")
    made = read(path, **ROLES)
    assert made.ids.tolist() == ["a", "b"]
    assert made.classes == ("p", "q")
    np.testing.assert_array_equal(made.values[:, 0], [1, np.nan, 3])
