"""Memory layout of the values of a compiled step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ._node import Node


@dataclass
class Scratch:
    """Allocates the memory of a pass; values that are never needed at the same time share a place."""

    size: int = 0
    taken: list[tuple[int, int, int, int]] = field(default_factory=list)  # begin, end, first and last stage

    def place(self, width: int, life: tuple[int, int]) -> int:
        """Returns the offset of a value with `width` elements per row."""
        begin = 0
        for other_begin, other_end, first, last in sorted(self.taken):
            if last >= life[0] and first <= life[1] and begin < other_end and other_begin < begin + width:
                begin = other_end
        self.taken.append((begin, begin + width, *life))
        self.size = max(self.size, begin + width)
        return begin


def laid_out(nodes: Iterable[Node]) -> tuple[dict[Node, int], int]:
    """Lays out nodes one after another; returns the offset of each and the total size."""
    places: dict[Node, int] = {}
    size = 0
    for node in nodes:
        places[node] = size
        size += node.size
    return places, size
