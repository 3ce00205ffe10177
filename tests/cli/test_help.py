"""--help: every option has its panel, its default and an example."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from commands import chronode
from typer.core import TyperOption

from chronode.cli.app import app
from chronode.cli.flags import SECTIONS
from chronode.settings._settings import PANELS


def help_of(command):
    return " ".join(chronode(command, "--help").out.split())


@pytest.mark.parametrize("command", ["train", "compare", "sweep"])
def test_options_stand_in_panels(command):
    lines = chronode(command, "--help").out.splitlines()
    panels = [line[:-1] for line in lines if re.fullmatch(r"\w+:", line)]
    own = [panel for panel in PANELS if panel != "Search" or command != "train"]
    assert panels == ["Arguments", "Basics", *own]


def test_the_options_of_a_first_run_come_first():
    basics = chronode("train", "--help").out.partition("Basics:")[2].partition("\nData:")[0]
    options = ["target", "forecast", "id", "time", "static", "test", "model", "epochs", "output"]
    assert re.findall(r"^  (?:-\w, )?--([\w-]+)", basics, re.MULTILINE) == options


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
    assert re.search(r"--momentum <float> .*? \[default: 0.0; example: 0.9\]", help_of("train"))


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


@pytest.mark.parametrize(
    ("words", "command"),
    [pytest.param(*found, id=" ".join(found[0])) for found in commands(typer.main.get_command(app))],
)
def test_every_option_with_a_value_shows_its_default_or_an_example(words, command):
    silent = [
        option.opts[0]
        for option in command.params
        if isinstance(option, TyperOption) and not option.is_flag
        if not (option.show_default and option.default not in (None, "", (), [])) and "[" not in (option.help or "")
    ]
    assert not silent, f"chronode {' '.join(words)} --help: no default and no example for {silent}"


def test_options_are_found():
    assert (
        sum(
            isinstance(option, TyperOption)
            for _, each in commands(typer.main.get_command(app))
            for option in each.params
        )
        > 200
    )


@pytest.mark.parametrize(
    ("words", "group"),
    [
        pytest.param(*found, id=" ".join(found[0]))
        for found in commands(typer.main.get_command(app))
        if hasattr(found[1], "commands")
    ],
)
def test_summaries_of_commands_are_not_cut(words, group, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = chronode(*words, "--help").out.partition("Commands:")[2].splitlines()
    assert len(lines) > len(group.commands)
    assert not [line for line in lines if line.endswith("...")]


def test_help_names_options_instead_of_arguments():
    assert "times `--drop-factor` after each of `--drop-epochs`" in help_of("train")
    assert not re.search(r"`\w+_\w+`", help_of("train"))


def test_summaries_are_the_first_lines_of_the_commands():
    lazy = typer.main.get_command(app).commands
    assert lazy.summaries == {name: command.get_short_help_str(200) for name, command in lazy.items()}
