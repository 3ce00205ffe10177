import json
import multiprocessing
from dataclasses import asdict, replace

import pytest
from entries import entry
from hypothesis import given
from hypothesis import strategies as st

from chronode.lab.experiments.ledger import Ledger


def test_what_is_added_is_found_again(tmp_path):
    ledger = Ledger(tmp_path)
    assert ledger.append(entry(0))
    assert ledger.append(entry(1, recipe="mmrnn/table4"))
    assert ledger.entries() == [entry(0), entry(1, recipe="mmrnn/table4")]
    assert ledger.find(entry(1).config_hash).recipe == "mmrnn/table4"
    assert ledger.find("nothing") is None


def test_a_run_is_added_once_whatever_table_asked_for_it(tmp_path):
    ledger = Ledger(tmp_path)
    assert ledger.append(entry(0))
    assert not ledger.append(replace(entry(0), recipe="irnn/table1", seconds=99.0))
    assert ledger.entries() == [entry(0)]


def test_files_only_grow(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append(entry(0))
    before = (tmp_path / "mmrnn-table3.jsonl").read_bytes()
    ledger.append(entry(1))
    assert (tmp_path / "mmrnn-table3.jsonl").read_bytes().startswith(before)


def test_two_branches_merge_by_taking_the_lines_of_both(tmp_path):
    one, two = Ledger(tmp_path / "one"), Ledger(tmp_path / "two")
    one.append(entry(0)), one.append(entry(1))
    two.append(entry(1)), two.append(entry(2))
    lines = b"".join((side.folder / "mmrnn-table3.jsonl").read_bytes() for side in (one, two))
    (tmp_path / "mmrnn-table3.jsonl").write_bytes(lines)
    assert [e.seed for e in Ledger(tmp_path).entries()] == [0, 1, 2]


def test_half_a_line_is_not_a_run_and_is_replaced(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append(entry(0))
    path = tmp_path / "mmrnn-table3.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + json.dumps(asdict(entry(1))).encode()[:60])
    assert ledger.entries() == [entry(0)]
    assert ledger.append(entry(1))
    assert ledger.entries() == [entry(0), entry(1)]


def _append_all(folder, seeds):
    for seed in seeds:
        Ledger(folder).append(entry(seed))


def test_processes_that_write_at_once_lose_and_double_nothing(tmp_path):
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=_append_all, args=(tmp_path, range(start, 12))) for start in (0, 4, 6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = (tmp_path / "mmrnn-table3.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["seed"] for line in lines) == list(range(12))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "seed must be a whole number"),
        ({"seed": 7}, "config_hash does not match"),
        ({"metrics": {"valid": {"accuracy": 1.0}}}, "test part"),
        ({"seconds": None}, "seconds must be a number"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, change, message):
    (tmp_path / "a.jsonl").write_text(json.dumps(asdict(entry()) | change) + "\n")
    with pytest.raises(ValueError, match=f"a.jsonl, line 1.*{message}"):
        Ledger(tmp_path).entries()


@given(st.binary(max_size=60))
def test_foreign_bytes_are_a_clear_error(tmp_path_factory, junk):
    folder = tmp_path_factory.mktemp("ledger")
    (folder / "a.jsonl").write_bytes(junk + b"\n")
    with pytest.raises(ValueError, match="a.jsonl, line [0-9]+: "):
        Ledger(folder).entries()


def test_a_missing_field_is_named(tmp_path):
    content = {name: value for name, value in asdict(entry()).items() if name != "commit"}
    (tmp_path / "a.jsonl").write_text(json.dumps(content) + "\n")
    with pytest.raises(ValueError, match="commit is missing"):
        Ledger(tmp_path).entries()


def test_the_same_run_on_two_machines_is_a_mean_of_two(tmp_path):
    def made(cpu, accuracy, **more):
        return entry(machine={"cpu": cpu}, metrics={"test": {"accuracy": accuracy}, **more})

    # The repeated line of a machine is the same number again and does not count twice.
    runs = [made("A", 0.9413), made("B", 0.9308, valid={"accuracy": 1.0}), made("B", 0.9308)]
    lines = [json.dumps(asdict(run)) for run in runs]
    (tmp_path / "one.jsonl").write_text(lines[0] + "\n")
    (tmp_path / "two.jsonl").write_text("\n".join(lines[1:]) + "\n")
    (found,) = Ledger(tmp_path).entries()
    assert found.metrics == {"test": {"accuracy": pytest.approx(0.93605)}}
