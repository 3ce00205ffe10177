"""A download or a cached copy with a wrong hash is rejected, and the error says what to do."""

import hashlib
import json
import os

import pytest
from remote_files import (
    CONTENT,
    downloaded,
    empty_cache,
    local_server,
    numbers,
    numbers_published,
    own_catalogue,
    sha256,
    zipped,
)

from chronode.lab.datasets import _copies as copies
from chronode.lab.datasets import _download as download
from chronode.lab.datasets._catalogue import Remote, Variant

cache = pytest.fixture(empty_cache)
server = pytest.fixture(local_server)
known = pytest.fixture(own_catalogue)
published = pytest.fixture(numbers_published)


@pytest.mark.parametrize("bad", [CONTENT[:-1], CONTENT[:-1] + b"x", b""])
def test_an_altered_or_truncated_download_is_refused_and_removed(published, cache, bad):
    published.files["numbers.bin"] = bad
    with pytest.raises(download.DataError, match="its hash is wrong"):
        download.folder("numbers")
    assert not (cache / "numbers").exists()
    assert [path.name for path in (cache / "downloads").iterdir()] == []
    published.files["numbers.bin"] = CONTENT
    assert downloaded() == CONTENT


def test_an_md5_is_enough_where_only_that_is_published(server, known):
    server.files["numbers.bin"] = CONTENT
    url = server.url("numbers.bin")
    known(numbers(url, hash="md5:" + hashlib.md5(b"other").hexdigest()))
    with pytest.raises(download.DataError, match="its hash is wrong"):
        download.folder("numbers")
    known(numbers(url, hash="md5:" + hashlib.md5(CONTENT).hexdigest()))
    assert (download.folder("numbers") / "numbers.bin").is_file()


def test_without_a_published_hash_the_first_download_is_remembered(server, known, cache, capsys):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin"), hash=""))
    download.folder("numbers")
    output = capsys.readouterr().err
    assert f"no hash is published; later downloads must have sha256 {sha256(CONTENT)}" in output
    assert (cache / "downloads" / "numbers.bin.sha256").read_text() == f"{sha256(CONTENT)}  numbers.bin\n"
    server.files["numbers.bin"] = b"other"
    with pytest.raises(download.DataError, match="its hash is wrong") as caught:
        download.fetch("numbers", again=True)
    first = cache / "downloads" / "numbers.bin.sha256"
    assert f"remove {first}" in str(caught.value)
    assert downloaded() == CONTENT  # the old copy stays
    first.unlink()
    assert (download.fetch("numbers", again=True).folder / "numbers.bin").read_bytes() == b"other"


def test_a_web_page_in_place_of_an_archive_is_not_what_is_remembered(server, known, cache):
    server.files["n.zip"] = b"<html>please log in</html>"
    known(Remote("n.zip", (server.url("n.zip"),)))
    with pytest.raises(download.DataError, match=r"n.zip is damaged or truncated"):
        download.folder("numbers")
    assert sorted(path.name for path in (cache / "downloads").iterdir()) == ["n.zip.refused"]
    server.files["n.zip"] = zipped({"numbers.bin": CONTENT})
    assert downloaded() == CONTENT


def test_an_archive_without_the_files_is_refused(server, known, cache):
    server.files["n.zip"] = zipped({"other.bin": CONTENT})
    known(Remote("n.zip", (server.url("n.zip"),)))
    with pytest.raises(download.DataError, match=r"n.zip contains none of the files of numbers \(numbers.bin\)"):
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
    assert downloaded() == CONTENT
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
    with pytest.raises(download.DataError, match=r"was rejected: it is not a known copy.*fetch numbers --again"):
        download.folder("numbers")
    download.fetch("numbers", again=True)
    assert (download.folder("numbers") / "a.txt").read_bytes() == b"one"
    assert not (folder / "c.txt").exists()


def test_a_change_that_keeps_size_and_time_is_found_by_hashing_again(published):
    path = download.folder("numbers") / "numbers.bin"
    download.folder("numbers")
    before = path.stat()
    path.write_bytes(CONTENT[:-1] + b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert download.folder("numbers") == path.parent  # remembered: nothing is hashed
    with pytest.raises(download.DataError, match="combined sha256"):
        download.present("numbers", rehash=True)


def test_a_wrong_file_put_into_the_downloads_is_set_aside(published, cache, capsys):
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "numbers.bin").write_bytes(b"wrong")
    assert downloaded() == CONTENT
    assert (cache / "downloads" / "numbers.bin.refused").read_bytes() == b"wrong"
    assert "numbers.bin was rejected (its sha256 is" in capsys.readouterr().err


def test_a_damaged_memory_only_costs_hashing(published, cache):
    download.folder("numbers")
    (cache / "checked.json").write_text("[1, ")
    assert download.folder("numbers").is_dir()
    assert list(json.loads((cache / "checked.json").read_text())) == [str(cache / "numbers")]


def test_a_damaged_seal_is_not_a_seal(published):
    (download.folder("numbers") / copies.SEAL).write_text("{}")
    with pytest.raises(download.DataError, match="was rejected"):
        download.folder("numbers")
