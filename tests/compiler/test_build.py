"""The cache of compiled kernels: private, whole, shared by processes, and done without where it cannot be had."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import chronode
from chronode import compiler
from chronode.compiler import _choice, _run, build

SOURCE = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'
CHILD = """
import os, torch, chronode
torch.manual_seed(0)
with chronode.backend("native"):
    y, _ = chronode.create("rnn-decay", 3, 5)(torch.ones(2, 4, 3))
print(float(y.sum()))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and nothing compiled in this process."""
    monkeypatch.setenv("CHRONODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_run, "_kernels", {})
    monkeypatch.setattr(_choice, "_noted", set())
    monkeypatch.setattr(build, "_hung", set())
    return tmp_path / "cache" / "compiled"


def libraries(cache):
    return sorted(cache.glob("*.so"))


def test_what_is_built_is_private_and_found_again(cache):
    assert not build.is_built(SOURCE)
    assert build.load(SOURCE).answer() == 42
    (path,) = libraries(cache)
    assert path.stat().st_mode & 0o777 == 0o700
    assert cache.stat().st_mode & 0o777 == 0o700
    assert build.is_built(SOURCE)
    written = path.stat().st_mtime_ns
    build.load(SOURCE)
    assert path.stat().st_mtime_ns == written
    assert not list(cache.glob(".build-*"))


def test_the_name_depends_on_source_compiler_and_flags(cache, monkeypatch):
    build.load(SOURCE)
    build.load(SOURCE + "// another\n")
    monkeypatch.setenv("CHRONODE_CXXFLAGS", "-O0")
    build.load(SOURCE)
    assert len(libraries(cache)) == 3


@pytest.mark.parametrize("damage", [*(pytest.param(own, marks=pytest.mark.slow) for own in (b"", b"not one")), None])
def test_a_damaged_library_is_built_again(cache, damage):
    build.load(SOURCE)
    (path,) = libraries(cache)
    whole = path.read_bytes()
    path.unlink()  # this process has mapped the file that is there
    path.write_bytes(whole[:-1000] + whole[-999:] if damage is None else damage)
    assert not build.is_built(SOURCE)
    subprocess.run([sys.executable, "-c", f"from chronode.compiler import build; build.load({SOURCE!r})"], check=True)
    assert build.is_built(SOURCE)


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_library_that_others_can_write_to_is_never_loaded(cache, mode):
    build.load(SOURCE)
    (path,) = libraries(cache)
    path.chmod(mode)
    assert not build.is_intact(path)


def test_a_link_is_never_loaded(cache):
    build.load(SOURCE)
    (path,) = libraries(cache)
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))
    assert not build.is_intact(path)


def test_a_cache_that_others_can_write_to_is_refused(cache):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.raises(build.BuildError, match=r"can be written by, another user: set CHRONODE_CACHE"):
        build.load(SOURCE)


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("CXX", "/nowhere/g++", "was not found"),
        ("CXX", "false", "the C.. compiler failed"),
        ("CHRONODE_CXXFLAGS", "-no-such-flag", "the C.. compiler failed"),
        ("CHRONODE_CACHE", "/proc/nowhere", "cannot be used"),
    ],
)
def test_without_compiler_or_cache_the_loop_runs_with_one_note(cache, monkeypatch, variable, value, reason):
    torch.manual_seed(0)
    layer, x = chronode.create("rnn-decay", 3, 5), torch.ones(2, 4, 3)
    expected, _ = layer(x)
    monkeypatch.setenv(variable, value)
    compiler.use(layer)
    with pytest.warns(UserWarning, match=f"runs as a loop: .*{reason}"):
        y, _ = layer(x)
    assert torch.equal(y, expected)


def test_without_a_home_folder_the_cure_is_named(monkeypatch):
    monkeypatch.delenv("CHRONODE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(build.BuildError, match="no home folder for compiled kernels: set CHRONODE_CACHE"):
        build.load(SOURCE)


UNUSABLE = {
    "no compiler": {"CXX": "/nowhere/g++"},
    "a file that cannot run": {"CXX": "{tmp}/no-program"},
    "a compiler that fails": {"CXX": "false"},
    "an unbalanced quote": {"CXX": "g++ 'x"},
    "an unbalanced quote in the flags": {"CHRONODE_CXXFLAGS": '-DX="'},
    "a limit that is no number": {"CHRONODE_COMPILE_TIMEOUT": "soon"},
    "a compiler that hangs": {"CXX": "{tmp}/hanging", "CHRONODE_COMPILE_TIMEOUT": "0.5"},
    "no home": {"CHRONODE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": ""},
    "another's home": {"CHRONODE_CACHE": "~nobody-of-that-name/cache"},
    "a cache for all": {"CHRONODE_CACHE": "{tmp}/open"},
    "a cache that is a file": {"CHRONODE_CACHE": "{tmp}/no-program"},
}
NAMED = {"an unbalanced quote": "CXX", "an unbalanced quote in the flags": "CHRONODE_CXXFLAGS"}
NAMED |= {"a limit that is no number": "CHRONODE_COMPILE_TIMEOUT", "a compiler that hangs": "CHRONODE_COMPILE_TIMEOUT"}


@pytest.fixture
def unusable(tmp_path, monkeypatch):
    """Sets an environment in which nothing can be built."""
    (tmp_path / "no-program").write_bytes(b"\x7fELF, not really")
    (tmp_path / "no-program").chmod(0o700)
    (tmp_path / "hanging").write_text("#!/bin/sh\nsleep 600\n")
    (tmp_path / "hanging").chmod(0o700)
    (tmp_path / "open" / "compiled").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)

    def put(case):
        monkeypatch.setattr(Path, "home", no_home)
        for name, value in UNUSABLE[case].items():
            monkeypatch.setenv(name, value.format(tmp=tmp_path))

    return put


def no_home():
    raise RuntimeError("no home")


@pytest.mark.parametrize("case", UNUSABLE)
def test_where_nothing_can_be_built_the_plan_is_the_loop_with_the_reason(cache, unusable, case):
    layer = chronode.create("rnn-decay", 3, 5)
    unusable(case)
    decision = compiler.plan(layer, steps=10_000_000)
    assert (decision.compiled, decision.failed) == (False, True)
    assert NAMED.get(case, "") in decision.text
    assert compiler.explain(layer.cells[0]).name == "loop"
    compiler.use(layer)
    with pytest.warns(UserWarning, match="runs as a loop"):
        layer(torch.ones(2, 4, 3))


def test_a_training_goes_on_without_a_compiler(cache, unusable):
    unusable("an unbalanced quote")
    x = np.random.default_rng(0).normal(size=(8, 50, 2)).astype("float32")
    model = chronode.SequenceClassifier("rnn-decay", hidden_size=3, epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_choice, "_BUILD_SECONDS", 0.0)
        model.fit(x, [0, 1] * 4)
    assert model.predict(x).shape == (8,)


def running(group):
    """The processes of a group that are neither gone nor killed; state and group follow the name in brackets."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, own = file.read_text().rpartition(")")[2].split()[:3]
            found += [file.parent.name] * (int(own) == group and state != "Z")
    return found


def test_a_compiler_that_hangs_is_waited_for_once(cache, tmp_path, monkeypatch):
    """Also if it hangs only when it compiles, and with the processes that it started."""
    script = 'case "$*" in *--version*) echo 1; exit;; esac\necho $$ > "$0.started"\nsleep 600 & sleep 600\n'
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\n{script}")
    slow.chmod(0o700)
    monkeypatch.setenv("CXX", str(slow))
    monkeypatch.setenv("CHRONODE_COMPILE_TIMEOUT", "1")
    for text in ("did not finish within 1 s", "did not finish before"):
        with pytest.raises(build.BuildError, match=text):
            build.load(SOURCE)
    assert not running(group=int(Path(f"{slow}.started").read_text()))


@pytest.mark.parametrize(
    ("mode", "owner", "fine"),
    [
        (0o755, 0, True),
        (0o1777, 0, True),
        (0o777, 0, False),
        (0o775, 0, True),
        (0o700, 65534, False),
        (0o755, 1, False),
    ],
)
def test_folders_above_the_cache_are_checked_too(tmp_path, monkeypatch, mode, owner, fine):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    above = tmp_path / "above"
    (above / "cache").mkdir(parents=True, mode=0o700)
    above.chmod(mode)
    os.chown(above, owner, 0)
    monkeypatch.setenv("CHRONODE_CACHE", str(above / "cache"))
    if fine:
        assert build.load(SOURCE).answer() == 42
    else:
        with pytest.raises(build.BuildError, match=f"another user.*{above}"):
            build.load(SOURCE)


def test_a_link_of_another_user_above_the_cache_is_refused(tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root can make a link of another user")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("CHRONODE_CACHE", str(tmp_path / "link"))
    build.load(SOURCE)
    os.lchown(tmp_path / "link", 65534, 65534)
    with pytest.raises(build.BuildError, match="another user"):
        build.load(SOURCE)


def test_two_processes_may_build_the_same_kernel_at_once(cache):
    children = [subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {child.communicate(timeout=300)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert len(answers) == 1
    assert len(libraries(cache)) == 1
    assert build.is_intact(libraries(cache)[0])


def test_a_build_that_is_killed_leaves_nothing_that_is_loaded(cache, tmp_path, monkeypatch):
    slow = tmp_path / "slow-compiler"
    slow.write_text('#!/bin/sh\ncase "$*" in *--version*) echo slow; exit;; esac\necho $$ > "$0.started"\nsleep 60\n')
    slow.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setenv("CXX", str(slow))
        child = subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=True)
        deadline = time.time() + 300
        while not Path(f"{slow}.started").exists() and time.time() < deadline:
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    assert not libraries(cache)
    assert list(cache.glob(".build-*"))
    os.utime(next(cache.glob(".build-*")), (0, 0))
    assert build.load(SOURCE).answer() == 42
    assert not list(cache.glob(".build-*"))


@pytest.fixture
def prebuilt(cache, tmp_path, monkeypatch):
    """The kernel of a cell as a wheel ships it, no compiler, and an empty cache."""
    layer = chronode.create("rnn-decay", 3, 5)
    source = compiler.source_of(layer.cells[0])
    folder = tmp_path / "prebuilt"
    folder.mkdir()
    path = folder / f"{build.prebuilt_name(source)}.so"
    build.Building(source, path).wait()
    path.chmod(0o755)  # of another user, mostly
    monkeypatch.setattr(build, "prebuilt_folder", lambda: folder)
    monkeypatch.delenv("CHRONODE_CXXFLAGS")
    monkeypatch.setenv("CXX", "false")
    return layer, path


def test_a_kernel_of_the_package_needs_no_compiler(prebuilt, cache):
    layer, path = prebuilt
    assert str(compiler.explain(layer.cells[0])) == "compiled"
    assert compiler.plan(layer, steps=10**8).compiled
    x = torch.randn(2, 4, 3)
    with chronode.backend("torch"):
        wanted = layer(x)[0]
    with chronode.backend("native"):
        torch.testing.assert_close(layer(x)[0], wanted)
    assert compiler.kernel_of(layer.cells[0]).library._name == str(path)
    assert not libraries(cache)
    assert compiler.explain(chronode.create("rnn-decay", 3, 6).cells[0]).name == "loop"


def test_a_damaged_kernel_of_the_package_is_not_loaded(prebuilt):
    layer, path = prebuilt
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert compiler.explain(layer.cells[0]).name == "loop"
    with chronode.backend("native"), pytest.raises(ValueError, match="compiler failed"):
        layer(torch.randn(2, 4, 3))


def test_flags_of_the_user_build_another_kernel(prebuilt, monkeypatch):
    layer, _ = prebuilt
    monkeypatch.setenv("CHRONODE_CXXFLAGS", "-O0")
    assert compiler.explain(layer.cells[0]).name == "loop"
