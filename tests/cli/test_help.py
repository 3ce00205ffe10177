"""--help: every option has its panel, its default and an example."""

import dataclasses
import re

import pytest
from commands import chronode

from chronode._options import PANELS
from chronode.cli.flags import SECTIONS


def help_of(command):
    return " ".join(chronode(command, "--help").out.split())


@pytest.mark.parametrize("command", ["train", "compare", "sweep"])
def test_options_stand_in_panels(command):
    lines = chronode(command, "--help").out.splitlines()
    panels = [line[:-1] for line in lines if re.fullmatch(r"\w+:", line)]
    own = [panel for panel in PANELS if panel != "Workers" or command != "train"]
    assert panels == ["Arguments", *own]


@pytest.mark.parametrize("section", SECTIONS.values())
def test_every_default_and_example_is_shown(section):
    shown = help_of("train").replace("- ", "-")  # the terminal breaks lines at hyphens
    for field in dataclasses.fields(section):
        if "panel" not in field.metadata:
            continue
        assert f"example: {field.metadata['example']}]" in shown, field.name
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert f"default: {field.default}; example: {field.metadata['example']}]" in shown, field.name


def test_a_default_of_zero_is_shown():
    assert re.search(r"--weight-decay <float> .*? \[default: 0.0; example: 0.01\]", help_of("train"))
