"""The run folder: what was asked, what it ran on, how it went, and where to go on after a kill."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._checks import one_of
from .._files import naming_full_disk, replacing, sync
from .environment import environment
from .lock import FolderLock
from .store import Store

FORMAT = "chronode-run"
VERSION = 1
OUTCOMES = ("finished", "stopped", "interrupted", "failed")

# What a creation that was killed can leave; "run.json" comes last, so without it nothing was trained.
_MADE_FIRST = {"config.json", "environment.json", "run.lock"}


class Run:
    """A folder that holds one training; made by `Run.create`, found again by `Run.open`.

    Every file but the metrics is replaced whole. The folder holds::

        run.json          format, version, command
        config.json       what was asked
        environment.json  what it ran on
        metrics.jsonl     one line per epoch
        checkpoints/      where to go on, see `Store`
        summary.json      how it ended

    Attributes:
        path: the folder.
        config: what was asked, as JSON holds it (tuples are lists).
        environment: see `chronode.training.environment`.
        command: the words of the command line that made it, or None.

    Example:
        >>> import tempfile
        >>> run = Run.create(Path(tempfile.mkdtemp()) / "first", {"model": "mmrnn"})
        >>> with run.lock():
        ...     run.append_metrics({"epoch": 1, "loss": 0.5})
        ...     run.finish({"status": "finished", "best_epoch": 1})
        >>> again = Run.open(run.path)
        >>> again.status, again.config, again.metrics()
        ('finished', {'model': 'mmrnn'}, [{'epoch': 1, 'loss': 0.5}])
    """

    def __init__(self, path: Path, told: dict[str, Any]):
        self.path = path
        self.command: list[str] | None = told.get("command")
        self.config: dict[str, Any] = self.load_json("config.json")
        self.environment: dict[str, Any] = self.load_json("environment.json")
        self.store = Store(path / "checkpoints")
        self._lock = FolderLock(path / "run.lock")

    @classmethod
    def create(cls, folder: str | Path, config: dict[str, Any], *, command: Sequence[str] | None = None) -> Run:
        """Makes the folder of a new run.

        Args:
            folder: must be empty or not exist.
            config: what was asked; plain data.
            command: the command line, to be told again.

        Raises:
            ValueError: the folder holds a run or anything else, or JSON cannot hold the config.
        """
        path = Path(folder)
        try:
            text = json.dumps(config, indent=1, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise ValueError(f"config cannot be written as JSON: {error}.") from error
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file: name a folder for the run.")
        path.mkdir(parents=True, exist_ok=True)
        _refuse_used(path)  # before the lock leaves its file in a folder that is not ours
        with FolderLock(path / "run.lock").held():
            _refuse_used(path)  # again, for another process may have been faster
            _write(path / "config.json", text)
            _write(path / "environment.json", _json(environment()))
            told = {"format": FORMAT, "version": VERSION, "command": command and list(command)}
            _write(path / "run.json", _json(told))
        sync(path.parent)
        return cls(path, told)

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """The run in an existing folder.

        Raises:
            ValueError: there is no run, or one of another version of chronode.
        """
        path = Path(folder)
        if not path.is_dir():
            raise ValueError(f"there is no folder {path}.")
        if not (path / "run.json").is_file():
            raise ValueError(f"{path} is no run folder: it has no run.json.")
        told = _read_json(path / "run.json")
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise ValueError(f"{path} is no run folder: its run.json does not say format {FORMAT!r}.")
        if told.get("version") != VERSION:
            raise ValueError(
                f"{path} is a run folder of version {told.get('version')!r}, this chronode reads version {VERSION}: "
                "use the chronode that made it (environment.json names it) or train again into a new folder."
            )
        return cls(path, told)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Only one process trains into the folder; a kill frees it.

        A summary from before is removed, since the run is going on.

        Raises:
            ValueError: another process is training into it.
        """
        with self._lock.held():
            (self.path / "summary.json").unlink(missing_ok=True)
            yield

    @property
    def status(self) -> str:
        """How it stands.

        "running" while a process holds the lock; else what `finish` was told ("finished", "stopped",
        "interrupted", "failed"); without a word from it "interrupted", or "new" if not an epoch was done.
        """
        if self._lock.taken():
            return "running"
        if (self.path / "summary.json").is_file():
            return self.load_json("summary.json")["status"]
        begun = self.store.folder.is_dir() or self._metrics_file.is_file()
        return "interrupted" if begun else "new"

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Adds a line to metrics.jsonl; numbers that are not finite become null, for JSON has none."""
        line = _line(row)
        self._drop_torn_line()
        with naming_full_disk(self._metrics_file):
            with self._metrics_file.open("a", encoding="utf-8") as file:
                file.write(line)
            sync(self._metrics_file)

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; one that a kill cut short is left out."""
        if not self._metrics_file.is_file():
            return []
        rows = []
        # What follows the last line break is empty, or torn.
        for number, line in enumerate(self._metrics_file.read_bytes().split(b"\n")[:-1], start=1):
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{self._metrics_file}, line {number}: this is no JSON ({error}).") from error
        return rows

    def truncate_metrics(self, after_epoch: int) -> None:
        """Drops the lines of later epochs, and those of none; training on from a checkpoint writes them again."""
        if self._metrics_file.is_file():
            self.replace_metrics([row for row in self.metrics() if row.get("epoch", math.inf) <= after_epoch])

    def replace_metrics(self, rows: Iterable[dict[str, Any]]) -> None:
        """Writes all lines anew, as a checkpoint knows them: a kill may have come between it and its line."""
        _write(self._metrics_file, "".join(map(_line, rows)))

    def finish(self, summary: dict[str, Any]) -> None:
        """Writes summary.json: "status" is one of OUTCOMES; scores, seconds and the like are up to the caller."""
        one_of("summary['status']", summary.get("status", "missing"), OUTCOMES)
        self.save_json("summary.json", summary)

    def save_json(self, name: str, value: Any) -> None:
        """Writes a file of the folder whole; numbers that are not finite become null."""
        _write(self.path / name, _json(value))

    def load_json(self, name: str) -> Any:
        """Reads what `save_json` wrote."""
        return _read_json(self.path / name)

    @property
    def _metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    def _drop_torn_line(self) -> None:
        if self._metrics_file.is_file():
            content = self._metrics_file.read_bytes()
            if content and not content.endswith(b"\n"):
                with self._metrics_file.open("r+b") as file:
                    file.truncate(content.rfind(b"\n") + 1)


def next_folder(parent: str | Path, name: str) -> Path:
    """Makes the next free folder parent/name-1, -2, ...; two processes never get the same one.

    Example:
        >>> import tempfile
        >>> parent = tempfile.mkdtemp()
        >>> [next_folder(parent, "ltc").name for _ in range(2)]
        ['ltc-1', 'ltc-2']
    """
    home = Path(parent)
    home.mkdir(parents=True, exist_ok=True)
    pattern = re.compile(re.escape(name) + r"-(\d+)")
    while True:
        taken = [int(found[1]) for path in home.iterdir() if (found := pattern.fullmatch(path.name))]
        path = home / f"{name}-{max(taken, default=0) + 1}"
        try:
            path.mkdir()
        except FileExistsError:
            continue  # another process was faster
        return path


def runs(parent: str | Path) -> list[Run]:
    """The runs in a folder, oldest first; warns about those that cannot be opened."""
    found = []
    for marker in Path(parent).glob("*/run.json"):
        try:
            found.append(Run.open(marker.parent))
        except ValueError as error:
            warnings.warn(str(error), stacklevel=2)
    return sorted(found, key=lambda run: (run.environment.get("started", ""), run.path.name))


def _refuse_used(path: Path) -> None:
    names = {item.name for item in path.iterdir()}
    if "run.json" in names:
        raise ValueError(f"{path} holds a run already: go on with it by --resume {path}, or name another folder.")
    if others := sorted(name for name in names - _MADE_FIRST if not name.startswith(".")):
        raise ValueError(f"{path} is not empty ({others[0]} is in it): name a new or an empty folder for the run.")


def _json(value: Any) -> str:
    return json.dumps(_finite(value), indent=1, allow_nan=False) + "\n"


def _line(row: dict[str, Any]) -> str:
    return json.dumps(_finite(row), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The same with None for NaN and infinities."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"there is no {path}.") from error
    except ValueError as error:
        raise ValueError(f"{path}: this is no JSON ({error}).") from error
