"""Lets PYTHONPATH decide where chronode is imported from, also if another checkout is installed as editable."""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildInplaceFinder"]
