"""benchmarks/defaults.md and a table of docs/choosing.md have the figures of benchmarks/defaults.json."""

import importlib.util
import json
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def script():
    spec = importlib.util.spec_from_file_location("defaults", BENCHMARKS / "defaults.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_made_of_the_figures():
    found = json.loads((BENCHMARKS / "defaults.json").read_text())
    assert (BENCHMARKS / "defaults.md").read_text() == script().table(found)
    page = (BENCHMARKS.parent / "docs" / "choosing.md").read_text()
    assert f"<!-- defaults -->\n\n{script().short_table(found)}\n\n<!-- /defaults -->" in page


def test_versions_are_compared_with_the_same_seeds():
    row = {"chronode": [0.8, 0.9, 1.0], "chronode, irregular": [0.7, 0.9], "1-NN DTW": [0.6]}
    text = script().table({"ArrowHead": row})
    assert "chronode minus chronode, irregular: +5.0 points" in text and "chronode minus 1-NN DTW: +30.0 points" in text


def test_means_differences_and_numbers_of_runs():
    row = {"chronode": [0.8, 0.9], "1-NN DTW": [0.75], "MiniRocket": [None]}
    text = script().table({"ArrowHead": row, "wine": {"chronode": [1.0], "1-NN DTW": [0.95]}})
    assert "| ArrowHead | 0.85 | 0.75 | 2 |" in text and "| wine | 1 | 0.95 | 1 |" in text
    assert "chronode minus 1-NN DTW: +7.5 points over 2 data sets." in text and "MiniRocket" not in text
