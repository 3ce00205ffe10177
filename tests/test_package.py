"""The package as a user meets it: its version, what importing it costs, and its native libraries."""

import importlib.metadata
import importlib.util
import os
import platform
import re
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
    optional = {"matplotlib", "pandas", "pyarrow", "ray", "rich", "scipy", "sklearn", "torchdiffeq"}
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
    for name in ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml"):
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


@pytest.mark.slow
@needs_kernels
def test_a_source_tree_builds_for_this_machine_and_wheels_for_all(loader, tmp_path):
    """By the targets of CMake: compiling them takes minutes."""

    def targets(*options):
        folder = tmp_path / str(len(options))
        tools = Path(sys.executable).parent
        make = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
        subprocess.run([tools / "cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", make, *options], check=True)
        return set(re.findall(r"libchronode_(\w+)\.so", (folder / "build.ninja").read_text()))

    best, *_ = loader.available_isas()
    assert targets() == {best}
    every = loader._ISAS if platform.machine() in ("x86_64", "AMD64") else ["baseline"]
    assert targets("-DCHRONODE_ISAS=all") == set(every)
    settings = re.findall(r"cmake\.define\.CHRONODE_ISAS\W+(\w+)", (ROOT / "pyproject.toml").read_text())
    assert settings == re.findall(r"cmake\.define\.CHRONODE_ISAS\W+(\w+)", (ROOT / "Makefile").read_text()) == ["all"]


def test_every_pinned_package_has_its_hashes_and_torch_is_not_pinned():
    """pip refuses a file in which one lacks; torch is installed before, in a build that depends on the machine."""
    text = (ROOT / "requirements.lock").read_text()
    lines = [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]
    assert len(lines) > 100
    for line in lines:
        requirement, *hashes = line.split(" --hash=")
        assert re.match(r"[a-z0-9.-]+==\S+( ;|\s|$)", requirement), requirement
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", found) for found in hashes), requirement
        assert not re.match(r"(torch|triton)==|nvidia-|cuda-", requirement)


def test_constraints_of_the_set_up_are_the_pinned_versions_without_hashes(tmp_path):
    """pip wants a hash for torch as well if one of its constraints has one."""
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^UNHASHED = (.*)$", makefile, re.MULTILINE)
    assert recipe is not None
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    subprocess.run(recipe[1].replace("$$", "$"), shell=True, cwd=tmp_path, check=True)
    lines = (tmp_path / "build" / "constraints.txt").read_text().splitlines()
    pinned = [line.rstrip(" \\") for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line]
    assert lines == pinned and not any("hash" in line or "\\" in line for line in lines)
