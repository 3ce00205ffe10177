"""The ledger: one JSON line per finished run, append-only; every reported number comes from it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._documents import parse_json, read_json_lines
from .._files import naming_errors, replacing


@dataclass(frozen=True)
class Entry:
    """A finished run.

    Attributes:
        recipe: the table it was run for, such as "mmrnn/table3".
        model: a name of the registry.
        task: a name of `chronode tasks`.
        protocol: "clean" or "paper".
        seed: of the weights, the order of batches and what the task draws.
        budget: "smoke", "laptop" or "paper".
        config: all that decides the outcome: the task's options, the model's and the training's settings.
        config_hash: of model, task, protocol, seed and config; two runs with the same one are the same run.
        data_hash: of the series that were trained and tested on.
        commit: of the code; with "+" behind it if files were changed.
        versions: of Python, torch and what else computes.
        machine: processor, cores, threads, kernels.
        metrics: part -> metric -> value.
        parameters: trained numbers.
        epochs: passes over the training data that were made.
        steps: optimiser steps that were taken.
        seconds: processor time of training, over all threads.
        peak_memory: of the process, in MiB.
        finished: when, UTC.
        notes: what is special about the data: "partial: ...".
    """

    recipe: str
    model: str
    task: str
    protocol: str
    seed: int
    budget: str
    config: dict[str, Any]
    config_hash: str
    data_hash: str
    commit: str
    versions: dict[str, str]
    machine: dict[str, Any]
    metrics: dict[str, dict[str, float]]
    parameters: int
    epochs: int
    steps: int
    seconds: float
    peak_memory: float
    finished: str
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.config_hash != run_hash(self.model, self.task, self.protocol, self.seed, self.config):
            raise ValueError("config_hash does not belong to this model, task, protocol, seed and config.")
        if "test" not in self.metrics or not self.metrics["test"]:
            raise ValueError("metrics must hold those of the test part.")


def run_hash(model: str, task: str, protocol: str, seed: int, config: Mapping[str, Any]) -> str:
    """What identifies a run, wherever and for whichever table it was made.

    Example:
        >>> run_hash("mmrnn", "bitstream", "clean", 0, {"epochs": 2, "batch_size": 8}) == run_hash(
        ...     "mmrnn", "bitstream", "clean", 0, {"batch_size": 8, "epochs": 2})
        True
    """
    told = json.dumps([model, task, protocol, seed, config], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


class Ledger:
    """The `*.jsonl` files of a folder, one per recipe.

    Lines are only ever added (except by `archive`), so that two branches' results merge by taking the lines of both;
    a run that is there already is not added again.

    Example:
        >>> import tempfile
        >>> Ledger(Path(tempfile.mkdtemp())).entries()
        []
    """

    def __init__(self, folder: Path | str = "results"):
        self.folder = Path(folder)

    def entries(self) -> list[Entry]:
        """All runs, each once; a line that is not a run is an error that names the file and the line."""
        found: dict[str, Entry] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for _, entry in read_json_lines(path, Entry):
                found.setdefault(entry.config_hash, entry)
        return list(found.values())

    def find(self, config_hash: str) -> Entry | None:
        """The run with this hash, if it was made."""
        return next((entry for entry in self.entries() if entry.config_hash == config_hash), None)

    def append(self, entry: Entry) -> bool:
        """Adds a run; False if it is there already. Several processes may do so at once."""
        with self._locked():
            if self.find(entry.config_hash) is not None:
                return False
            _add_line(self.folder / f"{entry.recipe.replace('/', '-')}.jsonl", asdict(entry))
        return True

    def archive(self, is_current: Callable[[Entry], bool]) -> int:
        """Moves the runs that are not current into the folder `archive`; gives how many were moved."""
        moved = 0
        with self._locked():
            for path in sorted(self.folder.glob("*.jsonl")):
                lines = _whole_lines(path.read_bytes())
                old = [line for line in lines if not is_current(parse_json(line, Entry, str(path)))]
                if not old:
                    continue
                place = self.folder / "archive" / path.name
                there = place.read_bytes() if place.exists() else b""
                # The archive first: a process that is killed in between leaves a run in both, never in none.
                _write_lines(place, [*there.splitlines(), *(line for line in old if line not in there.splitlines())])
                _write_lines(path, [line for line in lines if line not in old])
                moved += len(old)
        return moved

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _write_lines(path: Path, lines: list[bytes]) -> None:
    if not lines:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as draft:
        draft.write_bytes(b"".join(line + b"\n" for line in lines))


def _add_line(path: Path, told: dict[str, Any]) -> None:
    line = json.dumps(told, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    with naming_errors(path), open(path, "a+b") as file:
        file.seek(0)
        # A process killed while writing leaves half a line: it was never reported as done, so it goes.
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _whole_lines(content: bytes) -> list[bytes]:
    return content[: content.rfind(b"\n") + 1].splitlines()
