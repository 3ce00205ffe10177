"""PyPOTS on the splits of PhysioNet 2012: the page shows the results, the grids are hourly means. Needs no data."""

import json
import sys
from pathlib import Path

import numpy as np

from chronode.data import from_list

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "benchmarks" / "peers"
sys.path.insert(0, str(PEERS))

import physionet  # noqa: E402

RESULTS = json.loads((PEERS / "physionet.json").read_text())


def test_the_page_shows_the_results():
    shown = (PEERS / "physionet.md").read_text()
    assert shown == physionet.page(RESULTS)
    assert '--8<-- "benchmarks/peers/physionet.md"' in (ROOT / "docs" / "compared.md").read_text()
    for name, runs in RESULTS.items():
        row = next(line for line in shown.splitlines() if physionet.SUMMARIES.get(name, name) in line)
        assert f"{np.mean([run['auroc'] for run in runs]):.3f}" in row
        assert [run["split"] for run in runs] == list(range(len(runs)))


def test_hourly_means_are_means_of_the_readings_of_the_hour():
    rng = np.random.default_rng(0)
    hours = [np.sort(rng.uniform(0, 48, count)) for count in (5, 40, 200)]
    hours[1][-1] = 48.0
    readings = [np.where(rng.random((len(each), 2)) < 0.3, np.nan, rng.normal(size=(len(each), 2))) for each in hours]
    stays = from_list(readings, times=hours, unit=physionet.UNIT, target=[0, 1, 0])
    means = physionet.hourly_means(stays)
    assert means.shape == (3, 48, 2)
    for stay, (times, known) in enumerate(zip(hours, readings, strict=True)):
        for hour in range(48):
            inside = (times >= hour) & ((times < hour + 1) | (hour == 47))
            for channel in range(2):
                column = known[inside, channel]
                column = column[~np.isnan(column)]
                expected = column.mean() if len(column) else np.nan
                np.testing.assert_allclose(means[stay, hour, channel], expected, rtol=1e-4, atol=1e-6)
