"""Text tables that are larger than memory: packed in pieces, with the series of the whole file."""

import gzip
import subprocess
import sys

import numpy as np
import pytest

from chronode.data import pack, read
from chronode.data._table_source import pieces

ROLES = {"id": "who", "time": "t", "target": "ill"}


def lines(count=400, seed=0):
    rng = np.random.default_rng(seed)
    for i in rng.permutation(count).tolist():
        who = i % 20
        yield {
            "who": f"{who}",
            "t": f"{i // 20}",
            "x": f"{rng.normal():.4f}",
            "note": f'"a, ""b""\n{i % 3}"',
            "ill": "yes" if who % 2 else "no",
        }


def write(path, rows, change=None, delimiter=","):
    rows = [row | (change(number, row) if change else {}) for number, row in enumerate(rows)]
    texts = [delimiter.join(row.values()) for row in rows]
    content = "\n".join([delimiter.join(rows[0]), *texts]) + "\n"
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
        file.write(content)
    return path


CHANGES = {
    "plain": None,
    "an id with a zero late": lambda number, row: {"who": "007"} if number == 390 else {},
    "times with fractions late": lambda number, row: {"t": "3.25"} if number == 395 else {},
    "an empty stretch": lambda number, row: {"x": ""} if number < 200 else {},
    "a class that is a number": lambda number, row: {"ill": str(int(row["who"]) % 2 + 1)},
    "a text among numbers": lambda number, row: {"x": "NA"} if number % 7 == 0 else {},
}


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("case", CHANGES)
def test_pieces_give_the_series_of_the_whole_file(tmp_path, monkeypatch, case, suffix):
    path = write(tmp_path / f"a{suffix}", lines(), CHANGES[case])
    monkeypatch.setattr(pieces, "__defaults__", (1500,))
    assert sum(1 for _ in pieces(path, {}, tmp_path)) > 5
    wanted = read(path, **ROLES, ignore=["note"])
    found = read(pack(path, tmp_path / "a.series", **ROLES, ignore=["note"]))
    assert found.ids.tolist() == wanted.ids.tolist() and found.lengths.tolist() == wanted.lengths.tolist()
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.times, wanted.times)
    assert found.target.values.tolist() == wanted.target.values.tolist() and found.classes == wanted.classes


def test_a_decimal_comma_of_the_first_piece_counts_for_all(tmp_path, monkeypatch):
    def change(number, row):
        return {"x": f"{number % 9},5" if number < 100 else "1,234", "note": "a"}

    path = write(tmp_path / "a.csv", lines(), change, ";")
    monkeypatch.setattr(pieces, "__defaults__", (1500,))
    found = read(pack(path, tmp_path / "a.series", **ROLES, ignore=["note"]))
    np.testing.assert_array_equal(found.values, read(path, **ROLES, ignore=["note"]).values)
    assert sum("decimal comma" in note for note in found.notes) == 1


def test_a_broken_line_in_a_later_piece_names_the_file(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", lines(), lambda number, row: {"note": "a,b,c"} if number == 350 else {"note": "a"})
    monkeypatch.setattr(pieces, "__defaults__", (1500,))
    with pytest.raises(ValueError, match=r"a\.csv.* has (7 cells instead of 5|more or fewer than 5 cells)"):
        pack(path, tmp_path / "a.series", **ROLES)
    assert not (tmp_path / "a.series").exists()


@pytest.mark.parametrize("content", ["# a\nx,y\n" + "1,2\n" * 99, "1,2\n" * 99, "x  y\n" + "1  2\n" * 99])
def test_special_tables_are_not_divided(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    assert list(pieces(tmp_path / "a.csv", {}, tmp_path, 20)) == [tmp_path / "a.csv"]


PACK = """
import resource, sys
from chronode.data import pack
pack(sys.argv[1], sys.argv[2], id="who", time="t", target="ill", memory="200MB")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_the_memory_of_packing_a_file_does_not_grow_with_it(tmp_path):
    """A file of 600 MB is packed with less than twice its size: reading it at once takes several times that."""
    path, block = tmp_path / "a.csv", np.random.default_rng(0).integers(0, 10**6, (200_000, 6))
    with path.open("w") as file:
        file.write("who,t,a,b,c,d,ill\n")
        text = "".join(f"{r[0] % 5000},{r[1]},{r[2]}.5,{r[3]}.5,{r[4]}.5,{r[5]}.5,{r[0] % 2}\n" for r in block.tolist())
        for _ in range(600_000_000 // len(text)):
            file.write(text)
    done = subprocess.run(
        [sys.executable, "-c", PACK, path, tmp_path / "a.series"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1100, done.stdout
