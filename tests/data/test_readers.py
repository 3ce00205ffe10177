"""Own readers of files: the contract, the registry and the command line."""

import numpy as np
import pytest
from commands import chronode

from chronode.data import Reader, Sequences, from_list, read, register_reader
from chronode.data._readers import _registry, readers
from chronode.testing import check_reader

PLUGIN = """
from chronode.data import Reader, register_reader

@register_reader
class Lines(Reader):
    suffixes = (".lines",)

    def read(self, path, options):
        rows = [line.split() for line in path.read_text().splitlines()]
        return {name: [row[i] for row in rows] for i, name in enumerate(("who", "when", "x", "label"))}
"""


@pytest.fixture(autouse=True)
def registry_as_it_was():
    before = dict(readers())
    yield
    _registry.clear()
    _registry.update(before)


def put(path, text="1 2 3\n"):
    path.write_text(text)
    return path


def reader(**members) -> type[Reader]:
    return register_reader(type("Own", (Reader,), {"suffixes": (".own",), **members}))


def test_a_table_and_notes_become_series(tmp_path):
    class Own(Reader):
        suffixes = (".own",)
        options = ("gain",)

        def read(self, path, options):
            with self.open(path) as file:
                return {"x": [float(word) * options.get("gain", 1) for word in file.read().split()]}, ("multiplied.",)

    register_reader(Own)
    path = put(tmp_path / "a.own")
    s = read(path, gain=10)
    assert s.values[:, 0].tolist() == [10.0, 20.0, 30.0] and s.notes == ("multiplied.",)
    assert read(path, gain=10, columns=["x"], dtype="float64").values.dtype == np.float64
    with pytest.raises(ValueError, match=r"a.own: gian=... is not an option for this kind of data"):
        read(path, gian=10)
    check_reader(Own, path, gain=2.0)


def test_series_are_returned_as_they_are(tmp_path):
    def series(self, path, options):
        return from_list([[float(word) for word in path.read_bytes().split()]], channels=options.get("columns"))

    made = reader(read=series, columns=lambda self, path, options: None)
    assert read(put(tmp_path / "a.own"))[0].values[:, 0].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(AssertionError, match="reads_later_files: TypeError"):
        check_reader(reader(read=lambda self, path, options: from_list([[1.0]], **options)), tmp_path / "a.own")
    assert made.suffixes == (".own",) and isinstance(read(tmp_path / "a.own"), Sequences)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.feather", "a.xlsx"])
def test_the_readers_of_tables_keep_the_contract(tmp_path, name):
    import pandas

    frame = pandas.DataFrame({"who": list("aabb"), "t": [0, 1, 0, 2], "x": [1.5, 2.0, 3.0, 4.0]})
    path = tmp_path / name
    write = {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".feather": frame.to_feather, ".xlsx": frame.to_excel}
    if name == "a.jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        write[path.suffix](path, **({"index": False} if path.suffix in (".csv", ".xlsx") else {}))
    check_reader(type(readers()[path.suffix]), path, id="who", time="t")


def test_the_readers_of_series_keep_the_contract(tmp_path):
    path = put(tmp_path / "a.ts", "@univariate true\n@classLabel true a b\n@data\n1,2,3:a\n4,5:b\n")
    check_reader(type(readers()[".ts"]), path)
    np.save(tmp_path / "a.npy", np.zeros((2, 3, 4)))
    check_reader(type(readers()[".npy"]), tmp_path / "a.npy", order="NTD")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"read": lambda self, path, options: {"x": [len(path.name)]}}, "is_repeatable: a copy with another name"),
        (
            {"read": lambda self, path, options: {"x": [int(path.read_bytes()[0])]}, "columns": lambda *_: ["y"]},
            "names_",
        ),
        ({"read": lambda self, path, options: {"x": [1 / (path.read_bytes()[:1] == b"1")]}}, "gives ZeroDivisionError"),
        ({"read": lambda self, path, options: {"x": [1.0]}, "suffixes": (".own", ".OWN")}, "must be lower case"),
        ({"read": lambda self, path, options: options.clear() or {"x": [1.0], "y": [1.0]}}, "changes the options"),
    ],
)
def test_a_reader_that_breaks_the_contract_is_named(tmp_path, members, message):
    with pytest.raises(AssertionError, match=message):
        check_reader(reader(**members), put(tmp_path / "a.own"), missing_values=["-"])


def test_a_reader_that_is_not_registered_is_noticed(tmp_path):
    class Other(Reader):
        suffixes = (".csv",)

        def read(self, path, options):
            return {"x": [1.0]}

    with pytest.raises(AssertionError, match="add @register_reader to the class"):
        check_reader(Other, put(tmp_path / "a.csv", "x\n1\n2\n"))
    with pytest.raises(ValueError, match="files with the suffix .csv are read by Text already"):
        register_reader(Other)
    with pytest.raises(ValueError, match="Own.suffixes must be endings of files"):
        reader(suffixes=("own",))


def test_the_command_line_reads_own_files_by_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    rows = [f"s{i} {t} {(i % 2) * t} {'ab'[i % 2]}" for i in range(30) for t in range(4)]
    (tmp_path / "data.lines").write_text("\n".join(rows))
    columns = ("--target", "label", "--id", "who", "--time", "when", "--model", "gru", "--epochs", "1")
    chronode("train", "data.lines", *columns, "--plugin", "plugin.py", "-o", "run")
    chronode("predict", "run", "data.lines", "--plugin", "plugin.py", "-o", "scores.csv")
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 31
