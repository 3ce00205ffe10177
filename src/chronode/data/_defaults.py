"""Defaults that the command line shows before anything large is imported."""

PARTS = (0.7, 0.15, 0.15)
"""Fractions of the training, validation and test part."""
VALIDATION = PARTS[1] / (PARTS[0] + PARTS[1])
"""Share of the series that are not tested on which validates."""

CLIP = ("auto", "on", "off")
"""Whether values are clipped."""

GAPS = ("keep", "cap", "log")
"""Treatment of long gaps."""
