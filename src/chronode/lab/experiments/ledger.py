"""The ledger: one JSON line per finished run, append-only; the source of all reported numbers."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...storage import fingerprint, naming_errors, parse_json, read_json_lines, replacing


@dataclass(frozen=True)
class Entry:
    """A finished run.

    Attributes:
        recipe: Table for which it was run, such as "mmrnn/table3".
        model: Registered name.
        task: Name of the task.
        protocol: "clean" or "paper".
        seed: Random seed of weights, batch order and synthetic data.
        budget: "smoke", "laptop", "long" or "paper".
        config: Everything that determines the result: options of the task, settings of model and training.
        config_hash: Hash of model, task, protocol, seed and config; it identifies the run.
        data_hash: Hash of the training and test series.
        commit: Commit of the code, followed by "+" if files were changed.
        versions: Versions of Python, torch and other libraries.
        machine: CPU, cores, threads, kernels.
        metrics: Part -> metric -> value.
        parameters: Number of trained parameters.
        epochs: Number of passes over the training data.
        steps: Number of optimizer steps.
        seconds: CPU time of training, over all threads.
        peak_memory: Peak memory of the process in MiB.
        finished: End of the run, UTC.
        notes: Remarks about the data: "partial: ...".
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
            raise ValueError("config_hash does not match model, task, protocol, seed and config.")
        if "test" not in self.metrics or not self.metrics["test"]:
            raise ValueError("metrics must contain the test part.")


def run_hash(model: str, task: str, protocol: str, seed: int, config: Mapping[str, Any]) -> str:
    """Returns the hash that identifies a run, independent of machine and table.

    Example:
        >>> run_hash("mmrnn", "bitstream", "clean", 0, {"epochs": 2, "batch_size": 8}) == run_hash(
        ...     "mmrnn", "bitstream", "clean", 0, {"batch_size": 8, "epochs": 2})
        True
    """
    return fingerprint([model, task, protocol, seed, config])


class Ledger:
    """The `*.jsonl` files of a folder, one per recipe.

    Lines are only appended (except by `archive`), so that the results of two branches merge by keeping the lines of
    both; a run that already exists is not added again.

    Example:
        >>> import tempfile
        >>> Ledger(Path(tempfile.mkdtemp())).entries()
        []
    """

    def __init__(self, folder: Path | str = "results"):
        self.folder = Path(folder)

    def entries(self) -> list[Entry]:
        """Returns all runs, each once; an invalid line is an error that names the file and the line.

        The metrics of a run that was made on several machines are the means over the machines.
        """
        runs: dict[str, dict[str, Entry]] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for _, entry in read_json_lines(path, Entry):
                runs.setdefault(entry.config_hash, {}).setdefault(str(entry.machine.get("cpu")), entry)
        return [_mean(list(machines.values())) for machines in runs.values()]

    def find(self, config_hash: str) -> Entry | None:
        """Returns the run with this hash, if it exists."""
        return next((entry for entry in self.entries() if entry.config_hash == config_hash), None)

    def append(self, entry: Entry) -> bool:
        """Adds a run; returns False if it already exists. Several processes may do so at once."""
        with self._locked():
            if self.find(entry.config_hash) is not None:
                return False
            _add_line(self.folder / f"{entry.recipe.replace('/', '-')}.jsonl", asdict(entry))
        return True

    def archive(self, is_current: Callable[[Entry], bool]) -> int:
        """Moves the runs that are not current to the folder `archive`; returns their number."""
        moved = 0
        with self._locked():
            for path in sorted(self.folder.glob("*.jsonl")):
                lines = _whole_lines(path.read_bytes())
                old = [line for line in lines if not is_current(parse_json(line, Entry, str(path)))]
                if not old:
                    continue
                target = self.folder / "archive" / path.name
                there = target.read_bytes() if target.exists() else b""
                # The archive is written first: a killed process leaves a run in both files, never in none.
                _write_lines(target, [*there.splitlines(), *(line for line in old if line not in there.splitlines())])
                _write_lines(path, [line for line in lines if line not in old])
                moved += len(old)
        return moved

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _mean(runs: list[Entry]) -> Entry:
    """Returns the first of equal runs on several machines, with the means of the metrics that all of them have."""
    first, *others = runs
    if not others:
        return first
    metrics = {
        part: {
            name: sum(run.metrics[part][name] for run in runs) / len(runs)
            for name in values
            if all(name in run.metrics.get(part, {}) for run in others)
        }
        for part, values in first.metrics.items()
    }
    return replace(first, metrics={part: values for part, values in metrics.items() if values})


def _write_lines(path: Path, lines: list[bytes]) -> None:
    if not lines:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as draft:
        draft.write_bytes(b"".join(line + b"\n" for line in lines))


def _add_line(path: Path, entry: dict[str, Any]) -> None:
    line = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    with naming_errors(path), open(path, "a+b") as file:
        file.seek(0)
        # A process killed while writing leaves an incomplete line, which was never reported and is removed.
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _whole_lines(content: bytes) -> list[bytes]:
    return content[: content.rfind(b"\n") + 1].splitlines()
