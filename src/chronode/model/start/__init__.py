"""Linear start."""
