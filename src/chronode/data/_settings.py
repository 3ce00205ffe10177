"""Settings of readers and splits: their defaults and choices; imported before anything large."""

from __future__ import annotations

PARTS = (0.7, 0.15, 0.15)
"""Fractions of the training, validation and test part."""
VALIDATION = PARTS[1] / (PARTS[0] + PARTS[1])
"""Share of the series that are not tested on which validates."""

CLIP = ("auto", "on", "off")
"""Whether values are clipped."""

GAPS = ("keep", "cap", "log")
"""Treatment of long gaps."""
