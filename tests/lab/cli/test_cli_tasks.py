import json

import pytest
from commands import run

from chronode.lab.cli.tasks import as_markdown
from chronode.lab.tasks import find_task, tasks

NAMED = [
    "bitstream",
    "adding",
    "copy",
    "lorenz96",
    "circle",
    "smnist",
    "psmnist",
    "row-mnist",
    "event-mnist",
    "noisy-mnist",
    "noisy-cifar",
    "person-activity",
    "har",
    "har-2",
    "gesture",
    "occupancy",
    "traffic",
    "power",
    "ozone",
    "walker2d",
    "half-cheetah",
    "eigenworms",
    "bidmc-rr",
    "bidmc-hr",
    "imdb",
    "ptb",
    "google-12",
    "google-30",
    "dsa-19",
    "yelp-5",
    "digits-event",
    "digits-seq",
]


def test_every_task_of_the_papers_is_listed_with_its_sizes():
    rows = {row["name"]: row for row in json.loads(run("tasks", "--json").stdout)}
    assert set(NAMED) <= set(rows)
    for name, row in rows.items():
        assert min(row["train"], row["valid"], row["test"], row["steps"], row["channels"]) > 0, name
        assert row["what"] and set(row["protocols"]) == {"clean", "paper"}, name


def test_the_table_names_the_tasks():
    assert "bitstream" in run("tasks").stdout


def test_show_tells_sizes_and_draws(tmp_path):
    output = run("tasks", "show", "bitstream", "--option", "train=50", "--output", str(tmp_path)).stdout
    assert "50 series" in output
    assert (tmp_path / "bitstream.html").read_text().count("<svg") == 3


def test_show_as_json(tmp_path):
    arguments = ("bitstream", "--option", "train=50", "--option", "event=false", "--json", "--output", str(tmp_path))
    output = json.loads(run("tasks", "show", *arguments).stdout)
    assert output["parts"]["train"]["series"] == 50
    assert output["metric"] == "accuracy"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("bitsream",), "Did you mean 'bitstream'"),
        (("bitstream", "--option", "trian=3"), "Did you mean 'train'"),
        (("bitstream", "--option", "train"), "NAME=VALUE"),
        (("bitstream", "--option", "train=many"), "'many' must have the type of the default"),
        (("bitstream", "--protocol", "dirty"), "--protocol dirty"),
    ],
)
def test_a_mistake_is_named(arguments, expected):
    done = run("tasks", "show", *arguments, code=2)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_options_take_the_type_of_their_default():
    assert find_task("bitstream").read_options(["event=false", "train=7"]) == {"event": False, "train": 7}


def test_the_documentation_has_the_table():
    from pathlib import Path

    assert as_markdown() in (Path(__file__).parents[3] / "docs" / "tasks.md").read_text(), (
        "put what `chronode tasks --markdown` prints into docs/tasks.md"
    )


def test_tasks_are_what_they_say():
    for task in tasks().values():
        assert not task.what.endswith((".", "?")) and len(task.what) <= 100, task.name
