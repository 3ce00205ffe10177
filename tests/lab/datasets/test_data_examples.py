"""The examples in docstrings and in docs/data.md run."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import chronode.data

NAMES = [module.name for module in pkgutil.iter_modules(chronode.data.__path__)]
DOCS = Path(__file__).parents[3] / "docs" / "data.md"


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_docstrings(name):
    assert doctest.testmod(importlib.import_module(f"chronode.data.{name}")).failed == 0


def test_examples_of_the_guide(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them writes files
    for example in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        exec(compile(example, str(DOCS), "exec"), {"__name__": "guide"})
    output = capsys.readouterr().out
    facts = "60 rows → 20 series, 3 observations each, median gap: 1 h, 1 channel (heart_rate), outcome: 2 classes"
    assert facts in output
    assert "time unit: hours (median gap ≈ 1)" in output
