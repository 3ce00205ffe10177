import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some
from task_checks import check_batch, check_parts, mirrored

from chronode.lab.tasks import find_task, speech
from chronode.lab.tasks._mel import BANDS, RATE, STEPS, STRIDE, band_edges, log_mel
from chronode.lab.tasks.speech import COMMANDS, NOISE, OTHERS, read_wave

SECOND = np.arange(RATE) / RATE


def write_wave(path, samples, *, channels=1, rate=RATE, width=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes((np.asarray(samples) * (2**15 - 1)).astype("<i2").tobytes())


# ---- features ---------------------------------------------------------------------------------------------


def slow_log_mel(samples, steps):
    """One window after the other, one frequency after the other, one band after the other."""
    padded = np.concatenate([samples, np.zeros(1000)])
    mel = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 34)
    edges = 700 * (10 ** (mel / 2595) - 1)
    place = np.arange(400)
    rows = []
    for step in steps:
        frame = padded[160 * step : 160 * step + 400] * (0.54 - 0.46 * np.cos(2 * np.pi * place / 399))
        power = [abs(np.sum(frame * np.exp(-2j * np.pi * k * place / 512))) ** 2 / 512 for k in range(257)]
        hertz = np.arange(257) * 16000 / 512
        rows.append([np.log(np.sum(power * np.interp(hertz, edges[b : b + 3], [0, 1, 0])) + 1e-10) for b in range(32)])
    return np.array(rows)


def test_features_are_those_of_the_definition():
    samples = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    steps = [0, 1, 50, 97, 98]
    np.testing.assert_allclose(log_mel(samples[None])[0, steps], slow_log_mel(samples, steps), atol=2e-3)


@some
@given(st.floats(1000, 7500), st.floats(0.05, 1))
def test_a_tone_sounds_in_its_band(hertz, volume):
    tone = (volume * np.sin(2 * np.pi * hertz * SECOND)).astype(np.float32)
    loud = log_mel(tone[None])[0, 1:97].argmax(1)
    edges = band_edges()
    assert (edges[loud] < hertz).all()
    assert (hertz < edges[loud + 2]).all()


def test_twice_as_loud_adds_the_logarithm_of_four_everywhere():
    samples = np.random.default_rng(1).normal(0, 0.1, (2, RATE)).astype(np.float32)
    np.testing.assert_allclose(log_mel(2 * samples) - log_mel(samples), np.log(4), atol=1e-3)


def test_a_later_sound_gives_later_features():
    samples = np.random.default_rng(2).normal(0, 0.1, (1, RATE + 3 * STRIDE)).astype(np.float32)
    now, later = log_mel(samples[:, :RATE]), log_mel(samples[:, 3 * STRIDE :])
    np.testing.assert_allclose(now[:, 3:98], later[:, :95], atol=1e-3)


def test_silence_has_the_least_energy():
    features = log_mel(np.zeros((2, RATE), dtype=np.float32))
    assert features.shape == (2, STEPS, BANDS)
    np.testing.assert_allclose(features, np.log(1e-10))


# ---- files ------------------------------------------------------------------------------------------------


def test_samples_come_back_from_a_file(tmp_path):
    write_wave(tmp_path / "a.wav", [0, 0.5, -0.5, 1.0])
    np.testing.assert_allclose(read_wave(tmp_path / "a.wav"), [0, 0.5, -0.5, 1.0], atol=1e-4)


@pytest.mark.parametrize("form", [{"channels": 2}, {"rate": 8000}, {"width": 1}])
def test_another_form_of_sound_is_refused(tmp_path, form):
    write_wave(tmp_path / "a.wav", np.zeros(8), **form)
    with pytest.raises(ValueError, match="a.wav: expected one channel of 2 bytes at 16000 Hz"):
        read_wave(tmp_path / "a.wav")


@some
@given(st.data())
def test_any_sound_file_is_read_or_refused_by_name(tmp_path, data):
    write_wave(tmp_path / "a.wav", np.linspace(-1, 1, 50))
    content = bytearray((tmp_path / "a.wav").read_bytes())
    for place in data.draw(st.lists(st.integers(0, 47), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    (tmp_path / "a.wav").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        assert np.abs(read_wave(tmp_path / "a.wav")).max() <= 1
    except ValueError as error:
        assert str(tmp_path / "a.wav") in str(error)


# ---- tasks ------------------------------------------------------------------------------------------------


@pytest.fixture
def sounds(tmp_path, monkeypatch):
    """A tone per word: of commands two recordings for training, one for each list; of others one each."""
    top, lists = tmp_path / "speech_commands", {"valid": [], "test": []}
    for number, word in enumerate((*COMMANDS, *OTHERS)):
        for speaker, part in (("aa11", "train"), ("bb22", "train"), ("cc33", "valid"), ("dd44", "test")):
            if speaker == "bb22" and word in OTHERS:
                continue
            tone = 0.5 * np.sin(2 * np.pi * (300 + 200 * number) * SECOND[: 12_000 + 100 * number])
            write_wave(top / word / f"{speaker}_nohash_0.wav", tone)
            if part != "train":
                lists[part].append(f"{word}/{speaker}_nohash_0.wav\n")
    # Its loudness tells the time within the recording.
    write_wave(top / NOISE / "hiss.wav", np.repeat(np.arange(10) / 20, RATE))
    (top / "validation_list.txt").write_text("".join(lists["valid"]))
    (top / "testing_list.txt").write_text("".join(lists["test"]))
    monkeypatch.setattr(speech, "folder", lambda name: tmp_path / name)
    monkeypatch.setenv("CHRONODE_DATA", str(tmp_path / "cache"))
    return top


def test_thirty_words_follow_the_publishers_lists(sounds):
    task = find_task("google-30")
    parts = task.load()
    check_parts(task, parts)
    check_batch(parts)
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [40, 30, 30]
    assert (parts.train.lengths == STEPS).all()
    for series in parts.test:
        assert series.id.split("/")[0] == parts.test.classes[int(series.target)]
        assert series.group == "dd44"
    np.testing.assert_allclose(parts.train.values.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(parts.train.values.std(0), 1, atol=1e-3)


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_twelve_classes_have_a_tenth_of_silence_and_of_other_words(sounds, protocol):
    parts = find_task("google-12").load(protocol, seed=1)
    assert parts.train.classes == (*COMMANDS, "silence", "unknown")
    assert np.bincount(parts.train.target.values).tolist() == [2] * 10 + [2, 2]
    assert np.bincount(parts.valid.target.values).tolist() == [1] * 10 + [1, 1]
    assert {series.id.split("/")[0] for series in parts.train if series.target == 11} <= set(OTHERS)
    assert all(series.id.startswith(NOISE) for series in parts.test if series.target == 10)


def test_clean_noise_comes_from_a_stretch_of_its_own(sounds):
    check_parts(find_task("google-12"), find_task("google-12").load())
    starts = {"train": [], "valid": [], "test": []}
    for seed in range(8):
        parts = find_task("google-12").load(seed=seed)
        for name, found in starts.items():
            part = getattr(parts, name)
            found += [int(series.id.split("@")[1]) / RATE for series in part if series.target == 10]
    assert max(starts["train"]) <= 6.0
    assert 7.0 <= min(starts["valid"]) <= max(starts["valid"]) <= 7.5
    assert 8.5 <= min(starts["test"]) <= max(starts["test"]) <= 9.0


def test_the_seed_draws_silences_and_words(sounds):
    one, same, other = (find_task("google-12").load(seed=seed).train.ids.tolist() for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_what_is_missing_is_reported(sounds):
    (sounds / "testing_list.txt").write_text("yes/dd44_nohash_0.wav\nyes/ee55_nohash_0.wav\n")
    with pytest.raises(ValueError, match="testing_list.txt, line 2: file 'yes/ee55"):
        find_task("google-30").load()
    (sounds / "testing_list.txt").write_text("")
    for file in (sounds / "wow").iterdir():
        file.unlink()
    (sounds / "validation_list.txt").write_text("")
    with pytest.raises(ValueError, match="no recordings of 'wow' found"):
        find_task("google-30").load()


def test_features_are_kept_until_a_recording_changes(sounds, monkeypatch):
    first = find_task("google-30").load()
    read = []
    monkeypatch.setattr(speech, "read_wave", lambda path, rate=RATE: read.append(path) or read_wave(path, rate))
    again = find_task("google-30").load()
    assert not read
    np.testing.assert_array_equal(first.test.values, again.test.values)
    write_wave(sounds / "yes" / "dd44_nohash_0.wav", 0.2 * np.sin(2 * np.pi * 5000 * SECOND))
    changed = find_task("google-30").load()
    assert {path.parent.name for path in read} == {"yes"}
    differ = [a.id for a, b in zip(first.test, changed.test, strict=True) if not np.array_equal(a.values, b.values)]
    assert differ == ["yes/dd44_nohash_0.wav@0"]


def test_noise_too_short_for_every_part_is_reported(sounds):
    write_wave(sounds / NOISE / "hiss.wav", np.zeros(3 * RATE))
    with pytest.raises(ValueError, match="hiss.wav: too short: the valid part needs a full second"):
        find_task("google-12").load()


@mirrored("speech_commands")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["google-12", "google-30"])
def test_the_publishers_sounds(name):
    check_parts(find_task(name), find_task(name).load(), whole=True)
