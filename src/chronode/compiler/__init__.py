"""Compiles a cell's step: traced once, turned into a graph with its backward, written as native code."""

from __future__ import annotations

from .trace import Unsupported

__all__ = ["Unsupported"]
