"""The documentation stays true: its code runs, it uses public names only, and the site builds without a warning.

A fenced block in `python`, `sh`, `console` or `yaml` is run, in the order of the page, in an empty folder; `bash` and
`text` are only shown. A `console` block also says what is printed: `...` stands for any lines.
"""

import ast
import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from commands import chronode, run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SLOW = {
    "gallery": "trains for minutes; `make gallery` runs it",
    "new-cell.md": "trains four models; `make gallery` runs it",
    "memory.md": "trains eight models; `make gallery` runs it",
    "sweep.md": "half a minute; tests/cli/test_cli_compare.py runs both commands on less data",
    "analysis_oscillators.md": "the last block trains 40 models at the paper's size",
}
ELSEWHERE = {
    "README.md": "tests/test_readme.py runs its commands on less data, and its Python below",
    "data.md": "tests/lab/datasets/test_data_examples.py",
    "files.md": "tests/data/test_files_guide.py",
}


def named(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else str(page)


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    return [(language, text) for language, text in BLOCK.findall(page.read_text()) if language in languages]


def cases() -> list:
    found = []
    for page in PAGES:
        if page.name in ELSEWHERE or not blocks(page, "python", "sh", "console", "yaml"):
            continue
        reason = SLOW.get(page.name) or SLOW.get(page.parent.name)
        marks = [pytest.mark.slow] if reason else []
        if page.name == "compiler.md":
            marks.append(pytest.mark.skipif(not shutil.which("g++"), reason="it compiles"))
        found.append(pytest.param(page, id=named(page), marks=marks))
    return found


@pytest.fixture
def registry_as_it_was(monkeypatch):
    """Cells that a page registers are gone after it."""
    from chronode.nn import _registry

    monkeypatch.setattr(_registry, "_models", dict(_registry._models))


@pytest.mark.parametrize("page", cases())
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, registry_as_it_was):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "svg")
    monkeypatch.setenv("CHRONODE_CACHE", str(tmp_path / "cache"))
    run_python = _python_runner(page, monkeypatch)
    for language, text in blocks(page, "python", "sh", "console", "yaml"):
        if language == "python":
            run_python(text)
        elif language == "yaml":
            (tmp_path / text.split("\n")[0].lstrip("# ")).write_text(text)
        elif language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                assert words[0] == "chronode", f"{line!r} cannot be run here: make it a `bash` block"
                chronode(*words[1:])
        else:
            for command in re.split(r"^\$ chronode ", text, flags=re.MULTILINE)[1:]:
                words, _, promised = command.partition("\n")
                done = chronode(*shlex.split(words), plots=".png" in promised)
                for line in promised.splitlines():
                    assert line == "..." or line in done.out + done.err, (words, line, done)


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, registry_as_it_was):
    monkeypatch.chdir(tmp_path)
    examples = blocks(ROOT / "README.md", "python")
    assert len(examples) >= 2
    run_python = _python_runner(ROOT / "README.md", monkeypatch)
    for _, text in examples:
        run_python(text)


def _python_runner(page: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs blocks of a page one after the other, in one namespace, without what they print."""
    module = ModuleType(re.sub(r"\W", "_", f"page_{page.stem}"))
    monkeypatch.setitem(sys.modules, module.__name__, module)  # classes of the page can be pickled

    def run_python(text: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text, named(page), "exec"), module.__dict__)

    return run_python


def undeclared(name: str) -> str | None:
    """Why the dotted `name` (chronode.data.split) is not public; None if it is."""
    value: object = importlib.import_module("chronode")
    for part in name.split(".")[1:]:
        if part.startswith("_") and part != "__version__":
            return f"{name} goes through {part}, which is private"
        if isinstance(value, ModuleType):
            if part not in getattr(value, "__all__", ()):
                return f"{name}: {value.__name__} does not export {part}"
            value = getattr(value, part)
        elif not hasattr(value, part):
            return f"{name}: there is no {part}"
        else:
            value = getattr(value, part)
    return None


def names_used(tree: ast.AST) -> set[str]:
    """The dotted names of chronode that some code imports or reads."""
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names if alias.name.split(".")[0] == "chronode"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "chronode":
            used |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            if re.fullmatch(r"chronode(\.\w+)+", dotted):
                used.add(dotted)
    return used


def names_in_prose(text: str) -> set[str]:
    """The dotted names in inline code and in the reference (`::: chronode.nn`)."""
    prose = BLOCK.sub("", text)
    inline = " ".join(re.findall(r"`([^`\n]+)`", prose))
    return set(re.findall(r"\bchronode(?:\.[A-Za-z_]\w*)+", inline)) | set(
        re.findall(r"^::: (\S+)", prose, re.MULTILINE)
    )


@pytest.mark.parametrize("page", PAGES + SCRIPTS, ids=named)
def test_only_public_names_are_used(page):
    text = page.read_text()
    sources = [text] if page.suffix == ".py" else [code for _, code in blocks(page, "python")]
    used = set().union(*(names_used(ast.parse(source)) for source in sources))
    if page.suffix == ".md":
        used |= names_in_prose(text)
    assert [why for name in sorted(used) if (why := undeclared(name))] == []


def test_undeclared_names_are_found():
    assert undeclared("chronode.data.split") is None
    assert "private" in undeclared("chronode.data._split.split")
    assert "does not export" in undeclared("chronode.data.merge_everything")
    code = "import chronode\nfrom chronode.data import Nothing\nchronode.nn._cell.Cell"
    assert names_used(ast.parse(code)) >= {"chronode.data.Nothing", "chronode.nn._cell.Cell"}


def public_packages() -> list[str]:
    package = importlib.import_module("chronode")
    return [name for name in package.__all__ if isinstance(getattr(package, name), ModuleType)]


def test_every_public_package_has_a_reference_page():
    for name in ["chronode", *public_packages()]:
        page = DOCS / "reference" / f"{name}.md"
        assert f"::: {'chronode' if name == 'chronode' else f'chronode.{name}'}" in page.read_text()


def test_the_table_of_models_is_what_the_command_prints():
    # In a process of its own: other tests register models too.
    printed = run("models", "--markdown", OMP_NUM_THREADS="1").stdout.strip()
    page = (DOCS / "models.md").read_text()
    assert f"<!-- models -->\n\n{printed}\n\n<!-- /models -->" in page, (
        "put the output of the command into docs/models.md"
    )


def test_the_number_of_models_is_right():
    listed = re.findall(r"^\| `[\w-]+` \|", (DOCS / "models.md").read_text(), re.MULTILINE)
    for page in (ROOT / "README.md", DOCS / "index.md"):
        assert re.search(rf"\b{len(listed)}\s+in all\b", page.read_text()), page


def test_the_files_that_contributing_names_exist():
    named_files = re.findall(
        r"`((?:src|tests|docs|results|benchmarks)/[\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert len(named_files) > 8
    assert [name for name in named_files if not (ROOT / name).exists()] == []


def test_the_costs_of_models_are_those_measured():
    measured = (ROOT / "benchmarks" / "compiled.md").read_text()
    listed = (DOCS / "models.md").read_text()
    table = (DOCS / "choosing.md").read_text().partition("<!-- cost -->")[2].partition("<!-- /cost -->")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \| ([\d,]+) \| (\w+) \|$", table, re.MULTILINE)
    assert len(rows) >= 8
    for name, milliseconds, parameters, time in rows:
        assert re.search(rf"^\| {name} \| \d+ \| {milliseconds} \|", measured, re.MULTILINE)
        assert re.search(rf"^\| `{name}` \| .* \| {time} \| {parameters} \|", listed, re.MULTILINE)


def test_every_example_of_the_gallery_is_short_and_on_its_page():
    scripts = sorted((DOCS / "gallery").glob("*.py"))
    assert len(scripts) >= 6
    for script in scripts:
        source = script.read_text()
        assert len(source.splitlines()) < 60, script
        page = script.with_suffix(".md").read_text()
        code = source.split('"""', 2)[2].strip()
        assert f"```python\n{code}\n```" in page, f"{script.name} has changed since `make gallery`"
        assert script.with_suffix(".png").stat().st_size > 5_000


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted((DOCS / "gallery").glob("*.py")), ids=lambda path: path.stem)
def test_a_page_of_the_gallery_shows_what_its_example_prints(script, tmp_path):
    build = (
        "import sys; from pathlib import Path; from build_gallery import build; build(sys.argv[1], Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", build, script.stem, str(tmp_path)], cwd=DOCS, check=True)
    now, then = (
        page.read_text().rpartition("```text")[2]
        for page in (tmp_path / f"{script.stem}.md", script.with_suffix(".md"))
    )
    number = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
    assert re.sub(number, "N", now) == re.sub(number, "N", then)
    printed, shown = (list(map(float, re.findall(number, text))) for text in (now, then))
    # The last bits of a training depend on the machine.
    assert printed and printed == pytest.approx(shown, rel=0.02, abs=0.02)


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda path: path.stem)
def test_a_tutorial_shows_its_plots_and_what_its_code_prints(page):
    """test_the_code_of_a_page_runs runs the code; `make gallery` renews the rest."""
    text = page.read_text()
    codes = [code for _, code in blocks(page, "python")]
    drawn = sum("plt.subplots" in code for code in codes)
    assert re.findall(r"!\[.+\]\((\S+)\)", text) == [f"{page.stem}-{place}.png" for place in range(1, drawn + 1)]
    for place in range(1, drawn + 1):
        assert (page.parent / f"{page.stem}-{place}.png").stat().st_size > 5_000
    assert len(re.findall(r"^```text\n[^`]", text, re.MULTILINE)) == sum("print(" in code for code in codes) > 0


def test_the_first_figure_shows_what_was_measured(tmp_path):
    script = shutil.copy(DOCS / "pictures" / "front.py", tmp_path)
    done = subprocess.run(
        [sys.executable, script], env={**os.environ, "MPLBACKEND": "svg"}, capture_output=True, text=True, check=True
    )
    ours, theirs = (float(gap) for gap in re.findall(r"largest difference (\S+)", done.stdout))
    assert ours < 1e-5 < 0.1 < theirs
    assert "pictures/front.png" in (DOCS / "index.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built strictly: a broken link, a missing page or an unknown reference fails."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_public_name_is_in_the_reference(site):
    for name in public_packages():
        page = (site / "reference" / f"{name}.html").read_text()
        page += (site / "reference" / "cells.html").read_text() if name == "nn" else ""
        module = importlib.import_module(f"chronode.{name}")
        exported = [n for n in module.__all__ if not isinstance(getattr(module, n), ModuleType)]
        assert [n for n in exported if f'id="chronode.{name}.{n}"' not in page] == []


def test_nothing_is_fetched_from_elsewhere_when_a_page_is_viewed(site):
    remote = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"(?:https?:)?//|<link[^>]*\shref=\"(?:https?:)?//")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    assert [page.name for page in pages if remote.search(page.read_text())] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text()), style
    assert 'data-md-component="source"' not in (site / "index.html").read_text()  # it would ask GitHub for the stars


def test_equations_are_rendered_by_the_files_of_the_site(site):
    for paper in ("ernn", "irnn", "ltc", "mmrnn", "unicornn"):
        page = (site / "papers" / f"{paper}.html").read_text()
        assert 'class="arithmatex"' in page
        assert "../assets/katex/katex.min.js" in page
    assert (site / "assets" / "katex" / "fonts" / "KaTeX_Main-Regular.woff2").exists()
