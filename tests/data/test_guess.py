"""Guesses of the roles of columns: ids, times, static columns, text and columns to leave out."""

import numpy as np
import pytest

from chronode.data._guess import file_gap, guess, guess_file
from chronode.settings import SettingError

VISITS, PEOPLE = 6, 5
N = VISITS * PEOPLE
WHO = np.repeat(np.arange(PEOPLE), VISITS)
STEP = np.tile(np.arange(VISITS), PEOPLE)
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=N).tolist()
DATES = [f"2024-01-{1 + step:02d}" for step in STEP]
MONTH = np.arange("2024-01-01", "2024-01-31", dtype="M8[D]")


def table(**columns):
    return {name.replace("__", " "): list(column) for name, column in columns.items()}


CASES = {
    "an id by name, with days": (table(Patient__ID=WHO, day=STEP, hr=VALUES), {}, {"id": "Patient ID", "time": "day"}),
    "a period, beside an age that stays": (
        table(subject=WHO, age=WHO + 40, period=STEP, y=VALUES),
        {},
        {"id": "subject", "time": "period", "static": ["age"]},
    ),
    "dates": (
        table(symbol=[f"S{who}" for who in WHO], date=DATES, price=VALUES),
        {},
        {"id": "symbol", "time": "date"},
    ),
    "an id without a telling name": (
        table(source=[f"s{who}" for who in WHO], year=2000 + STEP, output=VALUES),
        {},
        {"id": "source", "time": "year"},
    ),
    "one series with text": (
        table(date=MONTH, city=["a", "b"] * 15, x=VALUES),
        {},
        {"time": "date", "categorical": "onehot"},
    ),
    "an id per row names no series": (
        table(id=range(N), time=np.arange(N), sex=["f", "m"] * 15, x=VALUES),
        {},
        {"time": "time", "categorical": "onehot"},
    ),
    "a month that repeats is not the time": (
        table(id=[0] * 15 + [1] * 15, month=np.tile(np.arange(3), 10), x=VALUES),
        {},
        {"id": "id"},
    ),
    "a time is given": (table(patient=WHO, day=STEP, visit=STEP, x=VALUES), {"time": "visit"}, {"id": "patient"}),
    "a target has no other role": (
        table(patient=WHO, day=STEP, outcome=WHO % 2, x=VALUES),
        {"target": ["outcome"]},
        {"id": "patient", "time": "day"},
    ),
    "few texts and many": (
        table(day=range(N), sky=["sun", "rain"] * 15, note=[f"n{i}" for i in range(N)], x=VALUES),
        {},
        {"time": "day", "categorical": "onehot", "ignore": ["note"]},
    ),
    "a second date": (table(date=MONTH, born=DATES, x=VALUES), {}, {"time": "date", "ignore": ["born"]}),
    "a sign for missing numbers, which reading explains": (
        table(day=range(N), x=["<0.5", *map(str, VALUES[1:])]),
        {},
        {"time": "day"},
    ),
    "codes are wanted": (
        table(day=STEP, patient=WHO, sky=["sun", "rain"] * 15, sex=np.array(["f", "m"])[WHO % 2], x=VALUES),
        {"categorical": "codes"},
        {"id": "patient", "time": "day"},
    ),
    "rows without an id, which reading refuses": (table(patient=[None, *WHO[1:]], day=STEP), {"id": "patient"}, {}),
}


@pytest.mark.parametrize(("columns", "given", "expected"), CASES.values(), ids=CASES)
def test_roles(columns, given, expected):
    assert guess(columns, given).options == expected


def test_forecasts_leave_out_text_that_changes():
    columns = table(day=range(N), sky=["sun", "rain"] * 15, x=VALUES)
    assert guess(columns, {}, forecast=True).options == {"time": "day", "ignore": ["sky"]}


def test_a_panel_without_a_column_that_tells_series_apart_is_asked_about():
    columns = table(year=np.repeat([2000, 2001], 15), site=["a", "b", "c"] * 10, variety=["u", "v"] * 15, x=VALUES)
    with pytest.raises(SettingError) as error:
        guess(columns, {})
    assert error.value.argument == "id" and "no column alone" in str(error.value)
    assert "site" not in error.value.cure and "guess" in error.value.cure


def test_a_number_that_tells_series_apart_is_named():
    """Not the texts that do not, and not the number of the row."""
    columns = table(year=np.repeat(range(10), 3), firm=[3, 1, 2] * 10, row=range(N), kind=["u", "v"] * 15, x=VALUES)
    with pytest.raises(SettingError) as error:
        guess(columns, {})
    assert "id='firm', or" in error.value.cure


def test_files(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,date,x\n" + "".join(f"{who},{date},1.5\n" for who, date in zip(WHO, DATES, strict=True)))
    assert guess_file(path, {}).options == {"id": "id", "time": "date"} and guess_file(path, {}).series == PEOPLE
    assert file_gap(path, {}) == 86_400
    assert file_gap(path, {"time": "x"}) is None
    with pytest.raises(SettingError) as error:
        guess_file(path, {"target": ["y"]})
    assert (error.value.argument, error.value.place) == ("target", str(path))
    with pytest.raises(SettingError):
        guess_file(path, {"target": ["y"]}, wanted=False)
    assert guess_file(path, {}, wanted=False).options == {}


def test_a_file_is_read_with_its_options(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{who:03d};{step};{'k.A.' if step == 1 else '1,5'}" for who, step in zip(WHO, STEP, strict=True)]
    path.write_text("\n".join(["Nummer;t;x", *rows]))
    given = {"id": "Nummer", "missing_values": ["k.A."]}
    assert guess_file(path, given).options == {"time": "t"}


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_and_columns_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    columns = table(Patient__ID=WHO, day=STEP, sex=np.array(["f", "m"])[WHO % 2], hr=VALUES)
    rows, names = rng.permutation(N), rng.permutation([*columns])
    mixed = {name: [columns[name][row] for row in rows] for name in names}
    assert (
        guess(mixed, {}).options == guess(columns, {}).options == {"id": "Patient ID", "time": "day", "static": ["sex"]}
    )


def test_row_numbers_are_left_out():
    columns = table(rownames=np.arange(1, N + 1), Patient__ID=WHO, day=STEP, hr=VALUES)
    assert guess(columns, {}).options == {"id": "Patient ID", "time": "day", "ignore": ["rownames"]}
    shuffled = {**columns, "rownames": np.random.default_rng(0).permutation(N).tolist()}
    assert guess(shuffled, {}).options["ignore"] == ["rownames"]
    assert "ignore" not in guess(columns, {"columns": ["rownames", "hr"]}).options
    assert "ignore" not in guess(columns | {"rownames": [2, *range(2, N + 1)]}, {}).options  # not the number of a row


def test_one_reading_per_row_is_recognized():
    rows = [(who, step, test) for who, step in zip(WHO, STEP, strict=True) for test in ("chol", "hdl")]
    who, day, test = zip(*rows, strict=True)
    columns = {"id": who, "days": day, "test": test, "value": np.linspace(0, 1, len(rows)).tolist()}
    expected = {"id": "id", "time": "days", "channel": "test", "value": "value"}
    assert guess(columns, {}, forecast=True).options == expected
    assert "channel" not in guess({**columns, "days": range(len(rows))}, {}, forecast=True).options


def test_numbers_tell_series_apart_if_times_begin_again():
    columns = table(recording=WHO, seconds=STEP, ax=VALUES)
    assert guess(columns, {}).options == {"id": "recording", "time": "seconds"}
    mixed = table(pulse=WHO[::-1], seconds=STEP, ax=VALUES)
    mixed["pulse"][0] = mixed["pulse"][-1]
    with pytest.raises(SettingError):
        guess(mixed, {})
