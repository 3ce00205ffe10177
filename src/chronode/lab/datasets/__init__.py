"""Public data sets: catalogue, download and unpacking."""

from ._copies import hash_of
