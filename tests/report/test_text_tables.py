import csv
import io

import pytest

from chronode.report import text_table

ROWS = [["a|b", "97.1 ± 0.3"], ['x_1, "y"', "50%"]]


def test_csv_is_read_back():
    text = text_table(["model", "accuracy"], ROWS, "csv")
    assert list(csv.reader(io.StringIO(text))) == [["model", "accuracy"], *ROWS]


def test_latex_escapes_its_signs():
    text = text_table(["model", "accuracy"], ROWS, "latex", numeric=["accuracy"])
    assert r"{lr}" in text and r"97.1 $\pm$ 0.3 \\" in text and r"x\_1" in text and r"50\%" in text


def test_markdown_escapes_bars():
    assert text_table(["model", "accuracy"], ROWS).splitlines()[2] == r"| a\|b | 97.1 ± 0.3 |"


def test_an_unknown_format():
    with pytest.raises(ValueError, match="latex"):
        text_table(["a"], [["b"]], "html")
