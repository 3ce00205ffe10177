"""The package as a user meets it: its version, what importing it costs, and its native libraries."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from chronode.kernels import _library as library

ROOT = Path(__file__).parents[1]
needs_kernels = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built here")


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A copy of the loader that has not yet looked at the environment or loaded anything."""
    monkeypatch.delenv("CHRONODE_ISA", raising=False)
    spec = importlib.util.spec_from_file_location("untouched_loader", library.__file__)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_command_and_metadata_agree_on_the_version():
    command = Path(sys.executable).with_name("chronode")
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert importlib.metadata.version("chronode") in shown.split()


def test_import_loads_torch_and_numpy_only():
    optional = {"lightning", "matplotlib", "pandas", "pyarrow", "ray", "rich", "scipy", "sklearn", "torchdiffeq"}
    optional |= {"typer"}
    code = f"import sys, chronode; print(*sorted({optional!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


@needs_kernels
def test_the_best_library_is_loaded_once_for_all_threads(loader):
    with ThreadPoolExecutor(8) as pool:
        libraries = list(pool.map(lambda _: loader.library(), range(32)))
    assert all(lib is libraries[0] for lib in libraries)
    assert libraries[0].chronode_isa().decode() == loader.available_isas()[0]


@needs_kernels
@pytest.mark.parametrize("isa", library.available_isas())
def test_the_environment_chooses_the_instruction_set(loader, monkeypatch, isa):
    monkeypatch.setenv("CHRONODE_ISA", isa)
    assert loader.library().chronode_isa().decode() == isa
    assert loader.status().startswith(f"native kernels: {isa} (")


@pytest.mark.parametrize("ask", ["library", "status"])
def test_an_unknown_instruction_set_is_refused(loader, monkeypatch, ask):
    monkeypatch.setenv("CHRONODE_ISA", "v9")
    with pytest.raises(ValueError, match="CHRONODE_ISA='v9' is not an instruction set; choose one of v4"):
        getattr(loader, ask)()


def test_an_instruction_set_that_was_not_built_is_refused(loader, monkeypatch, tmp_path):
    monkeypatch.setenv("CHRONODE_KERNELS_DIR", str(tmp_path))
    monkeypatch.setenv("CHRONODE_ISA", "baseline")
    with pytest.raises(ValueError, match="'baseline' is not among the kernels built in .*: unset it"):
        loader.library()


def test_an_instruction_set_the_cpu_lacks_is_refused(loader, monkeypatch, tmp_path):
    for isa in ("baseline", "v3"):
        (tmp_path / f"libchronode_{isa}.so").touch()
    monkeypatch.setenv("CHRONODE_KERNELS_DIR", str(tmp_path))
    monkeypatch.setenv("CHRONODE_ISA", "v3")
    monkeypatch.setattr(loader, "_cpu_flags", lambda: frozenset({"sse2"}))
    with pytest.raises(ValueError, match="'v3' needs a CPU with abm, avx2, .*: set it to baseline"):
        loader.library()


def test_without_libraries_the_torch_path_runs(loader, monkeypatch, tmp_path):
    monkeypatch.setenv("CHRONODE_KERNELS_DIR", str(tmp_path))
    assert loader.library() is None
    assert loader.status().startswith("native kernels: none (they are not built in ")
    (tmp_path / "none.txt").write_text("the reason\n")
    assert loader.status() == "native kernels: none (the reason); the torch path runs"


def test_a_damaged_library_is_named(loader, monkeypatch, tmp_path):
    damaged = tmp_path / "libchronode_baseline.so"
    damaged.write_text("not a library")
    monkeypatch.setenv("CHRONODE_KERNELS_DIR", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"{damaged} cannot be loaded .* or reinstall chronode"):
        loader.library()


@needs_kernels
def test_a_library_of_another_version_is_refused(loader, monkeypatch):
    monkeypatch.setattr(loader, "ABI", loader.ABI + 1)
    with pytest.raises(
        RuntimeError, match=rf"have ABI {loader.ABI - 1}, chronode needs ABI {loader.ABI}: run `make clean setup`"
    ):
        loader.library()


@pytest.mark.slow
def test_installs_without_a_compiler(tmp_path):
    """With only the Python tools in PATH the install succeeds, and the package says why it has no kernels."""
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("CMakeLists.txt", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, sources)
    shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("lib", "__pycache__"))
    target = tmp_path / "installed"
    no_compiler = {**os.environ, "PATH": str(Path(sys.executable).parent), "CXX": "/nonexistent/c++"}
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", target, sources], env=no_compiler, check=True)

    # -S leaves out the .pth files, and with them the editable install that would come first.
    code = "from chronode.kernels import _library as library; print(library.__file__); print(library.status())"
    path = os.pathsep.join([str(target), sysconfig.get_path("purelib")])
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    file, status = answer.stdout.splitlines()
    assert Path(file).is_relative_to(target)
    reason = "no C++ compiler was found when chronode was installed"
    assert status == f"native kernels: none ({reason}); the torch path runs"
