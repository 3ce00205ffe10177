"""Scoring in chunks: predictions of a store, a Parquet file per chunk, by many workers; resumable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Sequences, database_of, is_store, made_from, pack, state_of
from ..runs import load, prediction_columns, series_of, write_table
from ..storage import fingerprint, hash_of, read_json, write_json
from ..training import Trained
from .engine import Engine, carry_out

ROWS = 1_000_000
"""Rows of the series of a chunk."""
MANIFEST = "_scores.json"
_PACKED = "_series"
_NOT_FOR_TABLES = ("target", "kind", "per_step", "classes")


@dataclass(frozen=True)
class Chunk:
    """Prediction of consecutive series of a store; a job of the engine.

    Attributes:
        run: Run folder or packed model.
        store: Store of series.
        path: Parquet file to write.
        first: First series.
        end: Series after the last.
        options: Options of `prediction_columns`.
        anyway: As for `load`.
    """

    run: str
    store: str
    path: str
    first: int
    end: int
    options: Mapping[str, Any] = field(default_factory=dict)
    anyway: bool = False

    @property
    def key(self) -> str:
        """Name of the file."""
        return Path(self.path).name

    def execute(self, state: Path | None, report: Callable[[Any], None]) -> int:
        """Predicts and writes the file; returns the number of its rows."""
        trained, series = _opened(self.run, self.store, self.anyway)
        columns = prediction_columns(trained, series[self.first : self.end].loaded(), **self.options)
        write_table(columns, self.path, {"model": trained.model.title, "run": self.run})
        return len(next(iter(columns.values())))


@lru_cache(maxsize=1)
def _opened(run: str, store: str, anyway: bool) -> tuple[Trained, Sequences]:
    """Returns the model and the series of a store; a worker uses them for many chunks."""
    trained = load(run, anyway=anyway)
    return trained, series_of(trained, store, labeled=False, anyway=anyway)


@dataclass(frozen=True)
class Scored:
    """Result of `score_in_chunks`.

    Attributes:
        chunks: Number of files.
        before: Number of these that an earlier call wrote.
        series: Number of series.
        notes: Remarks on the data.
    """

    chunks: int
    before: int
    series: int
    notes: tuple[str, ...] = ()


def score_in_chunks(
    run: str | Path,
    source: str | Path,
    output: str | Path,
    *,
    engine: Engine | None = None,
    options: Mapping[str, Any] | None = None,
    rows: int = ROWS,
    anyway: bool = False,
    force: bool = False,
    on_progress: Callable[[str, float, int], None] | None = None,
) -> Scored:
    """Writes predictions to a folder of Parquet files, one per chunk; a chunk that is there is not repeated.

    Args:
        run: Run folder or packed model.
        source: A store; any other source of tables is packed first.
        output: Folder to write to. Its files are replaced if they belong to other data, another model or options, and
            `force` is set.
        engine: Workers; by default this process.
        options: Options of `prediction_columns`.
        rows: Rows of the series of a chunk.
        anyway: As for `load`.
        force: Whether to replace other predictions.
        on_progress: Called with what is done, its share from 0 to 1, and the number of rows that it is a share of.

    Raises:
        ValueError: A chunk could not be predicted, or the folder has other predictions.
    """
    output, engine, on_progress = Path(output), engine or Engine(), on_progress or (lambda what, share, rows: None)
    weights = Path(run) if Path(run).is_file() else Path(run) / "model.safetensors"
    facts = {"model": hash_of(weights), "data": state_of(source), "rows": rows, "options": dict(options or {})}
    _begin(output, {**facts, "fingerprint": fingerprint(facts)}, force)
    store, packing = Path(source), 0.0
    if not is_store(source):
        packing = 0.3
        store = _packed(run, source, output, anyway, lambda what, share, own: on_progress(what, packing * share, own))
    series = _opened(str(run), str(store), anyway)[1]
    chunks = _chunks(series, rows, Chunk(str(run), str(store), str(output), 0, 0, dict(options or {}), anyway))
    missing = [chunk for chunk in chunks if not Path(chunk.path).is_file()]
    sizes = {chunk.key: int(series.lengths[chunk.first : chunk.end].sum()) for chunk in chunks}
    total, waiting = sum(sizes.values()), iter(missing)
    done = total - sum(sizes[chunk.key] for chunk in missing)
    for finished in carry_out(lambda: next(waiting, None), engine):
        if finished.how != "result":
            raise ValueError(f"{finished.job.key}: {finished.fault}. The same command goes on with the others.")
        done += sizes[finished.job.key]
        on_progress("scoring", packing + (1 - packing) * done / max(total, 1), total)
    if store != Path(source):
        _opened.cache_clear()
        shutil.rmtree(store, ignore_errors=True)
    return Scored(len(chunks), len(chunks) - len(missing), len(series), series.notes)


def _chunks(series: Sequences, rows: int, like: Chunk) -> list[Chunk]:
    """Returns the chunks of all series, with the other attributes of `like`, whose path is the folder."""
    ends = _ends(series.lengths, rows)
    return [
        replace(like, path=str(Path(like.path) / f"part-{number:06}.parquet"), first=first, end=end)
        for number, (first, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def _ends(lengths: np.ndarray[Any, Any], rows: int) -> list[int]:
    """Returns the ends of chunks of consecutive series with about so many rows.

    Example:
        >>> _ends(np.array([3, 3, 3, 9, 1]), 6)
        [2, 3, 4, 5]
    """
    ends, size = [], 0
    for number, length in enumerate(lengths.tolist()):
        if size and size + length > rows:
            ends.append(number)
            size = 0
        size += length
    return [*ends, len(lengths)]


def _begin(output: Path, facts: dict[str, Any], force: bool) -> None:
    """Refuses a folder with other predictions; writes what these are made of."""
    manifest = output / MANIFEST
    if manifest.is_file() and read_json(manifest, dict[str, Any]).get("fingerprint") == facts["fingerprint"]:
        return
    # A killed process may have left a draft of the manifest, whose name begins with a dot.
    if output.exists() and any(not path.name.startswith(".") for path in output.iterdir()):
        if not force:
            raise ValueError(
                f"{output} has other files, or predictions of another model, other data or options: give another "
                "folder, or replace them with --force."
            )
        for path in output.glob("part-*.parquet"):
            path.unlink()
    output.mkdir(parents=True, exist_ok=True)
    write_json(manifest, facts)


def _packed(run: str | Path, source: str | Path, output: Path, anyway: bool, on_progress: Any) -> Path:
    """Packs the tables of a source for one model, or returns the store of an earlier attempt."""
    trained, store = load(run, anyway=anyway), output / _PACKED
    if trained.reading is None:
        raise ValueError(f"{run} was trained on a task and cannot be used on tables.")
    options = {name: value for name, value in trained.reading.options.items() if name not in _NOT_FOR_TABLES}
    part = {"table": options.pop("table", None), "query": options.pop("query_sql", None)}
    part = part if database_of(source) else {}  # a model of a database can be used on files, too
    if not is_store(store) or not made_from(store, source, options, **part):
        pack(source, store, on_progress=on_progress, **part, **options)
    return store
