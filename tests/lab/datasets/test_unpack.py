"""Archives are unpacked within their folder and to a bounded size, or refused; what is harmful leaves nothing."""

import bz2
import gzip
import hashlib
import io
import lzma
import shutil
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_files import CONTENT, empty_cache, local_server, member, own_catalogue, sha256, tarred, zipped

from chronode.lab.datasets import _download as download
from chronode.lab.datasets import _unpack as unpack
from chronode.lab.datasets._catalogue import Remote

cache = pytest.fixture(empty_cache)
server = pytest.fixture(local_server)
known = pytest.fixture(own_catalogue)


@pytest.fixture
def into(tmp_path):
    """The folder to unpack to."""
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def zipped_link():
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    return buffer.getvalue()


EVIL = {
    "zip-up.zip": lambda: zipped({"../evil.txt": b"x"}),
    "zip-deep.zip": lambda: zipped({"a/../../evil.txt": b"x"}),
    "zip-root.zip": lambda: zipped({"/tmp/evil.txt": b"x"}),
    "zip-windows.zip": lambda: zipped({"C:\\evil.txt": b"x"}),
    "zip-backslash.zip": lambda: zipped({"..\\evil.txt": b"x"}),
    "zip-link.zip": zipped_link,
    "tar-up.tar.gz": lambda: tarred([(member("../evil.txt"), b"x")]),
    "tar-root.tar": lambda: tarred([(member("/tmp/evil.txt"), b"x")], "w"),
    "tar-symlink.tgz": lambda: tarred([(member("link.txt", tarfile.SYMTYPE, "/etc/passwd"), b"")]),
    "tar-hardlink.tar.xz": lambda: tarred([(member("link.txt", tarfile.LNKTYPE, "../x"), b"")], "w:xz"),
    "tar-device.tar.bz2": lambda: tarred([(member("null.txt", tarfile.CHRTYPE), b"")], "w:bz2"),
    "tar-fifo.tar": lambda: tarred([(member("pipe.txt", tarfile.FIFOTYPE), b"")], "w"),
    "inner.zip": lambda: zipped({"inside.zip": zipped({"../../evil.txt": b"x"})}),
    "twice.zip": lambda: zipped({"a/x.txt": b"1", "b/x.txt": b"2"}),
}


@pytest.mark.parametrize("name", EVIL)
def test_harmful_archives_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(EVIL[name]())
    into = tmp_path / "a" / "b"
    into.mkdir(parents=True)
    with pytest.raises(unpack.UnsafeArchive, match=r"outside its folder|link or a device|twice"):
        unpack.unpack(tmp_path / name, into, lambda path: path.count("/") == 0 and path.endswith(".txt"))
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink() or path.name.startswith("evil")]


@given(names=st.lists(st.text(alphabet="ab./\\\\:C~ ", min_size=1, max_size=8), min_size=1, max_size=4, unique=True))
@settings(deadline=None)
def test_whatever_the_names_nothing_is_written_outside(names):
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        (top / "into").mkdir()
        for archive, content in (
            ("a.zip", zipped(dict.fromkeys(names, b"x"))),
            ("a.tar", tarred([(member(name), b"x") for name in names], "w")),
        ):
            (top / archive).write_bytes(content)
            with suppress(unpack.UnsafeArchive):
                for path in unpack.unpack(top / archive, top / "into", lambda path: True):
                    assert (top / "into" / path).resolve().is_relative_to((top / "into").resolve())
            (top / archive).unlink()
            assert [path.name for path in top.iterdir()] == ["into"]
            shutil.rmtree(top / "into")
            (top / "into").mkdir()


def test_a_harmful_archive_leaves_nothing_in_the_cache(server, known, cache):
    content = zipped({"numbers.bin": CONTENT, "../evil.txt": b"x"})
    server.files["n.zip"] = content
    known(Remote("n.zip", (server.url("n.zip"),), f"sha256:{sha256(content)}"))
    with pytest.raises(download.DataError, match="would be written outside"):
        download.folder("numbers")
    assert sorted(path.name for path in cache.iterdir()) == ["downloads", "locks"]


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.txt.gz"])
def test_a_bomb_is_stopped_by_what_it_writes(tmp_path, into, name):
    zeros = bytes(1 << 22)
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb.txt", zeros)
    else:
        (tmp_path / name).write_bytes(gzip.compress(zeros))
    with pytest.raises(unpack.UnsafeArchive, match="unpacks to more than 1,000,000 bytes"):
        unpack.unpack(tmp_path / name, into, lambda path: True, largest=1_000_000)
    assert sum(path.stat().st_size for path in into.rglob("*")) <= 1_000_000


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "MOST_FILES", 3)
    (tmp_path / "many.zip").write_bytes(zipped({str(i): b"" for i in range(4)}))
    with pytest.raises(unpack.UnsafeArchive, match="more than 3 files"):
        unpack.unpack(tmp_path / "many.zip", tmp_path, lambda path: False)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.xz", "x.txt.gz"])
def test_a_truncated_archive_is_reported_as_such(tmp_path, into, name):
    noise = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(2000))
    whole = {
        "a.zip": lambda: zipped({"x.txt": noise}),
        "a.tar.gz": lambda: tarred([(member("x.txt"), noise)]),
        "a.tar.xz": lambda: tarred([(member("x.txt"), noise)], "w:xz"),
        "x.txt.gz": lambda: gzip.compress(noise),
    }[name]()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(unpack.UnsafeArchive, match="damaged or truncated"):
        unpack.unpack(tmp_path / name, into, lambda path: path == "x.txt")


def test_archives_within_archives_and_folders_above_are_looked_through(tmp_path, into):
    inner = zipped({"data set/x.txt": b"1", "__MACOSX/data set/._x.txt": b"?", "data set/readme": b"?"})
    outer = zipped({"v1/inner.zip": inner, "v1/y.txt.gz": gzip.compress(b"2"), "v1/about.names": b"?"})
    (tmp_path / "outer.zip").write_bytes(outer)
    written = unpack.unpack(tmp_path / "outer.zip", into, lambda path: path in ("data set/x.txt", "y.txt"))
    assert sorted(written) == ["data set/x.txt", "y.txt"]
    assert (into / "data set" / "x.txt").read_bytes() == b"1"
    assert (into / "y.txt").read_bytes() == b"2"
    assert sorted(path.name for path in into.iterdir()) == ["data set", "y.txt"]


@pytest.mark.parametrize("name", ["a.tar.bz2", "a.tar.gz", "a.tar.xz", "a.txt.bz2", "a.txt.gz", "a.txt.xz"])
def test_a_damaged_archive_is_named(tmp_path, name):
    packed = {"bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress}
    content = tarred([(member("x.txt"), b"1 2 3" * 10_000)], "w:") if ".tar." in name else b"1 2 3" * 10_000
    whole = packed[name.rpartition(".")[2]](content)
    for damaged in (whole[: len(whole) // 2], whole[:12] + b"\0" * 8 + whole[20:], b"BZh9" + bytes(50)):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(unpack.UnsafeArchive, match=name):
            unpack.unpack(tmp_path / name, tmp_path, lambda path: path == "a.txt" or path == "x.txt")
        (tmp_path / "a.txt").unlink(missing_ok=True)
        (tmp_path / "x.txt").unlink(missing_ok=True)
