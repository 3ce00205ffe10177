"""The catalogue's facts are consistent; if a mirror is available, its files match the catalogue."""

import os
import re

import pytest

from chronode.lab.datasets import _copies as copies
from chronode.lab.datasets import _download as download
from chronode.lab.datasets._catalogue import data_set, data_sets

NAMES = (
    *("mnist", "cifar10", "har", "person_activity", "gesture_phase", "occupancy", "ozone", "traffic", "power", "ptb"),
    *("imdb", "glove", "bidmc", "bidmc_tser", "dsa19", "half_cheetah", "walker2d", "eigenworms", "speech_commands"),
    *("speech_commands_v2", "yelp", "physionet2012", "free_spoken_digits"),
)


def test_every_data_set_of_the_tasks_is_there():
    assert sorted(data_sets()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_are_complete_and_well_formed(name):
    known = data_set(name)
    assert known.name == name
    assert all((known.title, known.publisher, known.licence, known.cite, known.reads))
    assert known.page.startswith("http")
    assert known.remote or known.simulated
    assert len({remote.file for remote in known.remote}) == len(known.remote)
    for remote in known.remote:
        assert remote.urls
        assert all(re.match(r"https?://[^/]+/.+", url) for url in remote.urls)
        assert re.fullmatch(r"(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})?", remote.hash)
        assert "/" not in remote.file
    for variant in known.variants:
        if variant.files is None:
            assert re.fullmatch(r"[0-9a-f]{64}", variant.tree)
            assert variant.count > 1
        else:
            assert all(map(known.wants, variant.files))
            assert all(re.fullmatch(r"[0-9a-f]{64}|md5:[0-9a-f]{32}", digest) for digest in variant.files.values())


def test_no_download_has_the_name_of_another():
    files = [remote.file for known in data_sets().values() for remote in known.remote]
    assert len(set(files)) == len(files)


@pytest.mark.parametrize(
    ("name", "path", "wanted"),
    [
        ("har", "UCI HAR Dataset/train/Inertial Signals/body_acc_x_train.txt", True),
        ("har", "UCI HAR Dataset/features.txt", False),
        ("imdb", "aclImdb/train/pos/0_9.txt", True),
        ("imdb", "aclImdb/train/unsup/0_0.txt", False),
        ("cifar10", "cifar-10-batches-bin/data_batch_5.bin", True),
        ("cifar10", "cifar-10-batches-bin/batches.meta.txt", False),
        ("ptb", "ptb.char.train.txt", False),
        ("dsa19", "data/a01/p1/s01.txt", True),
        ("speech_commands", "_background_noise_/pink_noise.wav", True),
        ("speech_commands", "testing_list.txt", True),
    ],
)
def test_the_files_that_are_read(name, path, wanted):
    assert data_set(name).wants(path) == wanted


def test_partial_copies_say_so():
    notes = {name: [variant.note for variant in data_set(name).variants] for name in ("cifar10", "dsa19", "glove")}
    assert notes["cifar10"][0] == ""  # the whole one
    assert all(found[-1].startswith("partial: ") for found in notes.values())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mnist", "sha256 of the files"),
        ("har", "sha256 of the download"),
        ("glove", "md5 of the download"),
        ("eigenworms", "first download"),
        ("walker2d", "first download"),
    ],
)
def test_what_decides_is_reported(name, expected):
    assert data_set(name).checked_by == expected


def test_the_catalogue_cannot_be_changed_by_accident():
    data_sets().clear()
    assert data_set("mnist").size == 9_912_422 + 28_881 + 1_648_877 + 4_542


@pytest.mark.slow
@pytest.mark.skipif("CHRONODE_DATA_MIRROR" not in os.environ, reason="CHRONODE_DATA_MIRROR names no mirror")
@pytest.mark.parametrize("name", NAMES)
def test_the_mirror_is_what_the_catalogue_says(name, tmp_path, monkeypatch):
    monkeypatch.setenv("CHRONODE_DATA", str(tmp_path))
    copy = download.present(name)
    if copy is None:
        pytest.skip("the mirror does not have it")
    assert copies.wanted_files(data_set(name), copy.folder)
    assert copy.origin == "mirror"
