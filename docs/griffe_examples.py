"""Lets the reference show `Example:` sections of docstrings as code: the parser knows `Examples:` only."""

import re

from griffe import Extension, Object


class ExampleSections(Extension):
    """Renames the sections while the sources are read."""

    def on_instance(self, *, obj: Object, **_: object) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
