"""Running what the ledger lacks on a Ray cluster; only the driver writes to the ledger."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from .engine import Finished, Job, execute
from .ledger import Entry, Ledger


def run_ray(
    jobs: Iterable[Job], ledger: Ledger, *, address: str | None = None, cores: float = 1, retries: int = 3
) -> Iterator[Finished]:
    """Farms the runs out, one core each; a run whose worker or machine is lost is made again elsewhere.

    Args:
        jobs: what to run.
        ledger: where finished runs go, as they finish.
        address: of a running cluster; None starts one on this machine.
        cores: that a run takes.
        retries: how often a run that was lost is made again.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("--engine ray needs Ray: pip install 'chronode[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    work = ray.remote(num_cpus=cores, max_retries=retries)(_work)
    try:
        waiting: dict[Any, Job] = {work.remote(job): job for job in jobs}
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            yield _result(ray, ready, waiting.pop(ready), ledger)
    finally:
        if started:
            ray.shutdown()


def _work(job: Job) -> dict[str, Any]:
    """On a worker: one run, with one thread since it has one core; as plain data."""
    import torch

    torch.set_num_threads(1)
    return asdict(execute(job))


def _result(ray: Any, ready: Any, job: Job, ledger: Ledger) -> Finished:
    try:
        entry = Entry(**ray.get(ready))
    except ray.exceptions.RayTaskError as error:
        return Finished(job, None, str(error.cause))
    except ray.exceptions.RayError as error:
        return Finished(job, None, f"its worker was lost: {error}")
    ledger.append(entry)
    return Finished(job, entry)
