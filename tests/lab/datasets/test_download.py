"""Downloads from a real server on this machine: once for all, resumed, by several processes at once."""

import io
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pooch
import pytest
from remote_files import CONTENT, downloaded, empty_cache, local_server, numbers_published, own_catalogue, sha256
from rich.console import Console

from chronode.lab.datasets import _download as download
from chronode.lab.datasets._catalogue import Remote

cache = pytest.fixture(empty_cache)
server = pytest.fixture(local_server)
known = pytest.fixture(own_catalogue)
published = pytest.fixture(numbers_published)


def test_a_file_is_downloaded_once_and_then_used_without_the_network(published, cache):
    folder = download.folder("numbers")
    assert folder == cache / "numbers"
    assert (folder / "numbers.bin").read_bytes() == CONTENT
    published.files.clear()
    assert download.folder("numbers") == folder
    assert download.notes("numbers") == ()
    assert published.requests == [("/numbers.bin", None)]
    assert not list((cache / "downloads").glob("numbers*"))  # what is unpacked needs no archive


def test_a_broken_download_asks_only_for_the_rest(published):
    published.break_after = 300_000
    assert downloaded() == CONTENT
    starts = [0 if asked is None else int(asked[6:-1]) for _, asked in published.requests]
    assert starts == [0, 300_000, 600_000, 900_000]


def test_a_download_that_was_given_up_resumes_next_time(published, cache, monkeypatch):
    monkeypatch.setattr("chronode.lab.datasets._resume.ATTEMPTS", 1)
    published.break_after = 500_000
    with pytest.raises(download.DataError, match="stopped after 500,000 of 1,048,576|connection broke"):
        download.folder("numbers")
    assert (cache / "downloads" / "numbers.bin.part").read_bytes() == CONTENT[:500_000]
    assert not (cache / "numbers").exists()
    published.break_after = None
    assert downloaded() == CONTENT
    assert published.requests[-1] == ("/numbers.bin", "bytes=500000-")


@pytest.mark.parametrize("fault", ["no ranges", "no tag", "another file", "nothing behind it"])
def test_a_part_that_cannot_be_continued_is_downloaded_again(published, cache, fault):
    downloads = cache / "downloads"
    downloads.mkdir(parents=True)
    (downloads / "numbers.bin.part").write_bytes(CONTENT if fault == "nothing behind it" else b"x" * 1000)
    published.ranges = fault != "no ranges"
    if fault != "no tag":
        tag = "another" if fault == "another file" else sha256(CONTENT)[:8]
        (downloads / "numbers.bin.part.tag").write_text(f'"{tag}"')
    assert downloaded() == CONTENT


def test_without_a_tag_from_the_server_nothing_is_resumed(published, monkeypatch):
    monkeypatch.setattr("chronode.lab.datasets._resume.ATTEMPTS", 1)
    published.tagged, published.break_after = False, 500_000
    with pytest.raises(download.DataError):
        download.folder("numbers")
    published.break_after = None
    download.folder("numbers")
    assert [asked for _, asked in published.requests] == [None, None]


def test_a_terminal_shows_a_progress_bar(published):
    screen = io.StringIO()
    download.fetch("numbers", console=Console(file=screen, force_terminal=True, width=100))
    assert "numbers.bin" in screen.getvalue()
    assert "1.0/1.0 MB" in screen.getvalue()


def test_without_a_setting_the_users_cache_folder_is_used(monkeypatch):
    monkeypatch.delenv("CHRONODE_DATA", raising=False)
    assert download.cache_folder() == Path(pooch.os_cache("chronode"))


def test_the_second_address_is_tried(server, known):
    server.files["copy.bin"] = CONTENT
    known(Remote("numbers.bin", (server.url("gone.bin"), server.url("copy.bin")), f"sha256:{sha256(CONTENT)}"))
    assert downloaded() == CONTENT


# ---- processes -----------------------------------------------------------------------------------------------

# Forked, so that nothing need be imported again.
fork = multiprocessing.get_context("fork")


def fetched(path):
    """Writes the folder to `path`, as the target of a process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore Ctrl-C
    path.write_text(str(download.folder("numbers")))


def test_processes_at_once_download_once_and_agree(published, cache, tmp_path):
    published.pause = 0.02
    paths = [tmp_path / str(i) for i in range(4)]
    running = [fork.Process(target=fetched, args=(path,)) for path in paths]
    for one in running:
        one.start()
    for one in running:
        one.join(60)
    assert [path.read_text() for path in paths] == [str(cache / "numbers")] * 4
    assert len(published.requests) == 1
    assert (cache / "numbers" / "numbers.bin").read_bytes() == CONTENT


def test_ctrl_c_leaves_a_part_that_is_resumed(published, cache, tmp_path):
    published.pause = 0.1
    running = fork.Process(target=fetched, args=(tmp_path / "found",))
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
    published.pause = 0
    assert downloaded() == CONTENT
    assert published.requests[-1] == ("/numbers.bin", f"bytes={have}-")


def test_what_a_killed_process_left_is_cleared_away(published, cache):
    (cache / ".numbers-killed" / "deep").mkdir(parents=True)
    download.folder("numbers")
    assert not (cache / ".numbers-killed").exists()
