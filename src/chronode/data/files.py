"""Any file that holds series, opened by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from .._checks import near
from .arrays import from_numpy
from .channel_rows import from_channel_rows
from .columns import arrow
from .csv_file import read_csv
from .dates import NUMBER
from .names import known_column, listed
from .npz import read_arrays, restored
from .sequences import Sequences
from .table import from_long
from .ts_format import read_ts

_PACKED = (".gz", ".xz", ".bz2", ".zst")
_TEXT_OPTIONS = ("delimiter", "decimal", "encoding", "names")
# What a file begins with, for files that are not what their names say.
_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive (or an .npz or .xlsx file)",
    b"\x1f\x8b": "gzip data",
    b"\xfd7zXZ": "xz data",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "an .npy array",
    b"SQLite format": "an SQLite database",
    b"\x7fELF": "a program",
    b"\xff\xfe": "UTF-16 text (save it as UTF-8)",
    b"\xfe\xff": "UTF-16 text (save it as UTF-8)",
}


def read(path: str | Path, **options: Any) -> Sequences:
    r"""Sequences from a file; its suffix says how it is read.

    Args:
        path: the file:
            .csv, .tsv, .txt, .data (also .gz, .xz, .bz2, .zst): a table as text with a line of column names;
            .parquet: a table;
            .ts: a file of the UEA, UCR or TSER archives;
            .npz: what `Sequences.save` wrote, or arrays.
        options: for tables those of `from_long`, or with `channel` and `value` those of `from_channel_rows`; for
            text also delimiter, decimal, encoding, names (of columns). For .ts those of `read_ts`. For arrays in
            .npz those of `from_numpy`, where values, target, times, dt, lengths, ids, groups name arrays in it.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = path.write_text("who,day,x\nann,2024-01-01,1.5\nann,2024-01-03,2\nbob,2024-01-01,3\n")
        >>> print(read(path, id="who", time="day").describe())
        3 rows → 2 series, 1-2 observations, median gap 2 days, 1 channel
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a file.")
    if not path.is_file():
        known = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"{path}: there is no such file.{near(path.name, known)}")
    suffix = path.with_suffix("").suffix if path.suffix in _PACKED else path.suffix
    reader = _READERS.get(suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: files named {suffix or '(no suffix)'} are not known; known are {listed(_READERS)}.")
    if path.suffix not in _PACKED:
        _check_content(path, suffix.lower())
    return reader(path, options)


class LikeOptions(TypedDict, total=False):
    """What `options_like` gives, as JSON holds it."""

    columns: list[str]
    empty: str
    dtype: str
    categorical: str
    categories: dict[str, list[str]]
    unit: str | float
    kind: str
    per_step: bool
    classes: list[str] | None


def options_like(train: Sequences) -> dict[str, Any]:
    """The options with which `read` or `from_long` gives another table the channels, units and classes of `train`.

    They can be stored as JSON. `read(new, id=..., time=..., **options_like(train))`.

    Example:
        >>> from chronode.data import from_long
        >>> train = from_long({"t": [0, 1], "x": [1, 2], "y": ["a", "b"]}, time="t", target="y")
        >>> options_like(train)["columns"], options_like(train)["classes"]
        (['x'], ['a', 'b'])
    """
    coded = {c: next((n for n in train.categories if c == n or c.startswith(f"{n}=")), c) for c in train.channels}
    columns = list(dict.fromkeys(coded.values()))
    told: dict[str, Any] = {"columns": columns, "empty": "keep", "dtype": train.base_values.dtype.name}
    if train.categories:
        told["categorical"] = "codes" if any(name in train.channels for name in train.categories) else "onehot"
        told["categories"] = {name: list(texts) for name, texts in train.categories.items()}
    if train.base_times is not None:
        plain = (
            not train.clock.dates and train.clock.unit.replace(".", "").replace("e+", "").replace("e-", "").isdigit()
        )
        told["unit"] = train.clock.scale if plain else train.clock.unit
        if train.clock.format or not train.clock.dates:
            told["time_format"] = train.clock.format or NUMBER
    if train.target is not None:
        told |= {"kind": train.target.kind, "per_step": train.target.per_step}
        told["classes"] = None if train.target.classes is None else list(train.target.classes)
    return told


def _check_content(path: Path, suffix: str) -> None:
    """Refuses a file whose first bytes are of another kind."""
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{path}: the file is empty.")
    found = next((told for magic, told in _MAGIC.items() if head.startswith(magic)), None)
    expected = {".parquet": b"PAR1", ".pq": b"PAR1", ".npz": b"PK"}.get(suffix)
    if expected is not None and not head.startswith(expected):
        raise ValueError(f"{path}: this is not a {suffix} file but {found or f'begins with {head!r}'}.")
    if expected is None and found is not None:
        raise ValueError(f"{path}: this is not a {suffix} file but {found}.")


def _table(path: Path, options: dict[str, Any], load: Callable[[Path, dict[str, Any]], Any]) -> Sequences:
    table = load(path, options)
    try:
        return from_channel_rows(table, **options) if "channel" in options else from_long(table, **options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _roles(options: dict[str, Any]) -> set[str]:
    """The columns that have a name of their own in the options."""
    goals = options.get("target")
    goals = [goals] if isinstance(goals, str) else goals if isinstance(goals, Sequence) else []
    return {*goals, *(options[role] for role in ("id", "time", "group", "channel") if options.get(role))}


def _text(path: Path, options: dict[str, Any]) -> Sequences:
    own = {name: options[name] for name in _TEXT_OPTIONS if name in options}
    options = {name: value for name, value in options.items() if name not in own}
    if ".tsv" in path.suffixes:
        own.setdefault("delimiter", "\t")
    return _table(path, options, lambda path, options: read_csv(path, exact=_roles(options), **own))


def _parquet(path: Path, options: dict[str, Any]) -> Sequences:
    return _table(path, options, _read_parquet)


def _read_parquet(path: Path, options: dict[str, Any]) -> Any:
    arrow()
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            chosen = options.get("columns")
            if chosen is None or "channel" in options:
                return file.read()
            wanted = {*([chosen] if isinstance(chosen, str) else chosen), *_roles(options), *options.get("ignore", ())}
            return file.read(columns=[name for name in file.schema_arrow.names if name in wanted])
    except Exception as error:  # foreign bytes
        raise ValueError(f"{path}: this is not a whole Parquet file: {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _ts(path: Path, options: dict[str, Any]) -> Sequences:
    # `options_like` also tells what the file itself says.
    known = {"columns": "channels", "kind": "", "per_step": "", "time_format": ""}
    own = {known.get(name, name): value for name, value in options.items() if value is not None}
    own.pop("", None)
    wrong = [name for name in own if name not in ("channels", "classes", "unit", "dtype", "duplicates", "empty")]
    if wrong:
        raise ValueError(f"{path}: a .ts file has no columns to choose; leave out {listed(wrong)}.")
    return read_ts(path, **own)


def _npz(path: Path, options: dict[str, Any]) -> Sequences:
    arrays = read_arrays(path)
    if "json" in arrays:
        if options:
            raise ValueError(f"{path} was written by Sequences.save and takes no options, got {listed(options)}.")
        return restored(path, arrays)
    if "order" not in options:
        raise ValueError(f"{path}: say how its values lie: order='NTD' or 'NDT'; it holds {listed(arrays)}.")
    named = {name: options[name] for name in ("target", "times", "dt", "lengths", "ids", "groups") if name in options}
    rest = {name: value for name, value in options.items() if name not in named and name != "values"}
    usual = [name for name in ("values", "x", "X") if name in arrays]
    named["values"] = options.get("values") or (usual or list(arrays))[0]
    found: dict[str, Any] = {role: arrays[known_column(name, list(arrays), role)] for role, name in named.items()}
    try:
        return from_numpy(**found, **rest)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


_READERS: dict[str, Callable[[Path, dict[str, Any]], Sequences]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data", ".dat"), _text),
    **dict.fromkeys((".parquet", ".pq"), _parquet),
    ".ts": _ts,
    ".npz": _npz,
}
