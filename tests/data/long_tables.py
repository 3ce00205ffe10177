"""A small table with a row per id and time, for the tests of the rules for tables."""

from chronode.data import from_long

nan = float("nan")
ONCE = (
    "classes of 'y' that occur once: 'p' (id a), 'q' (id b): kept; a split puts them into training."  # a note on `made`
)


def long(**columns):
    """Ids a and b with two times each, a number x and a class y; `columns` go before and beside them."""
    usual = {"id": ["a", "a", "b", "b"], "t": [0, 1, 0, 2], "x": [1.0, 2.0, 3.0, 4.0], "y": ["p", "p", "q", "q"]}
    return {**usual, **columns}


def made(table=None, **options):
    """The series of such a table; `options` go before the usual ones."""
    return from_long(long() if table is None else table, **{"id": "id", "time": "t", "target": "y", **options})
