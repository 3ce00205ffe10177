"""The papers' figures: complete, consistent with each other and with the registry."""

from collections import Counter

import pytest

import chronode
from chronode.lab.experiments.summary import CANDIDATES
from chronode.lab.papers import numbers
from chronode.lab.tasks import tasks
from chronode.training._task import METRICS

ROWS = {  # rows of each table as printed, data set by data set
    ("mmrnn", "2"): 8,
    ("mmrnn", "3"): 28,
    ("mmrnn", "4"): 14,
    ("mmrnn", "5"): 14,
    ("mmrnn", "6"): 14,
    ("unicornn", "1"): 8,
    ("unicornn", "2"): 8,
    ("unicornn", "3"): 7,
    ("unicornn", "4"): 12,
    ("unicornn", "5"): 7,
    ("unicornn", "7"): 6,
    ("unicornn", "8"): 4,
    ("ltc", "2"): 12,
    ("ltc", "3"): 35,
    ("ltc", "4"): 5,
    ("ltc", "5"): 8,
    ("ltc", "6"): 5,
    ("irnn", "1"): 10,
    ("irnn", "2"): 8,
    ("irnn", "3"): 12,
    ("irnn", "7"): 16,
    ("irnn", "8"): 13,
    ("irnn", "9"): 51,
    ("irnn", "10"): 8,
    ("irnn", "11"): 6,
    ("irnn", "figure4"): 20,
    ("ernn", "3"): 71,
    ("ernn", "4"): 7,
    ("ernn", "5"): 6,
    ("beyond", "physionet2012"): 16,
    ("beyond", "one-bit"): 24,
    ("beyond", "spoken-digits"): 5,
    ("beyond", "pixels"): 8,
    ("beyond", "heart-rate"): 4,
    ("beyond", "lem"): 5,
}


def test_every_table_has_all_its_rows():
    assert Counter((f.paper, f.table) for f in numbers()) == ROWS


def test_models_and_tasks_are_ours_or_named_as_missing():
    for figure in numbers():
        assert figure.model in {*chronode.models(), *CANDIDATES, ""}, figure
        assert figure.task in tasks() or figure.task == "", figure
        if figure.task and figure.table != "2":
            assert figure.metric in METRICS, figure


def test_metrics_are_those_of_the_tasks():
    for figure in numbers():
        if figure.task and figure.metric != "computational depth":
            assert figure.metric == tasks()[figure.task].metric, figure


def test_a_cell_occurs_once():
    cells = Counter((f.paper, f.table, f.column, f.label, f.hidden, f.variant) for f in numbers())
    assert {cell: count for cell, count in cells.items() if count > 1} == {}


@pytest.mark.parametrize("unit, least, most", [("%", 5, 100), ("", 0, 1300)])
def test_numbers_are_in_range(unit, least, most):
    for figure in numbers():
        if figure.mean is None:
            assert figure.table.startswith("figure") or figure.paper == "beyond", figure
        elif figure.unit == unit:
            assert least <= figure.mean <= most, figure
            assert figure.spread is None or figure.spread >= 0


def test_ernn_repeats_what_irnn_repeats():
    """Both papers print the same table of activity recognition under two names."""
    irnn = {(f.column, f.label.replace("iRNN", "ERNN")): f.mean for f in numbers("irnn", "9")}
    ernn = {(f.column, f.label): f.mean for f in numbers("ernn", "3")}
    shared = irnn.keys() & ernn.keys()
    assert len(shared) == 40
    assert all(irnn[key] == ernn[key] for key in shared)


def test_the_same_number_in_two_tables_is_the_same():
    first = {(f.column, f.label): (f.mean, f.hours) for f in numbers("irnn", "1")}
    again = {(f.column, f.label): (f.mean, f.hours) for f in numbers("irnn", "7")}
    assert first.keys() <= again.keys()
    assert all(again[key] == value for key, value in first.items())
