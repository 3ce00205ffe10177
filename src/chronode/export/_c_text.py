"""C99 for single operations and numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..compiler import SYMBOLS, Node

OPERATIONS = {
    **SYMBOLS,
    "abs": "m_abs({0})",
    "exp": "m_exp({0})",
    "tanh": "m_tanh({0})",
    "sigmoid": "m_sigmoid({0})",
    "relu": "{0} > 0.0f ? {0} : 0.0f",
    "softplus": "m_softplus({0})",
    "log": "m_log({0})",
    "log1p": "m_log1p({0})",
    "expm1": "m_expm1({0})",
    "sqrt": "m_sqrt({0})",
    "rsqrt": "1.0f / m_sqrt({0})",
    "reciprocal": "1.0f / {0}",
    "sin": "m_sin({0})",
    "cos": "m_cos({0})",
    "erf": "m_erf({0})",
    "sign": "(float)(({0} > 0.0f) - ({0} < 0.0f))",
    "round": "m_round({0})",
    "floor": "m_floor({0})",
    "ceil": "-m_floor(-{0})",
    "pow": "m_pow({0}, {1})",
    "minimum": "{0} < {1} ? {0} : {1}",
    "maximum": "{0} > {1} ? {0} : {1}",
    "remainder": "m_remainder({0}, {1})",
    "where": "{0} ? {1} : {2}",
    "and": "{0} && {1}",
    "or": "{0} || {1}",
    "not": "!{0}",
}
"""Element-wise operations; `m_` are functions of `_c_math`."""
_WIDTH = 110


def literal(node: Node) -> str:
    """Returns a number of the graph."""
    if node.kind == "bool":
        return "1" if node.detail == "True" else "0"
    return number(float(node.detail))


def number(value: float) -> str:
    """Returns a float32 as C, exactly."""
    value = float(np.float32(value))
    if value != value:
        return "(0.0f / 0.0f)"
    if value in (float("inf"), float("-inf")):
        return f"({'-' if value < 0 else ''}1.0f / 0.0f)"
    text = f"{value:.9g}"
    text = text if any(mark in text for mark in ".e") else f"{text}.0"
    return f"({text}f)" if value < 0 else f"{text}f"


def table(kind: str, name: str, items: Iterable[str], size: str | None = None) -> str:
    """Returns an array of constants, wrapped to full lines."""
    items = list(items)
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f" {item},"
    lines.append(line)
    return f"{kind} {name}[{size or len(items)}] = {{\n" + "\n".join(lines) + "\n};"


def string(text: str) -> str:
    """Returns a C string with this text, as UTF-8."""
    escaped = "".join(
        f"\\{byte:03o}" if byte < 32 or byte > 126 or chr(byte) in '"\\?' else chr(byte) for byte in text.encode()
    )
    return f'"{escaped}"'


def comment(text: str) -> str:
    """Returns text that cannot end a comment; anything but printable ASCII is replaced."""
    plain = "".join(char if char.isascii() and char.isprintable() else "?" for char in text)
    return plain.replace("*/", "* /").replace("/*", "/ *")
