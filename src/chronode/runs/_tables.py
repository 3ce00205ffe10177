"""Predictions as a table: a row per series or per step, with the names and times of the user."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import UNKNOWN, Sequences, future_times
from ..settings import SettingError, named
from ..storage import replacing
from ..training import Explanation, Predictions, Trained, forecast_at

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
Columns = dict[str, list[Any]]
_SIDES = ("lower", "upper")


def prediction_columns(
    trained: Trained,
    data: Sequences,
    *,
    coming: bool = True,
    intervals: Sequence[float] = (),
    at: Sequence[str] = (),
    wide: bool = False,
    last: bool = False,
    explained: bool = False,
) -> Columns:
    """Predicts series and returns the table that `chronode predict` writes.

    Args:
        trained: The model.
        data: Series read as in training.
        coming: For a forecast from windows, whether to give the steps that follow each series, with their times.
        intervals: Levels of prediction intervals, in percent; those of the configuration by default.
        at: For forecasts, times instead of the next steps.
        wide: For forecasts, whether there is a column per channel instead of a row.
        last: For predictions per step, whether to keep only the last step.
        explained: Whether to add the contributions of channels and static columns to the prediction of each series.
    """
    reading, predictions = trained.reading, trained.predict(data)
    options = {} if reading is None else reading.options
    names = {"id": options.get("id") or "series", "time": options.get("time")}
    windows = reading is not None and reading.relative is not None
    if explained and ((windows and coming) or len(predictions.names) > 1 or (trained.objective.per_step and not last)):
        cure = "use `chronode explain`, or add --last to predictions per step"
        raise SettingError(f"{named('explain')} needs one prediction per series: {cure}.", argument="explain")
    if coming and windows:
        assert reading is not None
        ends = trained.intervals(data, trained.levels(intervals))
        future: dict[str, Any] = {"wide": wide, "intervals": ends, "at": at, "last": trained.last_values(data)}
        return forecast_columns(predictions, data, reading.forecast_channels, **names, **future)
    for name, given in (("at", at), ("intervals", intervals)):
        if given:
            raise SettingError(
                f"{named(name)} needs a file to forecast from, and a run that was trained with {named('forecast')}.",
                argument=name,
            )
    table = columns_of(predictions, data, **names, last=last)
    return table | (_contributions(trained.explain(data)) if explained else {})


def _contributions(found: Explanation) -> Columns:
    """Returns a column per channel and static column, and the output that they add to."""
    columns: Columns = {"explained": list(found.names), "reference": _rounded(found.reference)}
    parts = ((found.channel_names, found.channels), (found.static_names, found.static))
    return columns | {
        f"by_{name}": _rounded(values) for names, each in parts for name, values in zip(names, each.T, strict=True)
    }


def _rounded(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def explanation_columns(found: Explanation, data: Sequences, *, id: str = "series") -> Columns:
    """Returns a table of contributions: rows of the reference, of each channel, static column and span of a series.

    The reference, the channels and the static columns sum to the prediction; the spans divide the sum of the channels
    by time.

    Args:
        found: The explanation.
        data: The series that it explains.
        id: Name of the first column.
    """
    ends = (
        data.clock.written(found.edges.ravel()) if data.base_times is not None else (found.edges + 1).ravel().tolist()
    )
    ends = [list(row) for row in np.array(ends, dtype=object).reshape(found.edges.shape)]
    rows: list[tuple[Any, ...]] = []
    for row, name in enumerate(found.names):
        head = (found.ids[row].item(), name)
        first, last = ends[row][0], ends[row][-1]
        rows.append((*head, "reference", "", first, last, found.reference[row]))
        for kind, names, values in (
            ("channel", found.channel_names, found.channels[row]),
            ("static", found.static_names, found.static[row]),
        ):
            rows += [(*head, kind, label, first, last, value) for label, value in zip(names, values, strict=True)]
        by_span = found.spans[row].sum(1)
        rows += [(*head, "span", "", *ends[row][k : k + 2], value) for k, value in enumerate(by_span)]
        rows.append((*head, "prediction", "", first, last, found.output[row]))
    heads = (id, "output", "part", "name", "from", "to", "value")
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in heads]
    return dict(zip(heads, [*columns[:-1], _rounded(columns[-1])], strict=True))


def columns_of(
    predictions: Predictions,
    data: Sequences,
    *,
    id: str = "series",
    time: str | None = None,
    last: bool = False,
    truth: bool = False,
    ends: bool = False,
) -> Columns:
    """Returns the columns of a table of predictions.

    Classes are given by the predicted name and a probability each ("p_ill"), values by their names.

    Args:
        predictions: Predictions of the model.
        data: Series of the predictions.
        id: Name of the first column.
        time: Name of the column of times; "step", counted from 1, if there are none.
        last: For predictions per step, whether to keep only the last step.
        truth: Whether to add the known targets in columns "true_...".
        ends: Whether to add the time of the last step of each series, for predictions per series.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0], [2.0]], ids=["a", "b"], target=["no", "yes"])
        >>> predictions = Predictions(s.ids, [np.array([0.25, 0.75], np.float32)] * 2, ("no", "yes"), ("ill",))
        >>> columns_of(predictions, s, id="who")
        {'who': ['a', 'b'], 'ill': ['yes', 'yes'], 'p_no': [0.25, 0.25], 'p_yes': [0.75, 0.75]}
    """
    per_step = bool(len(predictions)) and predictions.values[0].ndim == 2
    table: Columns = {}
    if per_step:
        rows = np.cumsum(data.lengths) - 1 if last else np.arange(int(data.lengths.sum()))
        values = np.concatenate(predictions.values)[rows]
        table[id] = np.repeat(data.ids, data.lengths)[rows].tolist()
        if data.base_times is None:
            table["step"] = (data.times[rows] + 1).astype(int).tolist()
        else:
            table[time or "time"] = data.clock.written(data.times[rows])
    else:
        rows, values = np.arange(len(data)), np.stack(predictions.values) if len(predictions) else np.empty((0, 0))
        table[id] = data.ids.tolist()
        if ends and data.base_times is not None:
            table[time or "time"] = data.clock.written(data.base_times[data.starts + data.lengths - 1])
    if truth and data.target is not None:
        table |= _truth(data, rows)
    if predictions.classes is None and len(predictions.by_target) == 1:
        return table | {name: _plain(column) for name, column in zip(predictions.names, values.T, strict=True)}
    for part, span, heads in zip(predictions.by_target, predictions.spans, predictions.heads, strict=True):
        table |= _prediction_columns(part, values[:, span] if len(values) else values, heads)
    return table


def _prediction_columns(predictions: Predictions, values: NDArray[Any], heads: Sequence[str]) -> Columns:
    """Returns the columns of one target; `heads` are those of its outputs."""
    columns = dict(zip(heads, map(_plain, values.T), strict=True))
    if predictions.classes is None:
        return columns
    return {predictions.names[0]: predictions.label_of(values) if len(values) else [], **columns}


def forecast_columns(
    predictions: Predictions,
    data: Sequences,
    channels: Sequence[str],
    *,
    id: str = "series",
    time: str | None = None,
    wide: bool = False,
    intervals: Mapping[float, NDArray[np.float64]] | None = None,
    at: Sequence[str] = (),
    last: NDArray[np.float64] | None = None,
) -> Columns:
    """Returns a table of what follows each series: a row per series, future time and channel.

    Args:
        predictions: Forecasts, step by step and channel by channel.
        data: Series that they continue; future times follow at the median gap of each.
        channels: Channels that were forecast.
        id: Name of the first column.
        time: Name of the column of times; "step" if there are none.
        wide: Whether there is a column per channel instead of a row.
        intervals: By confidence level in percent, the ends `(2, series, outputs)` of prediction intervals; they add
            columns such as "lower_80" and "upper_80".
        at: Times to forecast instead of the next steps, written as in the source.
        last: With `at`, the values `(series, channels)` at the last step of each series.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0]], times=[[0.0, 3.0]], ids=["a"], channels=["x"])
        >>> found = Predictions(s.ids, [np.array([3.0, 4.0], np.float32)], None, ("x+1", "x+2"))
        >>> forecast_columns(found, s, ["x"], time="day")
        {'series': ['a', 'a'], 'day': [6.0, 9.0], 'channel': ['x', 'x'], 'forecast': [3.0, 4.0]}
    """
    values = np.stack(predictions.values).reshape(len(data), -1, len(channels))
    tables = {"forecast": values}
    for level, pair in (intervals or {}).items():
        tables |= {f"{side}_{level:g}": end.reshape(values.shape) for side, end in zip(_SIDES, pair, strict=True)}
    times = future_times(data, values.shape[1])
    if at:
        assert last is not None
        wanted = data.clock.parsed(at)
        tables = {name: forecast_at(numbers.astype(np.float64), last, data, wanted) for name, numbers in tables.items()}
        times = np.broadcast_to(wanted, (len(data), len(wanted)))
    horizon, width = tables["forecast"].shape[1:]
    repeated = 1 if wide else width
    table: Columns = {id: np.repeat(data.ids, horizon * repeated).tolist()}
    ahead = np.repeat(times.ravel(), repeated)
    if data.base_times is None:
        table["step"] = (ahead + 1).round().astype(int).tolist()
    else:
        table[time or "time"] = _like_before(data, data.clock.written(ahead))
    if not wide:
        table["channel"] = list(channels) * (len(data) * horizon)
        return table | {name: _plain(numbers.astype(values.dtype).ravel()) for name, numbers in tables.items()}
    for i, channel in enumerate(channels):
        for name, numbers in tables.items():
            column = channel if name == "forecast" else f"{channel}_{name}"
            table[column] = _plain(numbers[..., i].astype(values.dtype).ravel())
    return table


def without_formulas(columns: Columns) -> Columns:
    """Returns the table with an apostrophe before texts that a spreadsheet would take for a formula; numbers stay.

    Example:
        >>> without_formulas({"who": ["=1+1", "a=b"], "p": [-0.5, 1.0]})
        {'who': ["'=1+1", 'a=b'], 'p': [-0.5, 1.0]}
    """

    def plain(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell

    return {plain(name): [plain(cell) for cell in cells] for name, cells in columns.items()}


def write_table(columns: Columns, path: str | Path, about: Mapping[str, str] | None = None) -> Path:
    """Writes a .parquet or CSV file atomically; a .parquet file has `about` in its metadata."""
    path = Path(path)
    with replacing(path) as draft:
        if path.suffix in (".parquet", ".pq"):
            import pyarrow
            import pyarrow.parquet

            named = {f"chronode.{name}": text for name, text in (about or {}).items()}
            pyarrow.parquet.write_table(pyarrow.table(columns).replace_schema_metadata(named or None), draft)
        else:
            draft.write_text(as_csv(columns), encoding="utf-8")
    return path


def as_csv(columns: Columns) -> str:
    r"""Formats the table as CSV; unknown values are empty.

    Example:
        >>> as_csv({"who": ["a", "b, c"], "p": [0.5, None]})
        'who,p\na,0.5\n"b, c",\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def as_rows(columns: Columns) -> list[dict[str, Any]]:
    """Returns the table as a list of rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _like_before(data: Sequences, written: list[Any]) -> list[Any]:
    """Dates without a time of day where none of the series has one."""
    midnight = "T00:00:00"
    before = data.clock.written(data.times)
    if not all(isinstance(text, str) and text.endswith(midnight) for text in [*before, *written]):
        return written
    return [text.removesuffix(midnight) for text in written]


def _truth(data: Sequences, rows: NDArray[np.int64]) -> Columns:
    target = data.target
    assert target is not None
    given = target.values if target.classes is not None else target.given
    values = (given[data.steps] if target.per_step else given)[rows]
    if target.levels:
        parts = [_truth(part, rows) for part in data.by_target]
        return {name: column for part in parts for name, column in part.items()}
    if target.classes is None:
        return {f"true_{name}": _plain(column) for name, column in zip(target.names, values.T, strict=True)}
    names = target.classes
    return {f"true_{target.names[0]}": [None if code == UNKNOWN else names[code] for code in values.tolist()]}


def _plain(column: NDArray[Any]) -> list[float | None]:
    """Returns numbers with the digits of their type; None for NaN."""
    return [None if text == "nan" else float(text) for text in column.astype(str).tolist()]
