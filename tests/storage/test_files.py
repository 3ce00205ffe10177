import errno
import os
import subprocess
import sys
import tempfile

import pytest

from chronode.storage._files import DiskFull, naming_errors, replacing, sweep


def test_a_file_appears_whole_with_the_users_default_rights(tmp_path):
    target = tmp_path / "deep" / "a.json"
    with replacing(target) as draft:
        draft.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    assert os.listdir(target.parent) == ["a.json"]


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path):
    target = tmp_path / "a.json"
    target.write_text("old")

    def fail():
        with replacing(target) as draft:
            draft.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_full_disk_is_reported_with_the_file_and_leaves_the_old_one(tmp_path):
    target = tmp_path / "a.json"
    target.write_text("old")
    with (
        pytest.raises(DiskFull, match=r"^the disk is full: .*a.json could not be written$"),
        replacing(target) as draft,
    ):
        draft.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


# ---- drafts that killed processes leave ------------------------------------------------------------------------


def drafts(folder):
    return sorted(path.name for path in folder.iterdir() if ".draft" in path.name)


KILLED = """
import os, signal, sys
from pathlib import Path
from chronode.storage._files import replacing
with replacing(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["confusion.png", "model.safetensors", "metrics.jsonl", "[odd] *name", "noend."])
def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path, name):
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / name])
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "other.json"])
    assert len(drafts(tmp_path)) == 2 and not (tmp_path / name).exists()
    with replacing(tmp_path / name) as draft:
        draft.write_text("whole")
    assert [left.split("-")[0] for left in drafts(tmp_path)] == [".other"], "those of other files are not looked at"
    (tmp_path / ".notes-abcdefgh.txt").write_text("mine")
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([name, ".notes-abcdefgh.txt"])


def test_the_draft_of_a_living_process_stays(tmp_path):
    waiting = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "print(flush=True); sys.stdin.readline()")
    command = [sys.executable, "-c", waiting, tmp_path / "a.json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living:
        living.stdout.readline()
        sweep(tmp_path)
        with replacing(tmp_path / "a.json") as draft:
            draft.write_text("mine")
            assert len(drafts(tmp_path)) == 2
        living.communicate("\n")
    assert living.returncode == 0 and (tmp_path / "a.json").read_text() == "half" and not drafts(tmp_path)


def test_a_draft_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    """Another process may sweep in the moment between the making of the file and its lock."""
    made, real = [], tempfile.mkstemp

    def swept(**where):
        handle, name = real(**where)
        if not made:
            os.unlink(name)
        made.append(name)
        return handle, name

    monkeypatch.setattr(tempfile, "mkstemp", swept)
    with replacing(tmp_path / "a.txt") as draft:
        draft.write_text("whole")
    assert len(made) == 2 and (tmp_path / "a.txt").read_text() == "whole"


TOO_LARGE = """
import resource, sys
from pathlib import Path
from chronode.storage._files import DiskFull, naming_errors, replacing, sweep
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with replacing(Path(sys.argv[1])) as draft:
        draft.write_bytes(b"x" * 5000)
except DiskFull as error:
    print(error)
"""


def test_a_file_that_is_too_large_for_the_process_is_named(tmp_path):
    done = subprocess.run([sys.executable, "-c", TOO_LARGE, tmp_path / "a.bin"], capture_output=True, text=True)
    found = "the file exceeds the size limit of this process (see `ulimit -f`)"
    assert done.stdout == f"{found}: {tmp_path / 'a.bin'} could not be written\n", done.stderr
    assert os.listdir(tmp_path) == []


def test_an_error_without_a_name_gets_that_of_the_file(tmp_path):
    with pytest.raises(OSError, match="Input/output error: '.*a.txt'"), naming_errors(tmp_path / "a.txt"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
