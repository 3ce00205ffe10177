"""The comparison with other packages: its rules hold, its pages show its results. Needs no other package."""

import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "benchmarks" / "peers"
sys.path.insert(0, str(PEERS))

import pages  # noqa: E402
import protocol  # noqa: E402
import ragged_file  # noqa: E402
import run  # noqa: E402
from protocol import Outcome, Series, Way, measure  # noqa: E402

PAGE = (ROOT / "docs" / "compared.md").read_text()
RESULTS = json.loads((PEERS / "results.json").read_text())


def tiny_file(path: Path, seed: int, count: int = 30) -> Path:
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b"] * (count // 2))
    series = [
        rng.normal(size=(frames, 3)) + (label == "b")
        for frames, label in zip(rng.integers(7, 15, count), labels, strict=True)
    ]
    ragged_file.write(path, series, labels, rng)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ragged")
    return tiny_file(folder / "train.csv", 0), tiny_file(folder / "test.csv", 1)


# ---- the file and the protocol ------------------------------------------------------------------------------


def test_the_file_is_irregular_and_the_same_every_time(files, tmp_path):
    again = tiny_file(tmp_path / "again.csv", 0)
    assert again.read_bytes() == files[0].read_bytes()
    series = protocol.read(again)
    assert len(series) == 30 and {each.label for each in series} == {"a", "b"}
    assert min(len(each.times) for each in series) >= ragged_file.FEWEST
    assert len({len(each.times) for each in series}) > 3
    empty = np.isnan(np.concatenate([each.values for each in series])).mean()
    assert 0.1 < empty < 0.3
    gaps = np.concatenate([np.diff(each.times) for each in series]) / protocol.STEP_MS
    np.testing.assert_allclose(gaps, gaps.round(), atol=1e-6)
    assert set(gaps.round()) > {1.0, 2.0}


values = st.one_of(st.just(np.nan), st.floats(-9, 9))


@given(st.lists(values, min_size=1, max_size=9))
def test_a_forecast_sees_nothing_of_its_target(column):
    times = np.arange(len(column)) * protocol.STEP_MS
    series = Series("u0", times, np.column_stack([column, times]), "a")
    contexts, targets = protocol.split_forecast([series])
    seen = [place for place, value in enumerate(column) if not np.isnan(value)]
    if len(seen) < 3:
        assert not contexts
        return
    assert targets.tolist() == [column[seen[-1]]]
    assert len(contexts[0].times) == seen[-1]
    assert contexts[0].times[-1] + contexts[0].ahead == pytest.approx(times[seen[-1]])
    assert protocol.last_values(contexts).tolist() == [column[seen[-2]]]


def by_mean(train, seed):
    """A way that works: the classes of the tiny file differ by their mean."""

    def answer(series):
        high = np.array([float(np.nanmean(each.values) > 0.5) for each in series])
        return np.column_stack([1 - high, high])

    return answer


def batch_dependent(train, seed):
    alone = by_mean(train, seed)
    return lambda series: alone(series) + 0.01 * len(series)


def unknown(train, seed):
    alone = by_mean(train, seed)
    return lambda series: np.where(np.arange(len(series))[:, None] < 3, np.nan, alone(series))


def refusing(train, seed):
    raise ValueError("no missing\nvalues, please")


@pytest.mark.parametrize(
    ("fit", "verdict", "message"),
    [
        (by_mean, "works", ""),
        (batch_dependent, "wrong predictions", "a series alone and in a batch differ by up to 0.29"),
        (unknown, "wrong predictions", "NaN for 3 of 30 series"),
        (refusing, "error", "ValueError: no missing values, please"),
    ],
)
def test_a_verdict_follows_from_the_predictions(fit, verdict, message, files):
    outcome = measure(Way("way", "docs", fit), *map(protocol.read, files))
    assert (outcome.verdict, outcome.message) == (verdict, message)
    assert (verdict == "works") == (outcome.difference == 0.0)
    if verdict == "works":
        assert outcome.score[0] > 0.8


def test_a_class_that_changes_is_counted(files):
    def flips(train, seed):
        return lambda series: by_mean(train, seed)(series)[:, :: 1 if len(series) > 1 else -1]

    outcome = measure(Way("way", "docs", flips), *map(protocol.read, files))
    assert outcome.verdict == "wrong predictions" and outcome.changed == protocol.ALONE
    assert outcome.message.endswith(f"{protocol.ALONE} of {protocol.ALONE} classes change")


def test_too_few_predictions_are_refused(files):
    outcome = measure(
        Way("way", "docs", lambda train, seed: lambda series: np.ones((1, 2))), *map(protocol.read, files)
    )
    assert outcome.message == "ValueError: 1 predictions for 30 series."


def test_long_messages_are_cut():
    assert protocol.shortened("word " * 100).endswith(" ...")
    assert len(protocol.shortened("x" * 999)) <= protocol.MESSAGE_CHARACTERS


@pytest.mark.slow
def test_chronode_runs_by_the_protocol(files, tmp_path):
    out = tmp_path / "answer.json"
    subprocess.run([sys.executable, run.script("chronode"), *files, out], check=True, capture_output=True)
    answer = json.loads(out.read_text())
    assert answer["package"] == "chronode"
    assert {way["task"]: way["verdict"] for way in answer["ways"]} == {"classify": "works", "forecast": "works"}
    assert answer["ways"][0]["score"][0] > 0.7


# ---- the command --------------------------------------------------------------------------------------------


def test_answers_are_not_computed_again(files, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(run, "CACHE", tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda command, **options: calls.append(command))
    run.answer("chronode", files)
    assert [command[0] for command in calls] == [Path(sys.executable)]
    run.answer_file("chronode", files).write_text("{}")
    run.answer("chronode", files)
    assert len(calls) == 1
    other = tiny_file(tmp_path / "other.csv", 7)
    run.answer("chronode", (files[0], other))
    assert len(calls) == 2


def test_an_environment_follows_its_requirements(tmp_path, monkeypatch):
    calls = []

    def record(command, **options):
        calls.append([str(word) for word in command])
        (tmp_path / "ncps").mkdir(exist_ok=True)

    monkeypatch.setattr(run, "CACHE", tmp_path)
    monkeypatch.setattr(subprocess, "run", record)
    python = run.interpreter("ncps")
    assert [words[1:3] for words in calls] == [["-m", "venv"], ["-m", "pip"]]
    assert run.interpreter("ncps") == python and len(calls) == 2
    (tmp_path / "ncps" / "requirements").write_text("older")
    run.interpreter("ncps")
    assert len(calls) == 4


def test_unknown_packages_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "prophet"])
    with pytest.raises(SystemExit, match="prophet: unknown package; choose from chronode, ncps"):
        run.main()


@pytest.mark.parametrize("name", run.PACKAGES)
def test_every_package_is_pinned_and_answered(name):
    assert run.script(name).exists()
    answer = RESULTS["packages"][name]
    assert answer["ways"] and all(way["verdict"] in ("works", "error", "wrong predictions") for way in answer["ways"])
    if name == "chronode":
        return
    pins = (PEERS / "packages" / f"{name}.txt").read_text().splitlines()
    assert pins and all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert f"{name}=={answer['version']}" in pins


# ---- the pages ----------------------------------------------------------------------------------------------


def test_the_page_of_results_is_the_one_of_the_json():
    assert (PEERS / "README.md").read_text() == pages.page(RESULTS)


def test_the_docs_show_the_whole_tables():
    lines = (PEERS / "README.md").read_text().splitlines()
    first, last = re.search(r'--8<-- "benchmarks/peers/README.md:(\d+):(\d*)"', PAGE).groups()
    shown = lines[int(first) - 1 : int(last) if last else None]
    assert [line for line in lines if line.startswith("| ")] == [line for line in shown if line.startswith("| ")]


def test_a_row_says_what_happened():
    works = Outcome(
        "way a|b", "docs", "classify", "works", score=[0.5, 0.75], fit_seconds=[1.0, 2.0], predict_seconds=[0.2]
    )
    refuses = replace(works, verdict="error", message="no", score=[], fit_seconds=[], predict_seconds=[])
    ways = [asdict(works), asdict(refuses)]
    results = {"packages": {"p": {"package": "p", "version": "1", "ways": ways}}, "last value": 0.1}
    page = pages.page({**results, "series": [3, 4], "rows": [5, 6]})
    assert "| p 1 | way a\\|b | **works** | 62.5% | 1.5 | 0.2 |" in page
    assert "| p 1 | way a\\|b | **error**: no |  |  |  |" in page
