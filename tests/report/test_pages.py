"""Plots and tables as text: well-formed and safe for any names and numbers."""

import math

import numpy as np
import pytest
from html_checks import ATTACK, check_html
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.report import pages

ANY = st.floats(allow_nan=True, allow_infinity=True)
TEXT = st.one_of(
    st.just(ATTACK), st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=0, max_size=30), TEXT, st.booleans())
def test_plots_are_well_formed_for_any_numbers_and_names(points, name, step):
    x, y, z = (np.array([point[place] for point in points]) for place in range(3))
    with np.errstate(all="ignore"):
        ends = pages.span(x), pages.span(y, z)
    if not all(map(math.isfinite, (*ends[0], *ends[1], ends[0][1] - ends[0][0], ends[1][1] - ends[1][0]))):
        return  # numbers that no axis can hold
    plot = pages.Plot(*ends, title=name, xlabel=name, ylabel=name)
    plot.line(x, y, name=name, dots=True, step=step)
    plot.dots(x, z, titles=[name] * len(x))
    plot.band(x, y, z, name=name)
    plot.upright(ends[0][0], name=name)
    plot.level(ends[1][1], name=name)
    check_html(str(plot))


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), st.integers(0, 1000))
def test_charts_are_well_formed_and_show_their_names(names, seed):
    values = np.random.default_rng(seed).normal(size=(len(names), len(names)))
    values[0, 0] = np.nan
    seen = check_html(pages.heat_map(values, names, names, title=names[0], xlabel=names[0]))
    check_html(pages.bar_chart(names, np.abs(values[0]).tolist(), names, title=names[0]))
    assert "alert(1)" not in seen or ATTACK in names


@given(TEXT)
def test_text_is_escaped_everywhere(text):
    made = pages.page(
        text,
        pages.cards({text: text}),
        {
            text: [
                pages.table([text, "b"], [[text, 1.5], [(text, 2), text]], numeric=["b"], sortable=True),
                pages.paragraph(text),
                pages.heading(text),
                pages.bullets([text]),
                pages.code(text),
                pages.details(text, pages.paragraph(text)),
                pages.figure(pages.bar_chart([text], [1.0], [text]), text),
            ]
        },
        foot=text,
    )
    seen = check_html(made)
    assert seen.count(text) >= 12
    assert "<script" not in made


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0, 1, 6), (-3, 5, 5), (1e-9, 5e-9, 5), (1e6, 9e6, 5), (0.61, 0.66, 3), (36.2, 36.4, 3)],
)
def test_ticks_are_round_lie_inside_and_are_enough(low, high, wanted):
    found = pages.ticks(low, high)
    assert 2 <= len(found) <= 7
    assert len(found) >= wanted - 1
    assert low - 1e-9 * abs(low) <= found[0] < found[-1] <= high * (1 + 1e-9)
    steps = np.diff(found)
    assert steps == pytest.approx(np.full(len(steps), steps[0]))


def test_a_thinned_line_keeps_its_highest_and_lowest_point():
    y = np.zeros(10_000)
    y[1234], y[8765] = 5.0, -5.0
    plot = pages.Plot((0, 10_000), (-5, 5))
    plot.line(np.arange(10_000), y)
    path = plot.marks[0]
    assert path.count("L") < 1_000
    heights = [float(part.split()[-1]) for part in path.split('"')[1].replace("M", "L").split("L")[1:]]
    assert (min(heights), max(heights)) == pytest.approx((plot.top, plot.height - plot.bottom), abs=0.1)


def test_a_line_is_broken_where_a_value_is_missing():
    plot = pages.Plot((0, 4), (0, 1))
    plot.line([0, 1, 2, 3, 4], [0, 1, np.nan, 1, 0])
    assert plot.marks[0].count("M") == 2
