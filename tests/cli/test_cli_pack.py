"""`chronode data pack` and `check`."""

from pathlib import Path

import pytest
from commands import chronode

ROLES = ("--id", "who", "--time", "t", "--target", "ill")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"p{i % 9},{i // 9},{i * 0.5},{'yes' if i % 9 > 4 else 'no'}" for i in range(90)]
    Path("a.csv").write_text("who,t,x,ill\n" + "\n".join(rows) + "\n")
    return Path("a.csv")


def test_a_store_is_written_checked_and_kept_up_to_date(table):
    done = chronode("data", "pack", table, "-o", "a.series", *ROLES)
    assert "90 rows, 9 series" in done.err
    assert chronode("data", "check", "a.series").out == "a.series: ok\n"
    before = Path("a.series/header.json").stat().st_mtime_ns
    assert "up to date" in chronode("data", "pack", table, "-o", "a.series", *ROLES).err
    assert Path("a.series/header.json").stat().st_mtime_ns == before
    table.write_text(table.read_text() + "p1,99,1,no\n")
    assert "--force" in chronode("data", "pack", table, "-o", "a.series", *ROLES, code=2).err
    assert "91 rows" in chronode("data", "pack", table, "-o", "a.series", *ROLES, "--force").err


def test_damage_is_an_exit_code(table):
    chronode("data", "pack", table, "-o", "a.series", *ROLES)
    content = bytearray(Path("a.series/times.npy").read_bytes())
    content[-1] ^= 1
    Path("a.series/times.npy").write_bytes(content)
    assert "times.npy" in chronode("data", "check", "a.series", code=1).out


def test_mistakes_are_answered(table):
    Path("other").mkdir()
    for words, part in (
        (("missing.csv", "-o", "a.series"), "missing.csv"),
        ((table, "-o", "other"), "is not a store"),
        ((table, "-o", "a.series", "--id", "whom"), "whom"),
        ((table, "-o", "a.series", "--table", "rows"), "DuckDB or SQLite"),
    ):
        assert part in chronode("data", "pack", *words, code=2).err
    assert "not a store" in chronode("data", "check", "other", code=2).err
    assert sorted(path.name for path in Path().iterdir()) == ["a.csv", "other"]
