"""The arguments of the estimators are as declared: signature, defaults, docstring and the table of the docs."""

import inspect
from pathlib import Path

import pytest
from sklearn.base import clone

from chronode.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
from chronode.estimators._arguments import COMMON, table
from chronode.runs import SECTIONS
from chronode.settings import help_texts

KINDS = (SequenceClassifier, SequenceRegressor, SequenceForecaster)


@pytest.mark.parametrize("kind", KINDS)
def test_the_signature_is_what_is_declared(kind):
    parameters = inspect.signature(kind).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == kind().get_params()
    assert [name for name, own in parameters.items() if own.kind is own.POSITIONAL_OR_KEYWORD] == ["model"]
    assert all(f"        {name}: " in (kind.__doc__ or "") for name in parameters)
    with pytest.raises(TypeError, match="hiden_size"):
        kind(hiden_size=3)
    changed = kind("gru", epochs=3)
    assert clone(changed).get_params() == changed.get_params() == {**kind().get_params(), "model": "gru", "epochs": 3}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_setting_has_one_default_and_one_text(section):
    plain, texts = SECTIONS[section](), help_texts(SECTIONS[section])
    for name in COMMON.keys() & SECTIONS[section].__dataclass_fields__.keys() - {"model", "settings", "order"}:
        assert COMMON[name].default == (getattr(plain, name) or None), name
        assert COMMON[name].text == texts[name]


def test_the_table_of_the_page_is_what_is_declared():
    page = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text()
    shown = page.partition("<!-- arguments -->\n")[2].partition("<!-- /arguments -->")[0]
    assert shown.strip() == table(COMMON)
