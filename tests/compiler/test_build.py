"""The cache of compiled kernels: private, whole, shared by processes, and done without where it cannot be had."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import chronode
from chronode import compiler
from chronode.compiler import _build as build
from chronode.compiler import _choice, _run

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


@pytest.mark.parametrize("damage", [b"", b"not a library", None])
def test_a_damaged_library_is_built_again(cache, damage):
    build.load(SOURCE)
    (path,) = libraries(cache)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000] + whole[-999:] if damage is None else damage)
    assert not build.is_built(SOURCE)
    subprocess.run([sys.executable, "-c", f"from chronode.compiler import _build; _build.load({SOURCE!r})"], check=True)
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
