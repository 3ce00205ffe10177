"""The ranges that are searched: of every model, of the papers, and as a user writes them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronode
from chronode.runs._config import Config
from chronode.search._ranges import PAPERS, Between, OneOf, applied, ranges_for, read_fixed, read_range


@pytest.mark.parametrize("name", [m.name for m in chronode.models().values() if m.cell.__module__.startswith("chron")])
def test_every_end_of_a_models_ranges_builds_it(name):
    for setting, found in ranges_for(name).items():
        for value in found.ends:
            config = applied(Config.from_dict({"model": {"model": name, "hidden": 4}}), {setting: value})
            assert config != Config.from_dict({"model": {"model": name, "hidden": 4}}) or value in (64, 32, "adam", 1)
            chronode.create(name, 2, config.model.hidden_size, config.model.num_layers or 1, **config.model.settings)


def test_unicornns_ranges_hold_all_winners_of_its_papers_search():
    winners = [  # Table 6: learning rate, dropout, batch size, Δt, α
        (3.14e-2, 0.1, 30, 0.126, 13.0),
        (1.14e-3, 0.1, 64, 0.482, 12.53),
        (2.51e-3, 0.1, 32, 0.19, 30.65),
        (1.67e-4, 0.61, 32, 0.205, 0.0),
        (8.59e-3, 0.0, 8, 3.43e-2, 0.0),
        (3.98e-3, 0.1, 32, 1.1e-2, 9.0),
        (2.88e-3, 0.1, 32, 4.6e-2, 10.0),
    ]
    ranges = ranges_for("unicornn")
    for name, values in zip(
        ("learning_rate", "dropout", "batch_size", "delta_t", "alpha"), zip(*winners, strict=True), strict=True
    ):
        low, *_, high = sorted(ranges[name].ends)
        assert low <= min(values) <= max(values) <= high, name


def test_papers_are_those_of_the_five():
    assert set(PAPERS) == {"unicornn", "mmrnn", "ltc", "irnn", "sirnn", "ernn"}


def test_the_page_tells_what_is_searched_and_its_example_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for name, space in PAPERS.items():
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert all(f"`{setting}`" in row for setting in space.ranges)
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    assert "Trial(number=" in capsys.readouterr().out


@given(st.floats(1e-6, 1e3), st.floats(1.001, 1e3), st.booleans())
def test_a_range_reads_back_what_was_written(low, factor, log):
    high = low * factor
    ending = ":log" if log else ""
    assert read_range(f"alpha={low!r}:{high!r}{ending}", "unicornn") == ("alpha", Between(low, high, log))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alpha=0:30", Between(0.0, 30.0)),
        ("K=1:5", Between(1, 5)),
        ("hidden_size=16,32", OneOf((16, 32))),
        ("learning_rate=1e-3", OneOf((0.001,))),
        ("optimizer=adam, sgd", OneOf(("adam", "sgd"))),
        ("bidirectional=true,False", OneOf((True, False))),
        ("rank=2,null", OneOf((2, None))),
    ],
)
def test_values_have_the_kind_of_the_setting(text, expected):
    name, found = read_range(text, "unicornn" if text.startswith("alpha") else "irnn")
    assert (name, found) == (text.partition("=")[0], expected)
    assert [type(value) for value in found.ends] == [type(value) for value in expected.ends]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delta_t", "must be NAME="),
        ("delta_t=", "must be NAME="),
        ("delta=1:2", "Did you mean 'delta_t'"),
        ("delta_t=2:1", "from a smaller to a larger"),
        ("delta_t=0:1:log", "must start above 0"),
        ("delta_t=1:2:3", "LOW:HIGH"),
        ("delta_t=a:2", "'a' is not a number"),
        ("hidden=1.5,2", "'1.5' is not a whole number"),
        ("optimizer=a:b", "LOW:HIGH"),
        ("train_c=1,2", "must be true or false"),
        ("epochs=1:5", "pass it as --epochs"),
    ],
)
def test_a_wrong_range_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        read_range(text, "unicornn")


def test_a_fixed_value_has_the_kind_of_the_setting():
    assert read_fixed("alpha=3", "unicornn") == ("alpha", 3.0)
    with pytest.raises(ValueError, match="--fix hidden=x: 'x' is not a whole number"):
        read_fixed("hidden=x", "unicornn")
