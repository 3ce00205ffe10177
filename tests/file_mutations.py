"""Damage to files, drawn at random from a seed: to bytes, and to the fields of JSON."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

DEEP = "[" * 3000 + "]" * 3000

WRONG: list[Any] = [
    *(None, True, False, 0, -1, 1, 2.5, 10**6, 2**63, 10**30, 1e308, float("nan"), float("inf")),
    *("", "x", "\0", "\ud800", "a" * 300, "../../x", [], [1], ["a", "b"], [None], {}, {"a": 1}, [[[[[[]]]]]]),
]


def damaged_bytes(content: bytes, rng: random.Random) -> bytes:
    """The content with one to three spots of damage."""
    for _ in range(rng.randint(1, 3)):
        at, end = sorted(rng.choices(range(len(content) + 1), k=2))
        end = min(end, at + 40)
        piece = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
        content = rng.choice(
            [
                content[:at],
                content[:at] + piece + content[at + len(piece) :],
                content[:at] + content[end:],
                content[:at] + piece + content[at:],
                content[:end] + content[at:],
                content.replace(bytes([rng.choice(b"0123456789")]), b"-9" if rng.random() < 0.3 else b"9e9", 1),
            ]
        )
    return content


def damaged_json(content: bytes, rng: random.Random) -> bytes:
    """JSON with one to two fields that are missing, unknown, or of another type or size."""
    value = json.loads(content)
    for _ in range(rng.randint(1, 2)):
        value = _damaged(copy.deepcopy(value), rng)
    text = json.dumps(value)
    return text.replace('"DEEP"', DEEP).encode()


def _damaged(value: Any, rng: random.Random) -> Any:
    places = list(_places(value))
    if not places or rng.random() < 0.02:
        return rng.choice([*WRONG, "DEEP"])
    holder, key = rng.choice(places)
    wrong = rng.choice([*WRONG, "DEEP"])
    action = rng.random()
    if action < 0.6:
        holder[key] = wrong
    elif action < 0.8:
        del holder[key]
    elif isinstance(holder, dict):
        holder[rng.choice(["unknown", "x" * 50, ""])] = wrong
    else:
        holder.insert(key, wrong)
    return value


def _places(value: Any) -> Any:
    """(holder, key) of every field within."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def damage(path: Path, rng: random.Random) -> None:
    """Damages a file in place."""
    content = path.read_bytes()
    as_json = path.suffix == ".json" and rng.random() < 0.7
    if path.suffix == ".jsonl" and rng.random() < 0.7:
        lines = content.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = damaged_json(lines[at], rng)
        path.write_bytes(b"\n".join(lines) + b"\n")
        return
    path.write_bytes(damaged_json(content, rng) if as_json else damaged_bytes(content, rng))
