"""The run folder: configuration, environment, progress and checkpoints, and its transfer between machines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..settings import one_of
from ..storage import (
    check_text,
    json_text,
    naming_errors,
    read_json,
    read_json_lines,
    replacing,
    sweep,
    sync,
    write_json,
)
from ..system import drawn
from ._checkpoints import Store
from ._environment import FolderLock, environment
from ._summary import OUTCOMES, Summary, read_summary

FORMAT = "chronode-run"
VERSION = 1
REPORT = "report.html"
"""File name of the report of a run."""

# Files that may be left if the creation was killed; "run.json" is written last, so without it nothing was trained.
_MADE_FIRST = {"config.json", "environment.json", "run.lock"}

Scalar = str | int | float | bool | None
Row = dict[str, int | float | list[int | float | None] | None]


@dataclass(frozen=True)
class _Head:
    """run.json."""

    format: str
    version: int
    command: list[str] | None = None


class Run:
    """Folder of one training; created by `Run.create`, opened by `Run.open`.

    Every file except the metrics is replaced atomically. The folder contains::

        run.json          format, version, command
        config.json       configuration
        environment.json  versions and machine
        metrics.jsonl     one line per epoch
        checkpoints/      state for resuming, see `Store`
        summary.json      result

    Attributes:
        path: The folder.
        config: Configuration as stored in JSON (tuples are lists).
        environment: See `chronode.runs._environment`.
        command: Words of the command line that created it, or None.

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

    def __init__(self, path: Path, command: list[str] | None):
        self.path = path
        self.command = command
        self.config: dict[str, Any] = self.load_json("config.json", dict[str, Any])
        self.environment: dict[str, Any] = self.load_json("environment.json", dict[str, Scalar])
        self.store = Store(path / "checkpoints")
        self._lock = FolderLock(path / "run.lock")

    @classmethod
    def create(cls, folder: str | Path, config: dict[str, Any], *, command: Sequence[str] | None = None) -> Run:
        """Creates the folder of a new run.

        Args:
            folder: Folder that is empty or does not exist.
            config: Configuration as plain data.
            command: Command line, for the record.

        Raises:
            ValueError: The folder is not empty, or the config cannot be written as JSON.
        """
        path = check_text(Path(folder), "folder")
        try:
            text = json.dumps(config, indent=1, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise ValueError(f"config cannot be written as JSON: {error}.") from error
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file, not a folder.")
        path.mkdir(parents=True, exist_ok=True)
        _refuse_used(path)  # before the lock file is created in a foreign folder
        with FolderLock(path / "run.lock").held():
            _refuse_used(path)  # again, because another process may have been faster
            _write(path / "config.json", text)
            write_json(path / "environment.json", environment())
            words = None if command is None else list(command)
            write_json(path / "run.json", {"format": FORMAT, "version": VERSION, "command": words})
        sync(path.parent)
        return cls(path, words)

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Opens the run in an existing folder.

        Raises:
            ValueError: The folder contains no run, or one of another version of chronode.
        """
        path = Path(folder)
        if not path.is_dir():
            raise ValueError(f"folder {path} does not exist.")
        if not (path / "run.json").is_file():
            raise ValueError(f"{path} is not a run folder: it has no run.json.")
        content = read_json(path / "run.json")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"{path} is not a run folder: its run.json does not have the format {FORMAT!r}.")
        if content.get("version") != VERSION:
            raise ValueError(
                f"{path} is a run folder of version {content.get('version')!r}, but this chronode reads version "
                f"{VERSION}: "
                "use the version of chronode in environment.json, or train again in a new folder."
            )
        head: _Head = read_json(path / "run.json", _Head)
        return cls(path, head.command)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the folder, so that only one process trains in it; a killed process releases it.

        An earlier summary is removed, since the run continues, and so are drafts left by a killed process.

        Raises:
            ValueError: Another process is training in the folder.
        """
        with self._lock.held():
            sweep(self.path)
            sweep(self.store.folder)
            (self.path / "summary.json").unlink(missing_ok=True)
            yield

    @property
    def status(self) -> str:
        """The status of the run.

        "running" while a process holds the lock; otherwise the status passed to `finish` ("finished", "stopped",
        "interrupted", "failed"); without a summary "interrupted", or "new" if no epoch was completed.
        """
        if self._lock.taken():
            return "running"
        if (summary := self.summary()) is not None:
            return summary.status
        begun = self.store.folder.is_dir() or self._metrics_file.is_file()
        return "interrupted" if begun else "new"

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Adds a line to metrics.jsonl; numbers that are not finite become null."""
        line = json_text(row, indent=None)
        self._drop_torn_line()
        with naming_errors(self._metrics_file):
            with self._metrics_file.open("a", encoding="utf-8") as file:
                file.write(line)
            sync(self._metrics_file)

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the lines of metrics.jsonl without an incomplete last line."""
        if not self._metrics_file.is_file():
            return []
        rows = []
        for place, row in read_json_lines(self._metrics_file, Row):
            if not isinstance(row.get("epoch", 0), int):
                raise ValueError(f"{place}: epoch must be a whole number, got {row['epoch']!r}.")
            rows.append(row)
        return rows

    def truncate_metrics(self, after_epoch: int) -> None:
        """Removes the lines of later epochs; resuming from a checkpoint writes them again."""
        if self._metrics_file.is_file():
            self.replace_metrics([row for row in self.metrics() if row.get("epoch", math.inf) <= after_epoch])

    def replace_metrics(self, rows: Iterable[dict[str, Any]]) -> None:
        """Rewrites all lines from a checkpoint: the process may have been killed between the checkpoint and its
        line.
        """
        _write(self._metrics_file, "".join(json_text(row, indent=None) for row in rows))

    def finish(self, summary: dict[str, Any]) -> None:
        """Writes summary.json: "status" is one of OUTCOMES; see `Summary` for the other fields that are read."""
        one_of("summary['status']", summary.get("status", "missing"), OUTCOMES)
        self.save_json("summary.json", summary)

    def summary(self) -> Summary | None:
        """Returns the content of summary.json; None if the run has not ended."""
        path = self.path / "summary.json"
        return read_summary(read_json(path, dict[str, Any]), str(path)) if path.is_file() else None

    def save_json(self, name: str, value: Any) -> None:
        """Writes a file of the folder atomically; numbers that are not finite become null."""
        write_json(self.path / name, value)

    def load_json(self, name: str, kind: Any = Any) -> Any:
        """Reads a file written by `save_json` as the type `kind` (see `chronode.storage._schema.parse`)."""
        return read_json(self.path / name, kind)

    def _repr_html_(self) -> str:
        return drawn("run_html", self)

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
    """Creates the next free folder parent/name-1, -2, ...; two processes never get the same one.

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
        taken = [int(match[1]) for path in home.iterdir() if (match := pattern.fullmatch(path.name))]
        path = home / f"{name}-{max(taken, default=0) + 1}"
        try:
            path.mkdir()
        except FileExistsError:
            continue  # another process was faster
        return path


def run_folders(parent: str | Path) -> list[Path]:
    """Returns the run folders in a folder by name, including damaged ones.

    Example:
        >>> import tempfile
        >>> parent = Path(tempfile.mkdtemp())
        >>> _ = Run.create(parent / "ltc-1", {"model": "ltc"})
        >>> [path.name for path in run_folders(parent)]
        ['ltc-1']
    """
    return sorted(marker.parent for marker in Path(parent).glob("*/run.json"))


def _refuse_used(path: Path) -> None:
    names = {item.name for item in path.iterdir()}
    if "run.json" in names:
        raise ValueError(f"{path} already contains a run: resume it with --resume {path}, or choose another folder.")
    if others := sorted(name for name in names - _MADE_FIRST if not name.startswith(".")):
        raise ValueError(f"{path} is not empty (it contains {others[0]}): choose a new or an empty folder for the run.")


def _write(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


_FIRST, _LAST = ("config.json", "environment.json", "run.json"), "summary.json"


def folder_files(folder: Path) -> dict[str, bytes]:
    """Returns the files of a run folder by relative path, without the lock file.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> write_folder({"run.json": b"{}", "checkpoints/0.json": b"[]"}, place / "run")
        >>> folder_files(place / "run")
        {'checkpoints/0.json': b'[]', 'run.json': b'{}'}
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "run.lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_folder(files: dict[str, bytes], folder: Path) -> None:
    """Writes a run folder; `summary.json` is written last, so that an incomplete run does not look finished.

    Raises:
        ValueError: A process is training in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder / "run.lock").held():
        (folder / _LAST).unlink(missing_ok=True)
        first = [name for name in _FIRST if name in files]
        others = [name for name in files if name not in (*_FIRST, _LAST)]
        for name in (*first, *others, *([_LAST] if _LAST in files else [])):
            with replacing(folder / name) as draft:
                draft.write_bytes(files[name])
