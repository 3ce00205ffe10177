"""Runs the examples in docs/gallery and writes a page for each: its code, what it printed, its plot.

python docs/build_gallery.py            # all of them
python docs/build_gallery.py stream     # by name
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "svg")
GALLERY = Path(__file__).parent / "gallery"
ORDER = ("classify", "missing", "stream", "own_cell", "gradients", "long_memory")


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


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ORDER:
        print(build(chosen))
