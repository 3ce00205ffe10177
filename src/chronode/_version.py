"""The version of chronode; the package metadata reads it from this file."""

__version__ = "0.1.0"
