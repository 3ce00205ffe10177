"""A line of a ledger, for tests."""

from chronode.lab.experiments.ledger import Entry, run_hash


def entry(seed=0, recipe="mmrnn/table3", **changes):
    config = {"epochs": 3, "options": {"event": True}}
    options = {
        "recipe": recipe,
        "model": "mmrnn",
        "task": "bitstream",
        "protocol": "clean",
        "seed": seed,
        "budget": "smoke",
        "config": config,
        "config_hash": run_hash("mmrnn", "bitstream", "clean", seed, config),
        "data_hash": "abc",
        "commit": "0" * 40,
        "versions": {"torch": "2"},
        "machine": {"cores": 2},
        "metrics": {"test": {"accuracy": 0.5}},
        "parameters": 10,
        "epochs": 3,
        "steps": 30,
        "seconds": 1.5,
        "peak_memory": 100.0,
        "finished": "2026-01-01T00:00:00Z",
    }
    return Entry(**(options | changes))
