"""Survey: what all rows of a source say about the meaning of its columns, so that parts of it are read alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..settings import SettingError, named
from ._cells import absent, is_numeric
from ._columns import to_arrow
from ._dates import moments_of
from ._names import counted, known_column, known_columns, listed, one_or_more
from ._settings import kinds_of
from ._table import UNNAMED
from ._table_columns import categories_of, kind_of, labels_of
from ._table_source import quoted
from ._target import class_target
from ._times import to_clock

_MOST_DISTINCT = 100_001
_LISTS = ("target", "columns", "static", "ignore")


@dataclass(frozen=True)
class Survey:
    """Meaning of the columns of a source.

    Attributes:
        rows: Number of rows.
        columns: Columns that are used.
        options: Options of `read_frame` for any part with whole series.
        notes: Decisions about the columns.
        whole: Whether all rows are read at once: nothing had to be asked about them.
    """

    rows: int
    columns: tuple[str, ...]
    options: dict[str, Any]
    notes: tuple[str, ...] = ()
    whole: bool = False

    @classmethod
    def of(cls, connection: Any, rows: str, asked: Mapping[str, Any], *, at_once: int) -> Survey:
        """Surveys a source."""
        return _Questions(connection, rows, asked).answered(at_once)


class _Questions:
    """Queries of one source."""

    def __init__(self, connection: Any, rows: str, asked: Mapping[str, Any]):
        self.connection, self.rows, self.asked = connection, rows, asked
        described = connection.sql(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        self.types = {name: str(kind) for name, kind, *_ in described}
        names = list(self.types)
        self.roles = {role: asked[role] for role in ("id", "time", "group", "weight") if asked.get(role)}
        for role, name in self.roles.items():
            known_column(name, names, role)
        self.lists = {role: known_columns(one_or_more(asked.get(role) or ()), names, role) for role in _LISTS}
        self.markers = asked.get("missing_values") or ()

    def answered(self, at_once: int) -> Survey:
        targets, static, ignored = (self.lists[role] for role in ("target", "static", "ignore"))
        taken = {*self.roles.values(), *targets, *ignored}
        dropped = [name for name in self.types if name not in taken and UNNAMED.fullmatch(name)]
        inputs = self.lists["columns"] or [name for name in self.types if name not in {*taken, *dropped}]
        inputs += [name for name in static if name not in inputs]
        if not inputs:
            raise ValueError(f"none of the columns {listed(self.types)} is left as a value column.")
        columns = tuple(dict.fromkeys([*self.roles.values(), *targets, *inputs]))
        (rows,) = self.connection.sql(f"SELECT count(*) FROM {self.rows}").fetchall()[0]
        if not rows:
            raise ValueError("the table has no rows.")
        notes = (f"an unnamed index is left out: {listed(dropped)}.",) if dropped else ()
        if rows <= at_once:
            options = {**self.asked, "columns": [name for name in inputs if name not in static], "ignore": ()}
            return Survey(rows, columns, options, notes, whole=True)
        inputs, more = self._not_empty(inputs, rows)
        options = {
            **self.asked,
            "ignore": (),
            "empty": "keep",
            "categories": self._categories(inputs, static) | dict(self.asked.get("categories") or {}),
        }
        options["columns"] = [name for name in inputs if name not in static]
        options |= self._time() | self._target(targets)
        return Survey(rows, columns, options, (*notes, *more))

    def _not_empty(self, inputs: Sequence[str], rows: int) -> tuple[list[str], list[str]]:
        """Returns the columns with values, as the option `empty` asks for; rows without an id are refused."""
        counted_columns = ", ".join(f"count({self._known(name)})" for name in inputs)
        id = self.roles.get("id")
        answer = self.connection.sql(f"SELECT count({quoted(id) if id else '*'}), {counted_columns} FROM {self.rows}")
        ids, *counts = answer.fetchall()[0]
        if ids < rows:
            raise ValueError(f"{id}: the id of {counted(rows - ids, 'row')} is missing.")
        gone, empty = [name for name, count in zip(inputs, counts, strict=True) if not count], self.asked.get("empty")
        if not gone or empty == "keep":
            return list(inputs), []
        if empty == "error" or len(gone) == len(inputs):
            raise SettingError(
                f"no values in {listed(gone)}: leave these columns out, or use {named('empty', 'keep')}.",
                argument="empty",
            )
        return [name for name in inputs if name not in gone], [f"no values in {listed(gone)}: dropped."]

    def _known(self, name: str) -> str:
        """Returns the values of a column in SQL, NULL for NaN."""
        column = quoted(name)
        floats = self.types[name] in ("FLOAT", "DOUBLE")
        return f"(CASE WHEN isnan({column}) THEN NULL ELSE {column} END)" if floats else column

    def _distinct(self, name: str) -> Any:
        """Returns the different values of a column, up to 100,000."""
        query = f"SELECT DISTINCT {self._known(name)} AS value FROM {self.rows} LIMIT {_MOST_DISTINCT}"
        return absent(to_arrow(name, self.connection.sql(query).to_arrow_table()["value"]), self.markers)

    def _categories(self, inputs: Sequence[str], static: Sequence[str]) -> dict[str, list[str]]:
        """Returns the texts of the columns that are text."""
        categories = {}
        refused = self.asked.get("categorical", "error") == "error"  # the rows say which text it is
        for name in static if refused else inputs:
            if not self.types[name].startswith(("VARCHAR", "ENUM")):
                continue
            texts = self._distinct(name)
            if not is_numeric(texts):
                categories[name] = list(categories_of(name, texts, None)[1])
        return categories

    def _time(self) -> dict[str, Any]:
        """Returns the origin of the times."""
        time = self.roles.get("time")
        if time is None:
            return {}
        column = self._known(time)
        ends = self.connection.sql(
            f"SELECT unnest([min({column}), max({column})]) AS value FROM {self.rows}"
        ).to_arrow_table()["value"]
        try:
            moments = moments_of(time, to_arrow(time, ends), self.asked.get("time_format"), self.asked.get("unit"))
        except ValueError:  # two texts do not say how they are to be read; the first part does
            return {}
        return {"origin": to_clock(moments, None, self.asked.get("unit"))[1].origin}

    def _target(self, targets: Sequence[str]) -> dict[str, Any]:
        """Returns kind and classes of the target, and whether it changes within a series."""
        if not targets:
            return {}
        facts: dict[str, Any] = {}
        levels: list[list[str] | None] = []
        for name, kind in zip(targets, kinds_of(self.asked.get("kind", "auto"), targets), strict=True):
            levels.append(None)
            values = None if kind == "value" else self._distinct(name)
            if values is not None and (kind == "class" or kind_of(values) == "class"):
                labels = labels_of(values, name)[1]
                class_target(np.arange(len(labels)), labels, per_step=False, name=name)
                levels[-1] = labels
        facts["kind"] = "value"
        if any(labels is not None for labels in levels):
            facts["kind"] = "class" if len(levels) == 1 else "auto"  # the classes tell which target has some
            facts["classes"] = levels[0] if len(levels) == 1 else levels
        if self.asked.get("per_step") is None:
            facts["per_step"] = self._changes(targets)
        return facts

    def _changes(self, targets: Sequence[str]) -> bool:
        id = self.roles.get("id")
        if id is None:
            return True
        ends = ", ".join(
            f"min({self._known(name)}) AS a{i}, max({self._known(name)}) AS b{i}" for i, name in enumerate(targets)
        )
        change = " OR ".join(f"a{i} <> b{i}" for i in range(len(targets)))
        query = f"SELECT bool_or({change}) FROM (SELECT {ends} FROM {self.rows} GROUP BY {quoted(id)})"
        return bool(self.connection.sql(query).fetchall()[0][0])
