import errno
import os

import pytest

from chronode._files import DiskFull, replacing


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


def test_a_full_disk_is_told_with_the_file_and_leaves_the_old_one(tmp_path):
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
