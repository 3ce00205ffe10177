"""Downloads from a real server on this machine, in threads and in processes."""

import gzip
import hashlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import tarfile
import tempfile
import threading
import time
import zipfile
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from chronode.data import catalogue, copies, download, unpack
from chronode.data.catalogue import DataSet, Remote, Variant

CONTENT = bytes(range(256)) * 4096  # 1 MiB
NOWHERE = "http://127.0.0.1:9/numbers.bin"  # nobody listens there


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """Serves `files`; can break off, be slow, or know nothing of ranges. `requests` is (path, Range header)."""

    def __init__(self):
        self.files, self.requests = {}, []
        self.ranges, self.tagged, self.break_after, self.pause = True, True, None, 0.0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                server.requests.append((self.path, self.headers["Range"]))
                server.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def url(self, name):
        return f"http://127.0.0.1:{self.http.server_port}/{name}"

    def answer(self, request):
        content = self.files.get(request.path[1:])
        if content is None:
            return request.send_error(404)
        tag = f'"{sha256(content)[:8]}"'
        asked, start = request.headers["Range"], 0
        if asked and self.ranges and request.headers["If-Range"] == tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return request.send_error(416)
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            request.send_response(200)
        if self.tagged:
            request.send_header("ETag", tag)
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        end = len(content) if self.break_after is None else min(start + self.break_after, len(content))
        try:
            for at in range(start, end, 1 << 16):
                request.wfile.write(content[at : min(at + (1 << 16), end)])
                time.sleep(self.pause)
        except OSError:
            return None  # the other side has gone


@pytest.fixture
def server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHRONODE_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("CHRONODE_DATA_MIRROR", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def known(monkeypatch):
    """Makes `numbers` a data set of the given remote files."""

    def register(*remote, reads=("numbers.bin",), variants=(), name="numbers"):
        facts = dict.fromkeys(("title", "publisher", "page", "licence", "cite"), "")
        made = DataSet(name=name, remote=remote, reads=reads, variants=variants, **facts)
        monkeypatch.setattr(catalogue, "_read", lambda: {name: made})
        return made

    return register


def numbers(url, content=CONTENT, hash=None):
    return Remote("numbers.bin", (url,), f"sha256:{sha256(content)}" if hash is None else hash)


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(infos, mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for info, content in infos:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


# --- download, cache, resume


def test_a_file_is_downloaded_once_and_then_used_without_the_network(server, known, cache):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    folder = download.folder("numbers")
    assert folder == cache / "numbers"
    assert (folder / "numbers.bin").read_bytes() == CONTENT
    server.files.clear()
    assert download.folder("numbers") == folder
    assert download.notes("numbers") == ()
    assert server.requests == [("/numbers.bin", None)]
    assert not list((cache / "downloads").glob("numbers*"))  # what is unpacked needs no archive


def test_a_broken_download_asks_only_for_the_rest(server, known, cache):
    server.files["numbers.bin"] = CONTENT
    server.break_after = 300_000
    known(numbers(server.url("numbers.bin")))
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT
    starts = [0 if asked is None else int(asked[6:-1]) for _, asked in server.requests]
    assert starts == [0, 300_000, 600_000, 900_000]


def test_a_download_that_was_given_up_goes_on_next_time(server, known, cache, monkeypatch):
    monkeypatch.setattr("chronode.data.resume.ATTEMPTS", 1)
    server.files["numbers.bin"] = CONTENT
    server.break_after = 500_000
    known(numbers(server.url("numbers.bin")))
    with pytest.raises(download.DataError, match="ended after 500,000 of 1,048,576|connection broke"):
        download.folder("numbers")
    assert (cache / "downloads" / "numbers.bin.part").read_bytes() == CONTENT[:500_000]
    assert not (cache / "numbers").exists()
    server.break_after = None
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT
    assert server.requests[-1] == ("/numbers.bin", "bytes=500000-")


@pytest.mark.parametrize("fault", ["no ranges", "no tag", "another file", "nothing behind it"])
def test_a_part_that_cannot_be_continued_is_downloaded_again(server, known, cache, fault):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    downloads = cache / "downloads"
    downloads.mkdir(parents=True)
    (downloads / "numbers.bin.part").write_bytes(CONTENT if fault == "nothing behind it" else b"x" * 1000)
    server.ranges = fault != "no ranges"
    if fault != "no tag":
        tag = "another" if fault == "another file" else sha256(CONTENT)[:8]
        (downloads / "numbers.bin.part.tag").write_text(f'"{tag}"')
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT


def test_without_a_tag_from_the_server_nothing_is_resumed(server, known, cache, monkeypatch):
    monkeypatch.setattr("chronode.data.resume.ATTEMPTS", 1)
    server.files["numbers.bin"], server.tagged, server.break_after = CONTENT, False, 500_000
    known(numbers(server.url("numbers.bin")))
    with pytest.raises(download.DataError):
        download.folder("numbers")
    server.break_after = None
    download.folder("numbers")
    assert [asked for _, asked in server.requests] == [None, None]


def test_a_terminal_shows_a_progress_bar(server, known):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    screen = io.StringIO()
    download.fetch("numbers", console=Console(file=screen, force_terminal=True, width=100))
    assert "numbers.bin" in screen.getvalue()
    assert "1.0/1.0 MB" in screen.getvalue()


def test_without_a_setting_the_users_cache_folder_is_used(monkeypatch):
    monkeypatch.delenv("CHRONODE_DATA")
    assert download.cache_folder() == Path(pooch.os_cache("chronode"))


def test_the_second_address_is_tried(server, known):
    server.files["copy.bin"] = CONTENT
    known(Remote("numbers.bin", (server.url("gone.bin"), server.url("copy.bin")), f"sha256:{sha256(CONTENT)}"))
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT


# --- what is not right is refused


@pytest.mark.parametrize("bad", [CONTENT[:-1], CONTENT[:-1] + b"x", b""])
def test_an_altered_or_truncated_download_is_refused_and_removed(server, known, cache, bad):
    server.files["numbers.bin"] = bad
    known(numbers(server.url("numbers.bin")))
    with pytest.raises(download.DataError, match="is not what it should be"):
        download.folder("numbers")
    assert not (cache / "numbers").exists()
    assert [path.name for path in (cache / "downloads").iterdir()] == []
    server.files["numbers.bin"] = CONTENT
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT


def test_an_md5_is_enough_where_only_that_is_published(server, known):
    server.files["numbers.bin"] = CONTENT
    url = server.url("numbers.bin")
    known(numbers(url, hash="md5:" + hashlib.md5(b"other").hexdigest()))
    with pytest.raises(download.DataError, match="is not what it should be"):
        download.folder("numbers")
    known(numbers(url, hash="md5:" + hashlib.md5(CONTENT).hexdigest()))
    assert (download.folder("numbers") / "numbers.bin").is_file()


def test_without_a_published_hash_the_first_download_is_remembered(server, known, cache, capsys):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin"), hash=""))
    download.folder("numbers")
    told = capsys.readouterr().err
    assert f"no hash is published; remembered sha256 {sha256(CONTENT)} from now on" in told
    assert (cache / "downloads" / "numbers.bin.sha256").read_text() == f"{sha256(CONTENT)}  numbers.bin\n"
    server.files["numbers.bin"] = b"other"
    with pytest.raises(download.DataError, match="is not what it should be") as caught:
        download.fetch("numbers", again=True)
    first = cache / "downloads" / "numbers.bin.sha256"
    assert f"remove {first}" in str(caught.value)
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT  # the old copy stays
    first.unlink()
    assert (download.fetch("numbers", again=True).folder / "numbers.bin").read_bytes() == b"other"


def test_a_web_page_in_place_of_an_archive_is_not_what_is_remembered(server, known, cache):
    server.files["n.zip"] = b"<html>please log in</html>"
    known(Remote("n.zip", (server.url("n.zip"),)))
    with pytest.raises(download.DataError, match=r"n.zip is damaged or truncated"):
        download.folder("numbers")
    assert sorted(path.name for path in (cache / "downloads").iterdir()) == ["n.zip.refused"]
    server.files["n.zip"] = zipped({"numbers.bin": CONTENT})
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT


def test_an_archive_without_the_files_is_refused(server, known, cache):
    server.files["n.zip"] = zipped({"other.bin": CONTENT})
    known(Remote("n.zip", (server.url("n.zip"),)))
    with pytest.raises(download.DataError, match=r"n.zip has none of the files of numbers \(numbers.bin\)"):
        download.folder("numbers")
    assert not (cache / "numbers").exists()


def test_the_publishers_known_files_decide_when_the_archive_has_no_hash(server, known, cache):
    right = Variant(published=True, files={"numbers.bin": sha256(CONTENT)})
    server.files["n.zip"] = zipped({"numbers.bin": CONTENT[:-1]})
    known(Remote("n.zip", (server.url("n.zip"),)), variants=(right,))
    with pytest.raises(download.DataError, match="numbers.bin has the sha256"):
        download.folder("numbers")
    assert not (cache / "numbers").exists()


def test_where_the_files_are_known_their_archive_may_change(server, known, cache):
    known(
        Remote("n.zip", (server.url("n.zip"),)),
        variants=(Variant(published=True, files={"numbers.bin": sha256(CONTENT)}),),
    )
    for readme in (b"old", b"new"):
        server.files["n.zip"] = zipped({"numbers.bin": CONTENT, "readme": readme})
        download.fetch("numbers", again=True)
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT
    assert not list((cache / "downloads").iterdir())


@pytest.mark.parametrize("change", ["alter", "truncate", "remove", "add"])
def test_a_cached_copy_that_was_changed_is_refused(server, known, cache, change):
    content = zipped({"a.txt": b"one", "b.txt": b"two"})
    server.files["n.zip"] = content
    known(Remote("n.zip", (server.url("n.zip"),), f"sha256:{sha256(content)}"), reads=("*.txt",))
    folder = download.folder("numbers")
    match change:
        case "alter":
            (folder / "a.txt").write_bytes(b"0ne")
        case "truncate":
            (folder / "a.txt").write_bytes(b"on")
        case "remove":
            (folder / "a.txt").unlink()
        case "add":
            (folder / "c.txt").write_bytes(b"three")
    with pytest.raises(download.DataError, match=r"is refused, it is no known copy.*fetch numbers --again"):
        download.folder("numbers")
    download.fetch("numbers", again=True)
    assert (download.folder("numbers") / "a.txt").read_bytes() == b"one"
    assert not (folder / "c.txt").exists()


def test_a_change_that_keeps_size_and_time_is_found_by_hashing_anew(server, known):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    path = download.folder("numbers") / "numbers.bin"
    download.folder("numbers")
    before = path.stat()
    path.write_bytes(CONTENT[:-1] + b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert download.folder("numbers") == path.parent  # remembered: nothing is hashed
    with pytest.raises(download.DataError, match="joint sha256"):
        download.present("numbers", anew=True)


def test_a_wrong_file_put_into_the_downloads_is_set_aside(server, known, cache, capsys):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "numbers.bin").write_bytes(b"wrong")
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT
    assert (cache / "downloads" / "numbers.bin.refused").read_bytes() == b"wrong"
    assert "numbers.bin is refused: its sha256 is" in capsys.readouterr().err


# --- offline


def test_offline_one_message_has_all_that_is_needed(known, cache):
    known(numbers(NOWHERE))
    with pytest.raises(download.DataError) as caught:
        download.folder("numbers")
    told = str(caught.value)
    for part in ("numbers.bin", NOWHERE, f"sha256:{sha256(CONTENT)}", str(cache / "downloads" / "numbers.bin")):
        assert part in told
    assert "CHRONODE_DATA_MIRROR" in told


def test_a_file_put_where_the_message_says_is_used_without_the_network(known, cache):
    known(numbers(NOWHERE))
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "numbers.bin").write_bytes(CONTENT)
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT


def test_what_is_simulated_says_how_to_build_it_and_is_kept(known, cache):
    known(reads=("trace_*.npy",))
    with pytest.raises(download.DataError, match="chronode data build numbers"):
        download.folder("numbers")
    with pytest.raises(download.DataError, match="none of the files"):
        download.keep("numbers")
    (cache / "numbers").mkdir()
    (cache / "numbers" / "trace_0.npy").write_bytes(b"1")
    assert download.keep("numbers", "seed 3").folder == download.folder("numbers")
    assert download.notes("numbers") == ("seed 3",)


def test_an_unknown_name_is_told_with_the_near_ones():
    with pytest.raises(ValueError, match="Did you mean 'mnist'"):
        download.folder("mnits")


def test_a_cache_that_cannot_be_written_is_told(known, cache):
    cache.write_text("a file, not a folder")
    known(numbers(NOWHERE))
    with pytest.raises(download.DataError, match="set CHRONODE_DATA"):
        download.folder("numbers")


# --- the mirror


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    folder = tmp_path / "mirror"
    (folder / "numbers").mkdir(parents=True)
    monkeypatch.setenv("CHRONODE_DATA_MIRROR", str(folder))
    return folder / "numbers"


@contextmanager
def read_only(folder):
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(path.name for path in folder.rglob("*"))
    yield
    assert sorted(path.name for path in folder.rglob("*")) == before
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


def test_a_read_only_mirror_is_used_in_place_before_anything_else(known, mirror, cache):
    whole = Variant(published=True, files={"numbers.bin": sha256(CONTENT)})
    part = Variant(note="partial: one byte", files={"numbers.bin": sha256(b"1")})
    known(Remote("archive.zip", (NOWHERE,)), variants=(whole, part))
    (mirror / "numbers.bin").write_bytes(b"1")
    (mirror / "README").write_text("files that nobody reads may lie beside")
    with read_only(mirror):
        assert download.folder("numbers") == mirror
        assert download.notes("numbers") == ("partial: one byte",)
        assert not (cache / "numbers").exists()


@pytest.mark.parametrize("bad", [b"2", b""])
def test_a_wrong_mirror_is_refused_not_passed_over(server, known, mirror, bad):
    variant = Variant(files={"numbers.bin": sha256(b"1")})
    known(Remote("archive.zip", (server.url("archive.zip"),)), variants=(variant,))
    (mirror / "numbers.bin").write_bytes(bad)
    with pytest.raises(download.DataError, match=f"numbers.bin has the sha256 {sha256(bad)}, not {sha256(b'1')}"):
        download.folder("numbers")
    assert server.requests == []


def test_a_file_of_no_variant_among_the_read_ones_is_refused(known, mirror):
    variant = Variant(files={"batch_1.bin": sha256(b"1")})
    known(Remote("archive.zip", (NOWHERE,)), reads=("batch_*.bin",), variants=(variant,))
    (mirror / "batch_1.bin").write_bytes(b"1")
    assert download.folder("numbers") == mirror
    (mirror / "batch_2.bin").write_bytes(b"2")
    with pytest.raises(download.DataError, match="batch_2.bin does not belong to it"):
        download.folder("numbers")


def test_a_mirror_may_have_the_publishers_archive_instead(known, mirror, cache):
    content = zipped({"top/numbers.bin": CONTENT})
    known(Remote("n.zip", (NOWHERE,), f"sha256:{sha256(content)}"))
    (mirror / "n.zip").write_bytes(content)
    with read_only(mirror):
        assert download.folder("numbers") == cache / "numbers"
    (mirror / "n.zip").write_bytes(content[:-1])
    with pytest.raises(download.DataError, match=r"n.zip is refused: its sha256 is"):
        download.fetch("numbers", again=True)


def test_many_files_are_known_by_one_hash(known, mirror):
    files = {f"s{i}.txt": str(i).encode() for i in range(20)}
    lines = "".join(f"{name} {sha256(content)}\n" for name, content in sorted(files.items()))
    known(Remote("n.zip", (NOWHERE,)), reads=("s*.txt",), variants=(Variant(tree=sha256(lines.encode()), count=20),))
    for name, content in files.items():
        (mirror / name).write_bytes(content)
    assert download.folder("numbers") == mirror
    (mirror / "s3.txt").write_bytes(b"4")
    with pytest.raises(download.DataError, match="20 files with the joint sha256"):
        download.folder("numbers")


def test_a_mirror_that_is_no_folder_is_told(known, monkeypatch, tmp_path):
    monkeypatch.setenv("CHRONODE_DATA_MIRROR", str(tmp_path / "nothing"))
    known(numbers(NOWHERE))
    with pytest.raises(ValueError, match="CHRONODE_DATA_MIRROR=.*is not a folder"):
        download.folder("numbers")


# --- unpacking


def info(name, kind=tarfile.REGTYPE, link=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


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
    "tar-up.tar.gz": lambda: tarred([(info("../evil.txt"), b"x")]),
    "tar-root.tar": lambda: tarred([(info("/tmp/evil.txt"), b"x")], "w"),
    "tar-symlink.tgz": lambda: tarred([(info("link.txt", tarfile.SYMTYPE, "/etc/passwd"), b"")]),
    "tar-hardlink.tar.xz": lambda: tarred([(info("link.txt", tarfile.LNKTYPE, "../x"), b"")], "w:xz"),
    "tar-device.tar.bz2": lambda: tarred([(info("null.txt", tarfile.CHRTYPE), b"")], "w:bz2"),
    "tar-fifo.tar": lambda: tarred([(info("pipe.txt", tarfile.FIFOTYPE), b"")], "w"),
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
            ("a.tar", tarred([(info(name), b"x") for name in names], "w")),
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
def test_a_bomb_is_stopped_by_what_it_writes(tmp_path, name):
    zeros = bytes(1 << 22)
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb.txt", zeros)
    else:
        (tmp_path / name).write_bytes(gzip.compress(zeros))
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(unpack.UnsafeArchive, match="unpacks to more than 1,000,000 bytes"):
        unpack.unpack(tmp_path / name, into, lambda path: True, largest=1_000_000)
    assert sum(path.stat().st_size for path in into.rglob("*")) <= 1_000_000


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "MOST_FILES", 3)
    (tmp_path / "many.zip").write_bytes(zipped({str(i): b"" for i in range(4)}))
    with pytest.raises(unpack.UnsafeArchive, match="more than 3 files"):
        unpack.unpack(tmp_path / "many.zip", tmp_path, lambda path: False)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.xz", "x.txt.gz"])
def test_a_truncated_archive_is_told_as_such(tmp_path, name):
    noise = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(2000))
    whole = {
        "a.zip": lambda: zipped({"x.txt": noise}),
        "a.tar.gz": lambda: tarred([(info("x.txt"), noise)]),
        "a.tar.xz": lambda: tarred([(info("x.txt"), noise)], "w:xz"),
        "x.txt.gz": lambda: gzip.compress(noise),
    }[name]()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(unpack.UnsafeArchive, match="damaged or truncated"):
        unpack.unpack(tmp_path / name, into, lambda path: path == "x.txt")


def test_archives_within_archives_and_folders_above_are_looked_through(tmp_path):
    inner = zipped({"data set/x.txt": b"1", "__MACOSX/data set/._x.txt": b"?", "data set/readme": b"?"})
    outer = zipped({"v1/inner.zip": inner, "v1/y.txt.gz": gzip.compress(b"2"), "v1/about.names": b"?"})
    (tmp_path / "outer.zip").write_bytes(outer)
    into = tmp_path / "into"
    into.mkdir()
    written = unpack.unpack(tmp_path / "outer.zip", into, lambda path: path in ("data set/x.txt", "y.txt"))
    assert sorted(written) == ["data set/x.txt", "y.txt"]
    assert (into / "data set" / "x.txt").read_bytes() == b"1"
    assert (into / "y.txt").read_bytes() == b"2"
    assert sorted(path.name for path in into.iterdir()) == ["data set", "y.txt"]


# --- processes

# Forked, so that nothing need be imported again.
fork = multiprocessing.get_context("fork")


def fetched(path):
    """What a process does: it writes the folder to `path`."""
    path.write_text(str(download.folder("numbers")))


def test_processes_at_once_download_once_and_agree(server, known, cache, tmp_path):
    server.files["numbers.bin"], server.pause = CONTENT, 0.02
    known(numbers(server.url("numbers.bin")))
    told = [tmp_path / str(i) for i in range(4)]
    running = [fork.Process(target=fetched, args=(path,)) for path in told]
    for one in running:
        one.start()
    for one in running:
        one.join(60)
    assert [path.read_text() for path in told] == [str(cache / "numbers")] * 4
    assert len(server.requests) == 1
    assert (cache / "numbers" / "numbers.bin").read_bytes() == CONTENT


def test_ctrl_c_leaves_a_part_that_goes_on(server, known, cache, tmp_path):
    server.files["numbers.bin"], server.pause = CONTENT, 0.1
    known(numbers(server.url("numbers.bin")))
    running = fork.Process(target=fetched, args=(tmp_path / "told",))
    running.start()
    part = cache / "downloads" / "numbers.bin.part"
    end = time.monotonic() + 60
    while not (part.is_file() and part.stat().st_size) and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGINT)
    running.join(60)
    assert running.exitcode == 1
    have = part.stat().st_size
    assert 0 < have < len(CONTENT)
    server.pause = 0
    assert (download.folder("numbers") / "numbers.bin").read_bytes() == CONTENT
    assert server.requests[-1] == ("/numbers.bin", f"bytes={have}-")


def test_what_a_killed_process_left_is_cleared_away(server, known, cache):
    server.files["numbers.bin"] = CONTENT
    (cache / ".numbers-killed" / "deep").mkdir(parents=True)
    known(numbers(server.url("numbers.bin")))
    download.folder("numbers")
    assert not (cache / ".numbers-killed").exists()


def test_a_damaged_memory_only_costs_hashing(server, known, cache):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    download.folder("numbers")
    (cache / "checked.json").write_text("[1, ")
    assert download.folder("numbers").is_dir()
    assert list(json.loads((cache / "checked.json").read_text())) == [str(cache / "numbers")]


def test_a_damaged_seal_is_no_seal(server, known, cache):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    (download.folder("numbers") / copies.SEAL).write_text("{}")
    with pytest.raises(download.DataError, match="is refused"):
        download.folder("numbers")
