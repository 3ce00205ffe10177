"""Summaries of series, and models that learn from them alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.data import from_list
from chronode.lab.experiments.jobs import TableJob, missing
from chronode.lab.experiments.ledger import Ledger
from chronode.lab.experiments.recipe import find_recipe
from chronode.lab.experiments.summary import CANDIDATES, STATISTICS, run_summary, summaries
from chronode.lab.tasks import Parts, Sizes, Task
from chronode.training import Objective
from chronode.training import _task as task_module


def ragged(seed, count=60):
    """Series of unequal length with holes; the second class has larger values in the first channel."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    series = [rng.normal([3.0 * label, 0.0, 0.0], size=(rng.integers(1, 9), 3)) for label in labels]
    for values in series:
        values[rng.random(values.shape) < 0.4] = np.nan
        values[:, 2] = np.nan
    return from_list(series, target=labels, classes=["no", "yes"])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_summaries_are_numpys(seed):
    s = ragged(seed, 7)
    found = summaries(s).reshape(7, 3, len(STATISTICS))
    for row, series in zip(found, s, strict=True):
        for channel, result in enumerate(row):
            seen = series.values[:, channel][~np.isnan(series.values[:, channel])].astype(float)
            assert result[-1] == len(seen)
            if len(seen):
                wanted = [seen[0], seen[-1], seen.mean(), seen.std(), seen.min(), seen.max()]
                np.testing.assert_allclose(result[:-1], wanted, rtol=1e-5, atol=1e-6)
            else:
                assert np.isnan(result[:-1]).all()


@pytest.fixture
def task(monkeypatch):
    parts = [ragged(seed, 120) for seed in range(3)]
    made = Task(
        "physionet-2012", "", lambda protocol, seed: Parts(*parts), Sizes(1, 1, 1, 1, 3), "cross_entropy", "auroc",
        {"clean": "", "paper": ""}, more_metrics=("auprc", "min_se_ppv"),
    )  # fmt: skip
    monkeypatch.setitem(task_module._tasks, "physionet-2012", made)
    return made


@pytest.mark.parametrize("name", sorted(CANDIDATES))
def test_what_the_values_tell_is_learned(task, name):
    parts = task.load()
    found = run_summary(name, parts, Objective.for_task(task, parts.train), seed=0)
    assert found.metrics["test"]["auroc"] > 0.9
    assert set(found.metrics) == {"valid", "test"}
    assert set(found.metrics["test"]) == {"auroc", "auprc", "min_se_ppv"}


def test_they_stand_in_the_ledger_beside_the_networks(task, tmp_path):
    cells = [c for c in find_recipe("beyond/physionet2012").cells("smoke") if c.model in ("gru", "logistic-regression")]
    (job,) = missing(cells, Ledger(tmp_path))
    assert isinstance(job, TableJob)
    entry = job.execute()
    assert (entry.model, entry.steps, entry.config["training"]) == ("logistic-regression", 0, {})
    assert entry.parameters == 2 * len(STATISTICS) + 2  # the third channel is never read: only its 0 readings count
