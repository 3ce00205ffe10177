"""Runs the examples in docs/gallery and writes a page for each: its code, what it printed, its plot. Runs the code of
the pages in docs/tutorials, and renews what they printed and their plots.

python docs/build_gallery.py                      # all of them
python docs/build_gallery.py stream hospital      # by name
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

os.environ.setdefault("MPLBACKEND", "svg")
GALLERY = Path(__file__).parent / "gallery"
ORDER = ("classify", "missing", "stream", "own_cell", "gradients", "long_memory")
TUTORIALS = Path(__file__).parent / "tutorials"
COMMAND = (sys.executable, "-c", "from chronode.cli import main; main()")
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)


def build(name: str, folder: Path = GALLERY) -> Path:
    """Runs one example and writes NAME.png and NAME.md into `folder`."""
    import matplotlib.pyplot as plt

    source = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring is not None
    title, _, text = docstring.partition("\n\n")
    printed = io.StringIO()
    plt.close("all")
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(GALLERY / f"{name}.py"), "exec"), {"__name__": "__main__"})
    plt.gcf().tight_layout()
    plt.savefig(folder / f"{name}.png", dpi=110)
    code = source.split('"""', 2)[2].strip()
    page = (
        f"# {title}\n\n{text}\n\n![{title}]({name}.png)\n\n```python\n{code}\n```\n\n```text\n{printed.getvalue()}```\n"
    )
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    return folder / f"{name}.md"


def build_tutorial(name: str, folder: Path = TUTORIALS) -> Path:
    """Runs the blocks of a page in order; writes the page with what they printed, and its plots as NAME-1.png, ..."""
    import matplotlib.pyplot as plt

    module = sys.modules["tutorial"] = ModuleType("tutorial")  # classes of the page can be pickled
    pictures = 0

    def renewed(block: re.Match[str]) -> str:
        nonlocal pictures
        language, code = block[1], block[2]
        printed = io.StringIO()
        if language == "sh":
            for line in code.splitlines():
                subprocess.run([*COMMAND, *shlex.split(line, comments=True)[1:]], check=True, capture_output=True)
            return block[0]
        plt.close("all")
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{name}.md", "exec"), module.__dict__)
        if plt.get_fignums():
            pictures += 1
            plt.gcf().tight_layout()
            plt.savefig(folder / f"{name}-{pictures}.png", dpi=110)
        text = f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else ""
        return f"```python\n{code}```\n{text}"

    source = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            page = BLOCK.sub(renewed, source)
        finally:
            os.chdir(before)
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    return folder / f"{name}.md"


if __name__ == "__main__":
    tutorials = sorted(path.stem for path in TUTORIALS.glob("*.md"))
    for chosen in sys.argv[1:] or (*ORDER, *tutorials):
        print(build_tutorial(chosen) if chosen in tutorials else build(chosen))
