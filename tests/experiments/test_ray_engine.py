"""Runs on a cluster of two nodes, one of which is lost in the middle."""

import time

import pytest

from chronode.experiments.engine import missing
from chronode.experiments.ledger import Ledger
from chronode.experiments.recipe import find


@pytest.fixture
def cluster():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster, lost
    ray.shutdown()
    cluster.shutdown()


def test_a_lost_node_loses_no_run_and_doubles_none(cluster, tmp_path):
    from chronode.experiments.ray_engine import run_ray

    cluster, lost = cluster
    ledger = Ledger(tmp_path)
    cells = find("mmrnn/table3").cells("smoke")
    jobs = missing([c for c in cells if c.model in ("mmrnn", "gru-d", "lstm-dt")], ledger)
    news = run_ray(jobs, ledger)
    finished = [next(news)]
    time.sleep(0.5)
    cluster.remove_node(lost, allow_graceful=False)
    finished += news
    assert all(item.entry for item in finished), [item.fault for item in finished]
    assert sorted(entry.config_hash for entry in ledger.entries()) == sorted(job.hash for job in jobs)
    assert len((tmp_path / "mmrnn-table3.jsonl").read_text().splitlines()) == len(jobs)
    assert missing(cells, ledger) and not missing([job.cell for job in jobs], ledger)
