"""A page for every model: equations, a picture of its step, cost as measured.

The pictures are drawn from the graphs of the compiler, `python docs/model_pages.py`; tests/test_model_pages.py compares
them. Everything else is put together from docstrings and benchmarks when the site is built.
"""

import inspect
import json
from pathlib import Path
from typing import Any

import torch
import yaml
from equations import blocks, tex

import chronode
from chronode.compiler import lower, trace
from chronode.nn import Cell, find_model

ROOT = Path(__file__).parents[1]
WHEN = yaml.safe_load((ROOT / "docs" / "when.yaml").read_text(encoding="utf-8"))
TIME = {
    "native": "dt moves the state between observations.",
    "feature": "dt is one more input.",
    "none": "dt is ignored: for regular series, or with gaps as a column of the data.",
}
SIGNS = {"sigmoid": "σ", "mul": "⊙", "add": "+", "sub": "−", "div": "÷"}
SHOWN = (
    "sigmoid",
    "tanh",
    "relu",
    "exp",
    "expm1",
    "sin",
    "cos",
    "sqrt",
    "log",
    "softplus",
    "max",
    "where",
    "mul",
    "add",
)
BOX, GAP, ROW = 70, 14, 64
PICTURES = ROOT / "docs" / "pictures" / "steps"
LEGEND = (
    "Blue: inputs and state; orange: products with a weight matrix; green: results, with the operations that are "
    "applied element by element to what the arrows bring."
)


def pages() -> dict[str, str]:
    """Returns the pages by their paths in docs/."""
    return {f"models/{name}.md": page(name) for name in chronode.models()}


def page(name: str) -> str:
    """Returns the page of one model."""
    model = find_model(name)
    first, *rest = described(model.cell)
    parts = [f"# {name}", f"*{model.paper}.*", first[1]]
    for is_equation, text in rest:
        parts.append(f"$$\n{tex(text)}\n$$" if is_equation else text)
        if is_equation:
            parts.append(f'??? note "The equations as text"\n    ```text\n{_indented(text)}\n    ```')
    parts += [f"**When to use it.** {WHEN[name]}", f"**Time.** {TIME[model.time]}"]
    drawn = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    parts += ["## A step", f"{drawn}\n{LEGEND}", "## Cost", costs(name), "## Use", used(name, model.cell)]
    return "\n\n".join(parts) + "\n"


def described(cell: type[Cell]) -> list[tuple[bool, str]]:
    """Returns the docstring of a cell in blocks, with the equations of its base class if it has none."""
    parts = blocks(inspect.cleandoc(cell.__doc__ or ""))
    for base in cell.__mro__[1:]:
        if any(is_equation for is_equation, _ in parts) or not issubclass(base, Cell) or base is Cell:
            break
        parts += blocks(inspect.cleandoc(base.__doc__ or ""))[1:]
    return parts


def first_cell(name: str) -> Cell:
    """Returns the first cell of a layer with 3 inputs and 64 units."""
    cell = chronode.create(name, 3, 64).cells[0]
    assert isinstance(cell, Cell)
    return cell


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


# ---- cost -----------------------------------------------------------------------------------------------------


def costs(name: str) -> str:
    """Returns a table of parameters, state and measured times."""
    cell = first_cell(name)
    state = sum(part[0].numel() for part in cell.initial_state(1, torch.zeros(1, 3)))
    rows = [("parameters, 3 inputs and 64 units", f"{sum(p.numel() for p in cell.parameters()):,}")]
    rows.append(("numbers in the state of a series", f"{state:,}"))
    for row in _benchmark("compiled.json")["models"]:
        if row["name"] == name:
            rows.append(("a training batch, compiled", f"{1e3 * row['ours']:.1f} ms"))
            rows.append(("the same as a loop in Python", f"{1e3 * row['theirs']:.0f} ms"))
    table = "\n".join(f"| {text} | {value} |" for text, value in rows)
    return (
        f"| | |\n| --- | ---: |\n{table}\n\nA training batch has 32 series of 256 steps and 64 units, forward and "
        "backward, on two cores; [Speed](../speed.md) has all measurements."
    )


def _benchmark(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / name).read_text(encoding="utf-8"))


def used(name: str, cell: type[Cell]) -> str:
    """Returns an example, and links to the classes."""
    return (
        f'```python\nimport torch, chronode\n\nlayer = chronode.create("{name}", input_size=3, hidden_size=64)\n'
        "y, state = layer(torch.randn(8, 50, 3), dt=torch.rand(8, 50))\n```\n\n"
        f"Settings: [`{cell.__name__}`](../reference/cells.md). From a file: `chronode train yours.csv --target outcome"
        f" --model {name}`. All models: [The models](../models.md)."
    )


# ---- picture --------------------------------------------------------------------------------------------------


def picture(cell: Cell) -> str:
    """Returns the step as SVG: inputs, matrix products, and what is computed from them element by element."""
    step = lower(trace(cell, cell.input_size, backward=False))
    names: dict[Any, list[str]] = {}  # by what is computed: y is often a part of the state
    for i, view in enumerate(step.outputs):
        names.setdefault((view.node, str(view)), []).append(f"state {i}′" if i else "y")
    boxes: dict[Any, tuple[str, str, set[Any]]] = {}  # node or name of an output -> label, kind, what it reads
    for (node, _), together in names.items():
        label, plain = " = ".join(together), node.op in ("input", "product")
        boxes[label] = (label if plain else f"{label}: {_functions(node)}", "output", _sources(node))
    pending = [node for _, _, reads in boxes.values() for node in reads]
    while pending:
        node = pending.pop()
        if node not in boxes:
            boxes[node] = _box(node)
            pending += boxes[node][2]
    outputs = {key: box for key, box in boxes.items() if isinstance(key, str)}
    return _drawn(
        outputs | dict(sorted(((k, b) for k, b in boxes.items() if k not in outputs), key=lambda p: p[0].number))
    )


def _box(node: Any) -> tuple[str, str, set[Any]]:
    if node.op == "input":
        detail = str(node.detail)
        return (f"state {int(detail[5:]) + 1}" if detail.startswith("state") else detail), "input", set()
    functions = _functions(node.args[0].node) if node.args[0].node.op not in ("input", "product", "concat") else ""
    size = "×".join(str(side) for side in node.args[1].node.shape)
    return f"matrix {size}" + (f" ({functions})" if functions else ""), "product", _sources(node.args[0].node)


def _sources(node: Any) -> set[Any]:
    """Returns the inputs and products from which a node is computed element by element."""
    if node.op in ("input", "product"):
        return {node}
    return {source for arg in node.args for source in _sources(arg.node)}


def _functions(node: Any) -> str:
    """Returns the operations between a node and its sources."""
    seen: set[Any] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        if one not in seen and one.op not in ("input", "product"):
            seen.add(one)
            pending += [arg.node for arg in one.args]
    operations = {one.op for one in seen}
    return " ".join([SIGNS.get(op, op) for op in SHOWN if op in operations][:5])


def _drawn(boxes: dict[Any, tuple[str, str, set[Any]]]) -> str:
    """Lays boxes out in rows, each below all that it reads."""
    row: dict[Any, int] = {}

    def depth(key: Any) -> int:
        if key not in row:
            row[key] = max((depth(source) + 1 for source in boxes[key][2]), default=0)
        return row[key]

    last = max(depth(key) for key in boxes)
    for key, (_, kind, _) in boxes.items():
        row[key] = last if kind == "output" and last > row[key] else row[key]
    rows = [[key for key in boxes if row[key] == level] for level in range(last + 1)]
    wide = max(sum(_width(boxes[key][0]) + GAP for key in level) for level in rows) + GAP
    place: dict[Any, tuple[float, int]] = {}
    for level, keys in enumerate(rows):
        at = (wide - sum(_width(boxes[key][0]) + GAP for key in keys) + GAP) / 2
        for key in keys:
            place[key] = at + _width(boxes[key][0]) / 2, 24 + level * ROW
            at += _width(boxes[key][0]) + GAP
    lines = [
        f'<line x1="{place[source][0]:.0f}" y1="{place[source][1] + 15}" x2="{place[key][0]:.0f}" '
        f'y2="{place[key][1] - 15}" stroke="#888" marker-end="url(#tip)"/>'
        for key, (_, _, reads) in boxes.items()
        for source in sorted(reads, key=lambda node: node.number)
    ]
    fills = {"input": "#dbe9f6", "product": "#fbe3c8", "output": "#e3f1e1"}
    for key, (label, kind, _) in boxes.items():
        (x, y), width = place[key], _width(label)
        lines.append(
            f'<rect x="{x - width / 2:.0f}" y="{y - 15}" width="{width}" height="30" rx="6" fill="{fills[kind]}" '
            f'stroke="#555"/><text x="{x:.0f}" y="{y + 5}" text-anchor="middle">{label}</text>'
        )
    tall = 48 + last * ROW
    return (
        f'<svg viewBox="0 0 {wide:.0f} {tall}" width="{wide:.0f}" style="max-width: 100%; height: auto" '
        'font-family="sans-serif" font-size="13" role="img" aria-label="Graph of one step">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>{"".join(lines)}</svg>\n'
    )


def _width(label: str) -> int:
    return max(BOX, 9 * len(label) + 16)


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    for one in chronode.models():
        (PICTURES / f"{one}.svg").write_text(picture(first_cell(one)), encoding="utf-8")
