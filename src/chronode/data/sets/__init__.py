"""The public data sets: catalogue, download, unpacking."""
