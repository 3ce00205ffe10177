"""Exported models as libraries of the tools for microcontrollers: their files are templates in `packages/`."""

from __future__ import annotations

import re
from pathlib import Path

from .._version import __version__
from ..data import is_number, seconds_of
from ..storage import replacing
from ._c_constants import number
from ._c_texts import makefile
from ._deployment import Deployment

SOURCES = "src"
"""Folder of the model within a package."""
_TEMPLATES = Path(__file__).with_name("packages")
PACKAGES = tuple(sorted(folder.name for folder in _TEMPLATES.iterdir() if folder.is_dir()))
_GAP = re.compile(r"@GAP\((.*?)\)@")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


def arrange(folder: Path, files: tuple[str, ...], name: str, package: str, deployment: Deployment) -> tuple[str, ...]:
    """Moves the files of a C export to their places in a package, and adds the files of the tool."""
    places = {
        file: "test/check.c" if file == "check.c" else f"{SOURCES}/{file}" for file in files if file != "Makefile"
    }
    for file, path_in_package in places.items():
        with replacing(folder / path_in_package) as draft:
            draft.write_bytes((folder / file).read_bytes())
        (folder / file).unlink()
    texts = {"Makefile": makefile(f"-I{SOURCES} {SOURCES}/{name}.c test/check.c")}
    release, template, unit = _RELEASE.match(__version__), _TEMPLATES / package, deployment.unit
    values = {"NAME": name, "UPPER": name.upper(), "FOLDER": folder.resolve().name}
    values |= {
        "VERSION": release[0] if release else "0.0.0",
        "SUMMARY": _plain(f"{deployment.model.title}, by chronode"),
    }
    for path in sorted(path for path in template.rglob("*") if path.is_file()):
        texts[path.relative_to(template).as_posix()] = _filled(path.read_text(encoding="utf-8"), values, unit)
    for path_in_package, text in texts.items():
        with replacing(folder / path_in_package) as draft:
            draft.write_text(text, encoding="utf-8")
    return (*places.values(), *texts)


def _filled(text: str, values: dict[str, str], unit: str) -> str:
    """Fills in a template."""
    text = _GAP.sub(lambda gap: _gap(gap[1], unit), text)
    return re.sub("@([A-Z]+)@", lambda name: values[name[1]], text)


def _plain(text: str) -> str:
    """Returns text that every tool takes without quotes."""
    return re.sub(r"[^\w .,()+-]", " ", text)


def _gap(milliseconds: str, unit: str) -> str:
    """Returns a gap in C, in the unit of time of the model; 1 if time is counted in steps or has no unit.

    Example:
        >>> _gap("now - before", "hours"), _gap("now - before", "step")
        ('(float)(now - before) / 3600000.0f', '1.0f')
    """
    if unit == "step" or is_number(unit):
        return "1.0f"
    return f"(float)({milliseconds}) / {number(1000 * seconds_of(unit)[1])}"
