"""Without the network: what is reported, what a user or a mirror may provide, and what of it is refused."""

from contextlib import contextmanager

import pytest
from remote_files import CONTENT, NOWHERE, downloaded, empty_cache, local_server, numbers, own_catalogue, sha256, zipped

from chronode.lab.datasets import _download as download
from chronode.lab.datasets._catalogue import Remote, Variant

cache = pytest.fixture(empty_cache)
server = pytest.fixture(local_server)
known = pytest.fixture(own_catalogue)


def test_offline_one_message_has_all_that_is_needed(known, cache):
    known(numbers(NOWHERE))
    with pytest.raises(download.DataError) as caught:
        download.folder("numbers")
    message = str(caught.value)
    for part in ("numbers.bin", NOWHERE, f"sha256:{sha256(CONTENT)}", str(cache / "downloads" / "numbers.bin")):
        assert part in message
    assert "CHRONODE_DATA_MIRROR" in message


def test_a_file_put_where_the_message_says_is_used_without_the_network(known, cache):
    known(numbers(NOWHERE))
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "numbers.bin").write_bytes(CONTENT)
    assert downloaded() == CONTENT


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


@pytest.mark.usefixtures("cache")
def test_an_unknown_name_is_reported_with_similar_ones():
    with pytest.raises(ValueError, match="Did you mean 'mnist'"):
        download.folder("mnits")


def test_a_cache_that_cannot_be_written_is_reported(known, cache):
    cache.write_text("a file, not a folder")
    known(numbers(NOWHERE))
    with pytest.raises(download.DataError, match="set CHRONODE_DATA"):
        download.folder("numbers")


# ---- the mirror -------------------------------------------------------------------------------------------------


@pytest.fixture
def mirror(cache, tmp_path, monkeypatch):
    """The folder of `numbers` in the mirror; `cache`, which knows of none, comes before."""
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
    with pytest.raises(download.DataError, match=f"numbers.bin has the sha256 {sha256(bad)}, expected {sha256(b'1')}"):
        download.folder("numbers")
    assert server.requests == []


def test_a_file_of_no_variant_among_the_read_ones_is_refused(known, mirror):
    variant = Variant(files={"batch_1.bin": sha256(b"1")})
    known(Remote("archive.zip", (NOWHERE,)), reads=("batch_*.bin",), variants=(variant,))
    (mirror / "batch_1.bin").write_bytes(b"1")
    assert download.folder("numbers") == mirror
    (mirror / "batch_2.bin").write_bytes(b"2")
    with pytest.raises(download.DataError, match="batch_2.bin does not belong to the data set"):
        download.folder("numbers")


def test_a_mirror_may_have_the_publishers_archive_instead(known, mirror, cache):
    content = zipped({"top/numbers.bin": CONTENT})
    known(Remote("n.zip", (NOWHERE,), f"sha256:{sha256(content)}"))
    (mirror / "n.zip").write_bytes(content)
    with read_only(mirror):
        assert download.folder("numbers") == cache / "numbers"
    (mirror / "n.zip").write_bytes(content[:-1])
    with pytest.raises(download.DataError, match=r"n.zip was rejected: its sha256 is"):
        download.fetch("numbers", again=True)


def test_many_files_are_known_by_one_hash(known, mirror):
    files = {f"s{i}.txt": str(i).encode() for i in range(20)}
    lines = "".join(f"{name} {sha256(content)}\n" for name, content in sorted(files.items()))
    known(Remote("n.zip", (NOWHERE,)), reads=("s*.txt",), variants=(Variant(tree=sha256(lines.encode()), count=20),))
    for name, content in files.items():
        (mirror / name).write_bytes(content)
    assert download.folder("numbers") == mirror
    (mirror / "s3.txt").write_bytes(b"4")
    with pytest.raises(download.DataError, match="20 files with the combined sha256"):
        download.folder("numbers")


def test_a_mirror_that_is_not_a_folder_is_reported(known, monkeypatch, tmp_path):
    monkeypatch.setenv("CHRONODE_DATA_MIRROR", str(tmp_path / "nothing"))
    known(numbers(NOWHERE))
    with pytest.raises(ValueError, match="CHRONODE_DATA_MIRROR=.*is not a folder"):
        download.folder("numbers")
