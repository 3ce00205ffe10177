"""JSON and YAML against types and limits: an error names the file and the field, and comes soon."""

import json
import time
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronode.model._model import SequenceModel
from chronode.model._spec import ModelSpec
from chronode.storage._documents import DEEPEST, parse_json, parse_yaml, read_json, read_json_lines, read_yaml
from chronode.storage._schema import JSON_BYTES, LAYERS, YAML_BYTES, Limit, parse


@dataclass(frozen=True)
class Point:
    x: float
    names: tuple[str, ...] = ()
    inner: "Point | None" = None


class Options(TypedDict, total=False):
    unit: str | float
    columns: list[str]


def test_a_dataclass_is_built_with_its_types():
    content = {"x": 1, "names": ["a"], "inner": {"x": 2.5}}
    assert parse(Point, content) == Point(1.0, ("a",), Point(2.5))
    assert isinstance(parse(Point, content).x, float)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Point, [], "it must be a mapping, got []"),
        (Point, {}, "x is missing"),
        (Point, {"x": 1, "y": 2}, "y is not a known field"),
        (Point, {"x": True}, "x must be a number, got True"),
        (Point, {"x": 10**30}, "x is a whole number with more than 64 bits"),
        (Point, {"x": 1, "names": "ab"}, "names must be a list, got 'ab'"),
        (Point, {"x": 1, "names": ["a", 2]}, "names[1] must be text, got 2"),
        (Point, {"x": 1, "names": ["\0"]}, "names[0] has characters that are not text"),
        (Point, {"x": 1, "inner": {"x": "b"}}, "inner.x must be a number, got 'b'"),
        (Options, {"unit": []}, "unit must be text or a number, got []"),
        (Options, {"column": []}, "column is not a known field. Did you mean 'columns'?"),
        (dict[str, int], {"a": 1.5}, "a must be a whole number, got 1.5"),
        (dict[str, int], {1: 1}, "it must be a mapping"),
        (list[int] | None, ["a"], "[0] must be a whole number"),
        (int | None, "a", "it must be a whole number or null, got 'a'"),
        (bool, 1, "it must be true or false, got 1"),
    ],
)
def test_what_does_not_fit_is_named(kind, value, message):
    with pytest.raises(ValueError) as caught:
        parse(kind, value)
    assert message in str(caught.value)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(plain, st.sampled_from([Point, Options, dict[str, float], tuple[int, ...], Point | None, str | float, bool]))
def test_any_plain_data_fit_or_are_a_value_error(value, kind):
    try:
        parse(kind, value)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("text", ["{", "[1,", '{"a": 1}x', "\udcff".encode("utf-8", "surrogateescape"), "nul", ""])
def test_invalid_json_is_reported_with_the_file(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=r"a\.json: this is not valid JSON \("):
        read_json(path)


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 5_000, 200_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_nesting_is_refused(tmp_path, depth, brackets):
    opening = '{"a":' * depth + "1" if brackets == "{}" else "[" * depth
    (tmp_path / "a.json").write_text(opening + brackets[1] * depth)
    with pytest.raises(ValueError, match=r"a\.json: .*nested"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.yaml").write_text("{a: " * depth + "1" + "}" * depth)
    with pytest.raises(ValueError, match=r"a\.yaml: "):
        read_yaml(tmp_path / "a.yaml")
    assert parse_json("[" * DEEPEST + "]" * DEEPEST, Any, "text")


def test_yaml_aliases_that_multiply_are_refused_soon():
    """Each line stands for ten of the line before: ten billion values in 300 bytes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    begun = time.monotonic()
    with pytest.raises(ValueError, match="bomb: this is not valid YAML .its aliases stand for more than"):
        parse_yaml("\n".join(lines), "bomb")
    merged = ["a0: &a0 {k: 1}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 10))]
    with pytest.raises(ValueError, match="bomb: this is not valid YAML .its aliases stand for more than"):
        parse_yaml("\n".join(merged), "bomb")
    with pytest.raises(ValueError, match="an alias contains itself"):
        parse_yaml("a: &a [*a]", "loop")
    assert time.monotonic() - begun < 5
    assert parse_yaml("a: &a [1, 2]\nb: *a", "fine") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    "text", ["!!timestamp x", "!!int ''", "!!bool x", "!!float ''", "2024-13-45", "!!binary x", "? [a]\n: b", "a: !x 1"]
)
def test_yaml_that_its_constructors_cannot_bear_is_refused(text):
    with pytest.raises(ValueError, match="^text: this is not valid YAML"):
        parse_yaml(text, "text")


def test_large_files_are_refused_before_they_are_parsed(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text(json.dumps(["x" * 100]))
    (tmp_path / "a.yaml").write_text("x" * 100)
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' + json.dumps(["x" * 100]) + "\n")
    for limit, read, name in ((JSON_BYTES, read_json, "a.json"), (YAML_BYTES, read_yaml, "a.yaml")):
        monkeypatch.setenv(limit.variable, "50")
        with pytest.raises(ValueError, match=f"{name}: more than 50 bytes. Set {limit.variable} to raise this limit."):
            read(tmp_path / name)
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: more than 50 bytes"):
        list(read_json_lines(tmp_path / "a.jsonl"))
    for limit in (JSON_BYTES, YAML_BYTES):
        monkeypatch.setenv(limit.variable, "500")
    assert read_json(tmp_path / "a.json") and read_yaml(tmp_path / "a.yaml")
    assert len(list(read_json_lines(tmp_path / "a.jsonl"))) == 2


@pytest.mark.parametrize("text", ["-1", "a lot", "1e3", "9" * 30])
def test_a_limit_that_is_not_a_whole_number_is_named(monkeypatch, text):
    monkeypatch.setenv("CHRONODE_MAX_X", text)
    with pytest.raises(ValueError, match="CHRONODE_MAX_X=.* must be a whole number"):
        _ = Limit("CHRONODE_MAX_X", 5).value


# ---- models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_layers": 10**6}, "num_layers=1,000,000 is more than 1,000. Set CHRONODE_MAX_LAYERS"),
        ({"num_layers": 900}, "the spec has 900 layers, but there are only"),
        ({"hidden_size": 10**5}, "this would create more than"),
        ({"hidden_size": 2**62}, "m.safetensors: "),
        ({"hidden_size": 9}, "m.safetensors: "),
        ({"input_size": 2**40}, "m.safetensors: "),
        ({"symbols": 2**50, "input_size": 1}, "this would create more than"),
        ({"settings": {"unknown": 1}}, "has no setting 'unknown'"),
        ({"settings": {"dropout": "much"}}, "dropout must be a number"),
        ({"settings": []}, "settings must be a mapping"),
        ({"hidden_size": "8"}, "m.json: hidden_size must be a whole number, got '8'"),
        ({"model": 3}, "m.json: model must be text, got 3"),
        ({"wheels": 4}, "m.json: wheels is not a known field"),
    ],
)
def test_a_spec_that_is_not_that_of_the_weights_costs_nothing(tmp_path, change, message):
    spec = ModelSpec("mmrnn", input_size=2, num_outputs=2, hidden_size=8)
    SequenceModel.build(spec).save(tmp_path / "m")
    (tmp_path / "m.json").write_text(json.dumps({**spec.as_dict(), **change}))
    begun = time.monotonic()
    with pytest.raises(ValueError) as caught:
        SequenceModel.load(tmp_path / "m")
    assert message in str(caught.value) and time.monotonic() - begun < 5
    assert len(str(caught.value).splitlines()) == 1


def test_the_limit_of_layers_can_be_raised(monkeypatch):
    monkeypatch.setenv(LAYERS.variable, "2000")
    assert ModelSpec("gru", 1, 1, hidden_size=2, num_layers=1500).num_layers == 1500
