"""docs/files.md stays true: every file on the page is written and read, and gives the line that stands there."""

import re
from pathlib import Path

import numpy as np

from chronode.data import _formats
from chronode.data._dates import format_of_numbers, formats_of_text
from chronode.data._readers import readers

GUIDE = Path(__file__).parents[2] / "docs" / "files.md"
BLOCKS = re.compile(
    r"(?:^`([\w.]+)`(?: \(with tabs\))?\n\n)?^```(text|tsv|python)\n(.*?)^```", re.MULTILINE | re.DOTALL
)


def test_every_example_of_the_guide_gives_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    files = checked = 0
    for name, kind, block in BLOCKS.findall(GUIDE.read_text()):
        if kind == "python":
            names.pop("s", None)
            exec(compile(block, str(GUIDE), "exec"), names)
        elif name:
            (tmp_path / name).write_text(block)
            files += 1
        else:
            assert f"{names['s'].describe()}\n" == block
            checked += 1
    assert (files, checked) == (7, 8)


def test_the_guide_lists_every_suffix():
    table = GUIDE.read_text().partition("## Other kinds of files")[2]
    suffixes = [suffix for suffix, reader in readers().items() if type(reader).__module__ == _formats.__name__]
    missing = [suffix for suffix in suffixes if suffix and f"`{suffix}`" not in table]
    assert "no suffix" in table
    assert missing == [".ipc", ".xlsm"]  # other names for .arrow and .xlsx


def test_the_guide_names_every_format_that_it_says_is_found():
    table = GUIDE.read_text().partition("## Dates")[2].partition("`co2.csv`")[0]
    rows = re.findall(r"^\| (`.*?) \| (`.*?) \|$", table, re.MULTILINE)
    assert len(rows) == 8
    for left, right in rows:
        for text, expected in zip(re.findall(r"`(.*?)`", left), re.findall(r"`(.*?)`", right), strict=True):
            if text.isdigit():
                step = {6: 100, 8: 1}.get(len(text), 1)
                assert format_of_numbers(np.array([int(text), int(text) + step])) == expected
            else:
                assert expected in formats_of_text(text)
