"""Labels in a second table: its columns are joined to the rows of the first by id, or by id and time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named
from ._columns import Column, arrow, as_columns, codes, is_frame, with_index
from ._dates import moments_of
from ._names import counted, known_column, listed, one_or_more, related

_ROLES = ("target", "weight")
_EXAMPLES = 3


def label_columns(labels: Any, missing_values: Sequence[Any] = ()) -> dict[str, Column]:
    """Returns the columns of a file or frame of labels."""
    if is_frame(labels):
        return as_columns(labels)
    from ._guess import table_of

    path = Path(labels)
    if not path.is_file():
        others = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SettingError(f"{_shown(labels)}: no such file.{related(path.name, others)}", argument="labels")
    columns = table_of(path, {"missing_values": missing_values})
    if columns is None:
        raise SettingError(f"{_shown(labels)} is not a table.", argument="labels")
    return columns


def guess_roles(labels: Mapping[str, Column], names: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the id, if it is the only column that both tables have, and the target, if it is the only other one.

    Example:
        >>> table = {"stay": ["a", "b"], "outcome": [0, 1]}
        >>> guess_roles(as_columns(table), ["stay", "hr"], {})
        {'id': 'stay', 'target': ['outcome']}
    """
    roles: dict[str, Any] = {}
    taken = {*one_or_more(given.get("weight") or ()), *one_or_more(given.get("group") or ())}
    shared = [name for name in labels if name in names and name != given.get("time") and name not in taken]
    if not given.get("id") and len(shared) == 1:
        roles["id"] = shared[0]
    others = [name for name in labels if name not in names and name not in taken]
    if not given.get("target") and len(others) == 1:
        roles["target"] = others
    return roles


def with_labels(table: Any, options: Mapping[str, Any]) -> tuple[dict[str, Column], dict[str, Any], list[str]]:
    """Returns a table with the columns of its labels, the options without `labels`, and notes.

    Labels with the column of times are joined by id and time, others by id.

    Args:
        table: The table.
        options: Options of `read`, with `labels` and `id`; without `target`, it is the only other column of the labels.
    """
    given = dict(options)
    labels = given.pop("labels")
    if given.get("id") is None:
        raise SettingError(
            f"{named('labels', ...)} finds the series of a label by its id",
            argument="id",
            cure=f"name the column of ids with {named('id', ...)}",
        )
    columns = label_columns(labels, given.get("missing_values", ()))
    cells, given["time"] = with_index(table, as_columns(table), given.get("time"), (given["id"], given.get("group")))
    given |= {name: value for name, value in guess_roles(columns, cells, given).items() if name == "target"}
    wanted = [name for role in _ROLES for name in one_or_more(given.get(role) or ())]
    _check_columns(labels, columns, cells, given["id"], wanted)
    time = given["time"] if given["time"] in columns else None
    wanted = [name for name in wanted if name in columns]
    rows, notes = _matched(_shown(labels), columns, cells, given["id"], time, wanted, given)
    indices = arrow().array(rows, mask=rows < 0)
    cells |= {name: columns[name].take(indices) for name in wanted}
    return cells, {name: value for name, value in given.items() if value is not None}, notes


def _shown(labels: Any) -> str:
    return named("labels", ... if is_frame(labels) else str(labels))


def _check_columns(
    labels: Any, columns: Mapping[str, Column], cells: Mapping[str, Column], id: str, wanted: Sequence[str]
) -> None:
    known_column(id, cells, "id")
    if id not in columns:
        raise SettingError(
            f"{_shown(labels)} has no column {id!r}, only {listed(columns)}",
            argument="labels",
            cure="name its column of ids as in the data",
        )
    if not wanted:
        raise SettingError(
            f"{_shown(labels)} has the columns {listed(name for name in columns if name != id)}",
            argument="target",
            cure=f"name the target with {named('target', ...)}",
        )
    twice = [name for name in wanted if name in columns and name in cells]
    if twice:
        raise SettingError(
            f"{_shown(labels)}: the data have a column {twice[0]!r} too", argument="labels", cure="rename one of them"
        )
    for name in wanted:
        if name not in cells:
            known_column(name, list(columns), "target")


def _matched(
    shown: str,
    columns: Mapping[str, Column],
    cells: Mapping[str, Column],
    id: str,
    time: str | None,
    wanted: Sequence[str],
    given: Mapping[str, Any],
) -> tuple[NDArray[np.int64], list[str]]:
    """Returns (`(rows,)` the row of the labels for each row of the table, -1 if there is none; notes)."""
    series, ids = codes(cells[id], id)
    label_series, label_ids = codes(columns[id], id)
    if (label_series < 0).any():
        row = int((label_series < 0).argmax()) + 1
        raise SettingError(f"{shown}: the id of row {row:,} is missing", argument="labels", cure="remove the row")
    names = {str(name): number for number, name in enumerate(ids.tolist())}
    places = np.array([names.get(str(name), -1) for name in label_ids.tolist()], dtype=np.int64)
    if len(places) and (places < 0).all():
        few = (listed(some.tolist()[:_EXAMPLES]) for some in (label_ids, ids))
        raise SettingError(
            f"{shown}: no {id!r} is in both files ({next(few)} there, {next(few)} in the data)",
            argument="labels",
            cure="write the ids in the same way",
        )
    keys, label_keys = series.astype(np.int64), places[label_series]
    notes = _strangers(shown, label_ids[places < 0].tolist())
    if time is not None:
        keys, label_keys = _with_times(shown, keys, label_keys, cells[time], columns[time], time, given)
    _check_twice(shown, columns, wanted, label_keys, label_series, label_ids, time)
    order = np.argsort(label_keys, kind="stable")
    at = np.minimum(np.searchsorted(label_keys[order], keys), len(order) - 1)
    rows = np.where(label_keys[order][at] == keys, order[at], -1)
    rows[series < 0] = -1
    labeled = np.bincount(series[(rows >= 0) & (series >= 0)], minlength=len(ids)) > 0
    return rows, [*_unlabeled(shown, ids, labeled), *notes]


def _with_times(
    shown: str, keys: NDArray[Any], label_keys: NDArray[Any], times: Column, label_times: Column, time: str, given: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns numbers of pairs of id and time."""
    pair = [moments_of(time, column, given.get("time_format"), given.get("unit")) for column in (times, label_times)]
    if (pair[0].rate is None) != (pair[1].rate is None):
        raise SettingError(f"{shown}: {time!r} are dates in only one of the two files.", argument="labels")
    seconds = [moments.ticks / (moments.rate or 1.0) for moments in pair]
    numbers = np.unique(np.concatenate(seconds), return_inverse=True)[1].reshape(-1)
    count = int(numbers.max(initial=0)) + 1
    parts = zip((keys, label_keys), np.split(numbers, [len(keys)]), strict=True)
    whole = [np.where(key < 0, -1, key * count + number) for key, number in parts]
    return whole[0], whole[1]


def _check_twice(
    shown: str,
    columns: Mapping[str, Column],
    wanted: Sequence[str],
    keys: NDArray[Any],
    series: NDArray[Any],
    ids: NDArray[Any],
    time: str | None,
) -> None:
    """Rejects different labels of one series (or of one of its times)."""
    order = np.argsort(keys, kind="stable")
    for name in wanted:
        values = codes(columns[name], name)[0][order]
        other = (np.diff(keys[order]) == 0) & (keys[order][1:] >= 0) & (values[1:] != values[:-1])
        if other.any():
            first, second = (int(order[int(other.argmax()) + step]) for step in (0, 1))
            both = f"{columns[name][first]!s} (row {first + 1:,}) and {columns[name][second]!s} (row {second + 1:,})"
            count = len(np.unique(series[order][1:][other]))
            cure = "leave one row per id" if time is None else "leave one row per id and time"
            raise SettingError(
                f"{shown}: id {ids[series[first]]!s} has two labels in {name!r}, {both}; {counted(count, 'such id')}",
                argument="labels",
                cure=f"{cure}{'' if time else ', or add the column of times for a target per step'}",
            )


def _unlabeled(shown: str, ids: NDArray[Any], labeled: NDArray[np.bool_]) -> list[str]:
    gone = ids[~labeled].tolist()
    if not gone:
        return []
    return [f"{shown}: {len(gone):,} of {counted(len(ids), 'series')} have no label ({listed(gone, _EXAMPLES)})."]


def _strangers(shown: str, names: Sequence[Any]) -> list[str]:
    if not names:
        return []
    are = "is" if len(names) == 1 else "are"
    return [f"{shown}: {counted(len(names), 'id')} {are} not in the data ({listed(names, _EXAMPLES)}): not used."]
