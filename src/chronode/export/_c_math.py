"""Functions of the generated C99 code: math by math.h or by built-in approximations, and matrix products."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_CALLS = re.compile(r"\b(?:m_\w+|product\w*)(?=\()")
_FUNCTION = re.compile(r"^(?:/\*(?:(?!\*/).)*\*/\n)?static \w+ (\w+)\((?:(?!^\}).)*^\}\n", re.MULTILINE | re.DOTALL)


@cache
def texts(math: str) -> dict[str, str]:
    """Returns the functions for `math`, "library" (math.h) or "builtin", by name."""
    sources = [(files("chronode.export") / f"{name}.c").read_text() for name in (math, "shared")]
    return {found[1]: found[0] for source in sources for found in _FUNCTION.finditer(source)}


def functions(code: str, math: str) -> str:
    """Returns the functions that `code` calls, each after the functions that it calls itself."""
    known, needed = texts(math), {}

    def need(text: str) -> None:
        for name in dict.fromkeys(_CALLS.findall(text)):
            if name in known and name not in needed:
                need(known[name].replace(f"{name}(", "", 1))
                needed[name] = known[name]

    need(code)
    return "\n".join(needed.values())
