"""Draws docs/pictures/step_graph.png: the graph of the README's own cell, forward."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from chronode_bench.compiled import Leaky
from matplotlib.patches import FancyBboxPatch

from chronode.compiler._compiled import step_of
from chronode.compiler._partition import kept

SIGNS = {"add": "+", "mul": "×", "neg": "−", "product": "product"}
COLORS = {"input": "#dbe9f6", "param": "#e8e2f4", "product": "#fbe3c8"}


def levels(nodes):
    """Returns the distance of each node from the inputs; inputs and parameters stand one above their first user."""
    level = {}
    for node in nodes:
        level[node] = max((level[arg.node] + 1 for arg in node.args), default=0)
    for node in nodes:
        if not node.args:
            level[node] = min((level[user] - 1 for user in nodes if node in [a.node for a in user.args]), default=0)
    return level


def main() -> None:
    """Draws and saves the picture."""
    step = step_of(Leaky(3, 64))
    wanted, pending = set(), [view.node for view in step.outputs]
    while pending:
        node = pending.pop()
        wanted.add(node)
        pending.extend(arg.node for arg in node.args if arg.node not in wanted)
    nodes = sorted((node for node in wanted if node.op != "const"), key=lambda node: node.number)
    level, keep = levels(nodes), set(kept(step))
    names = dict(zip([n for n in nodes if n.op == "param"], ["b", "W", "U"], strict=True))
    figure, axes = plt.subplots(figsize=(8, 6))
    places = {}
    for height in sorted(set(level.values())):
        row = [node for node in nodes if level[node] == height]
        for i, node in enumerate(row):
            places[node] = ((i + 0.5) / len(row) * 10, -height)
    for node, (x, y) in places.items():
        for arg in node.args:
            if arg.node in places:
                axes.annotate("", (x, y + 0.22), (places[arg.node][0], places[arg.node][1] - 0.22),
                              arrowprops={"arrowstyle": "->", "color": "#777777"})  # fmt: skip
        text = {"state0": "h"}.get(str(node.detail), str(node.detail)) if node.op == "input" else names.get(node)
        text = text or SIGNS.get(node.op, node.op)
        size = "×".join(map(str, node.shape)) or "1"
        axes.add_patch(FancyBboxPatch((x - 0.66, y - 0.18), 1.32, 0.36, boxstyle="round,pad=0.04",
                                      facecolor=COLORS.get(node.op, "#e3f1e1"), edgecolor="#333333",
                                      linewidth=2.4 if node in keep else 0.8))  # fmt: skip
        axes.text(x, y, f"{text}  ({size})", ha="center", va="center", fontsize=9)
    (x, y) = places[step.outputs[0].node]
    axes.text(x, y - 0.45, "y and the new h", ha="center", fontsize=9)
    axes.set_xlim(0, 10)
    axes.set_ylim(min(y for _, y in places.values()) - 0.7, 0.5)
    axes.axis("off")
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "step_graph.png", dpi=140, bbox_inches="tight")


if __name__ == "__main__":
    main()
