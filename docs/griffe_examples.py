"""Extension of griffe for the reference: sections `Example:`, and the exports of lazy packages."""

import re

from griffe import Extension, Module, Object


class ExampleSections(Extension):
    """Renames the sections while the sources are read."""

    def on_instance(self, *, obj: Object, **_: object) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)


class LazyExports(Extension):
    """Takes the imports of a package with `lazy(__name__)` for its exports, as Python does."""

    def on_module_members(self, *, mod: Module, **_: object) -> None:
        """Called for every module when all its members are known."""
        if mod.is_init_module and {"TYPE_CHECKING", "lazy"} <= mod.members.keys():
            imported = {name for name, member in mod.members.items() if member.is_alias}
            mod.exports = sorted(imported - {"TYPE_CHECKING", "lazy"})
