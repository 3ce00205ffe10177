"""`score`: predictions of batches of rows, as functions of Spark and Dask take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..data import arrow, as_columns, last_change
from ..training import Trained
from ._tables import prediction_columns
from ._trained import load, series_of


def score(batches: Iterable[Any], run: str | Path | Trained, **options: Any) -> Iterator[Any]:
    """Yields predictions for batches of rows; a series may continue in the next batch.

    The rows of an id must follow one another, as after `sortWithinPartitions` in Spark. So
    `partial(chronode.score, run="ward.chronode")` is a function for `mapInPandas` and `mapInArrow`.

    Args:
        batches: Frames of pandas or polars, Arrow tables or record batches, with the columns of training.
        run: Run folder, packed model or trained model; a path is loaded once per process.
        options: Options of `prediction_columns`: intervals, at, wide, last.

    Yields:
        Tables as `chronode predict` writes them, of the kind of the batches.

    Example:
        >>> from chronode.data import from_long
        >>> from chronode.runs import Config, assemble_run, choose, prepare
        >>> from dataclasses import replace
        >>> rows = {"who": [i // 2 for i in range(40)], "x": [float(i % 4 > 1) for i in range(40)]}
        >>> series = from_long({**rows, "y": [i % 4 > 1 for i in range(40)]}, id="who", target="y")
        >>> model = {"model": "gru", "hidden_size": 2}
        >>> asked = Config.from_dict({"data": {"id": "who"}, "model": model, "training": {"epochs": 1}})
        >>> prepared = prepare(asked, series)
        >>> trained = replace(assemble_run(choose(asked, prepared)[0], prepared).fit(), reading=prepared.reading)
        >>> batches = [{name: column[:5] for name, column in rows.items()}, {name: c[5:8] for name, c in rows.items()}]
        >>> [table["who"].to_pylist() for table in score(batches, trained)]
        [[0, 1], [2], [3]]
    """
    trained = run if isinstance(run, Trained) else _loaded(str(run))
    id = None if trained.reading is None else trained.reading.options.get("id")
    pa, waiting, like = arrow(), [], None
    for batch in batches:
        like = type(batch)
        table = pa.table(as_columns(batch)) if len(batch) else None
        if table is None:
            continue
        waiting.append(table)
        whole = pa.concat_tables(waiting, promote_options="permissive")
        cut = last_change(whole[id]) if id is not None else 0
        if cut:
            yield _like(like, trained, whole.slice(0, cut), options)
        waiting = [whole.slice(cut)]
    if waiting:
        yield _like(like, trained, pa.concat_tables(waiting, promote_options="permissive"), options)


@lru_cache(maxsize=4)
def _loaded(run: str) -> Trained:
    return load(run)


def _like(kind: Any, trained: Trained, table: Any, options: dict[str, Any]) -> Any:
    """Returns the predictions of rows as a table of the kind of the batches."""
    series = series_of(trained, dict(zip(table.column_names, table.columns, strict=True)), labeled=False)
    columns = prediction_columns(trained, series, **options)
    if kind is arrow().RecordBatch:
        return arrow().RecordBatch.from_pydict(columns)
    package = kind.__module__.partition(".")[0]
    if package in ("pandas", "polars"):
        return kind(columns)
    return arrow().table(columns)
