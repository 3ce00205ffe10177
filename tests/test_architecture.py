"""Packages import from their left, never from their right; docs/architecture.md has the picture."""

import ast
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "chronode"

# A package may import from the packages of earlier lines, and from itself. Beside each other on one line: neither
# imports the other.
ORDER = """
_version settings
system
storage
kernels data
compiler
nn
model
training
judge
runs
search
estimators export stream hub mlflow
testing
report
serve
cli
lab
""".strip().splitlines()
LINE = {name: number for number, line in enumerate(ORDER) for name in line.split()}


def package_of(dotted: str) -> str:
    return dotted.split(".")[1] if "." in dotted else "chronode"


def imports(path: Path) -> set[str]:
    """The packages that a file imports, also inside functions."""
    module = ("chronode", *path.relative_to(SOURCE).with_suffix("").parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = module[: -node.level]
            names = [".".join((*base, node.module))] if node.module else [".".join((*base, a.name)) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {package_of(name) for name in names if name.startswith("chronode.")}
    return found


def test_every_package_has_its_place():
    packages = {path.parent.name if path.name == "__init__.py" else path.stem for path in SOURCE.glob("*.py")}
    packages |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages - {"chronode"} <= LINE.keys()


def test_packages_import_from_their_left_only():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        own = package_of(".".join(("chronode", *path.relative_to(SOURCE).with_suffix("").parts)))
        if own in ("chronode", "__init__"):
            continue
        for other in imports(path) - {own}:
            if other in LINE and LINE[other] >= LINE[own]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_packages_use_each_other_through_their_interface():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = ("chronode", *path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or (
                not node.level and not (node.module or "").startswith("chronode")
            ):
                continue
            base = module[: -node.level] if node.level else ()
            target = [*base, *(node.module or "").split(".")] if node.module else list(base)
            names = [alias.name for alias in node.names]
            hidden = [part for part in (*target[2:], *names) if part.startswith("_") and part != "__version__"]
            if len(target) > 1 and target[1] != module[1] and hidden:
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} imports {names} from {'.'.join(target)}")
    assert not wrong, "\n".join(wrong)


WITHOUT_THE_LAB = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] == ["chronode", "lab"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from chronode.cli import main

main()
"""


def without_the_lab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_THE_LAB, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_everything_else_works_without_the_lab(tmp_path):
    rows = [f"{i},{t},{(i % 2) * t},{'ab'[i % 2]}" for i in range(30) for t in range(4)]
    (tmp_path / "data.csv").write_text("id,time,x,label\n" + "\n".join(rows) + "\n")
    columns = ("--target", "label", "--id", "id", "--time", "time", "--model", "gru", "--epochs", "1")
    done = without_the_lab(tmp_path, "train", "data.csv", *columns, "-o", "run")
    assert done.returncode == 0, done.stderr
    done = without_the_lab(tmp_path, "predict", "run", "data.csv", "-o", "scores.csv")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 31
    assert "reproduce" not in without_the_lab(tmp_path, "--help").stdout
    done = without_the_lab(tmp_path, "train", "bitstream", "--model", "gru", "-o", "other")
    assert done.returncode == 2 and "bitstream" in done.stderr


def test_pages_for_contributors_name_files_that_exist():
    root = SOURCE.parents[1]
    named = re.findall(r"`(src/chronode/[\w./]+)`", (root / "CONTRIBUTING.md").read_text())
    table = re.findall(r"\| `([\w/]+\.py)` \|$", (root / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert len(named) > 10 and len(table) > 15
    assert [name for name in named if not (root / name).exists()] == []
    assert [name for name in table if not (SOURCE / name).exists()] == []
