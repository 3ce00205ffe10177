"""Public data sets: catalogue, download and unpacking."""
