import json
import subprocess
import sys

import pytest
import torch
from chronode_bench import scans, stream, stream_costs
from commands import run

from chronode.nn import create


def test_bench_times_single_steps(tmp_path):
    output = run(
        "bench", "--step", "--case", "irnn", "--repeats", "1", "--json", "--output", str(tmp_path / "steps")
    ).stdout
    rows = json.loads(output)
    assert [row["model"] for row in rows] == ["irnn", "sirnn"]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["stepper"] / row["lstm_cell"])
        assert row["step_ratio"] == pytest.approx(row["step"] / row["lstm_cell"])
        assert min(row["stepper"], row["step"], row["lstm_cell"]) > 0
    assert json.loads((tmp_path / "steps.json").read_text()) == rows
    assert "| sirnn |" in (tmp_path / "steps.md").read_text()


@pytest.mark.parametrize(("name", "settings"), scans.CELLS)
def test_the_scan_that_is_compared_with_is_the_layer(name, settings):
    torch.manual_seed(0)
    layer, x = create(name, 3, 4, **settings).double(), torch.randn(2, 77, 3).double()
    torch.testing.assert_close(scans.chunked_scan(layer, x), layer(x)[0])


def test_bench_times_linear_cells(monkeypatch, capsys):
    monkeypatch.setattr(scans, "TIME", 10)
    times = scans.time_scans("lru", 1, print)
    assert [one.gaps for one in times] == ["equal", "irregular"] and times[1].chunked is None
    assert times[0].ratios() == pytest.approx(
        (times[0].ours / times[0].products, times[0].chunked / times[0].ours, times[0].loop / times[0].ours)
    )
    assert "| lru | irregular |" in scans.as_markdown(times, "here")


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), "matches none of"), (("--step",), "matches no model"), (("--compiled",), "matches no model")],
)
def test_a_case_that_does_not_exist(options, expected):
    assert expected in run("bench", *options, "--case", "nothing like it", code=2).stderr


WITHOUT_A_CHECKOUT = """
from pathlib import Path
from chronode.system import _modules
_modules._CHECKOUT = Path("nowhere")
from chronode.cli import main
main()
"""


def test_an_installed_package_says_where_the_benchmarks_are():
    command = [sys.executable, "-c", WITHOUT_A_CHECKOUT, "bench", "--compiled", "--repeats", "3"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "git clone https://" in done.stderr and "make bench" in done.stderr


def test_the_rate_is_measured_both_ways():
    timings = stream.time_stream(1, ids=200, batch=64)
    assert [one.way for one in timings] == ["observe_many", "lines"]
    assert all(one.per_minute > 0 and (one.ids, one.batch) == (200, 64) for one in timings)
    assert stream.as_markdown(timings).count("1,000,000") == 2


def test_costs_are_measured_and_near_their_goals():
    """A busy machine gets five times the goals, which the first stream missed by twenty (0.3 ms: 5 to 7 ms)."""
    costs = stream_costs.measure_costs(stream.bench_model(), ids=20_000, events=400)
    assert len(costs) == 5 and stream_costs.as_markdown(costs).count("20,000 ids") == 3
    observe, invalid, saved, loaded, memory = ((cost.value, cost.goal) for cost in costs)
    assert 0 < observe[0] < 5 * observe[1] and 0 < invalid[0] < 2 * invalid[1]
    assert 0 < max(saved[0], loaded[0]) < 5 * saved[1] * 20_000 / 1_000_000
    assert 1 <= memory[0] <= memory[1]
