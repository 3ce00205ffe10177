"""Benchmarks: the cases and measurements of `chronode bench`."""
