import json
from types import SimpleNamespace

import pytest
from commands import run

import chronode
from chronode.lab.cli.demo import drawn_examples
from chronode.lab.tasks.bitstream import bitstream


def test_models_as_json_lists_every_model_with_its_facts():
    rows = json.loads(run("models", "--json").stdout)
    assert [row["name"] for row in rows] == list(chronode.models())
    by_name = {row["name"]: row for row in rows}
    lstm = by_name["lstm"]
    assert lstm["time"] == "none"
    assert lstm["parameters"] >= 4 * 64 * (64 + 1)
    assert by_name["unicornn"]["parameters"] == 4 * 64
    assert all(row["paper"] and row["summary"] for row in rows)


def test_models_as_a_table_names_them():
    output = run("models").stdout
    assert "unicornn" in output
    assert "hand-written" in output
    assert "compiled" in output


def test_doctor_says_which_kernels_run():
    output = run("doctor").stdout
    assert "native kernels" in output
    assert "compiler for cells" in output


@pytest.mark.parametrize(
    ("model", "expected"),
    [("unicornn", "a hand-written kernel runs it"), ("gru-d", "GRUDCell: it is compiled on demand")],
)
def test_doctor_says_how_a_model_runs(model, expected):
    assert expected in run("doctor", "--model", model).stdout


def test_compile_fills_the_cache(tmp_path):
    output = run(
        "compile", "rnn", "--hidden-size", "5", "--set", "activation=relu", CHRONODE_CACHE=str(tmp_path)
    ).stdout
    assert "rnn: RNNCell compiled" in output
    assert list((tmp_path / "compiled").glob("*.so"))


def test_demo_trains_prints_a_table_and_draws_a_plot(tmp_path):
    output = run("demo", "--models", "sirnn,lstm-dt", "--epochs", "1", "--output", str(tmp_path)).stdout
    assert "test accuracy" in output
    assert "lstm-dt" in output
    page = (tmp_path / "curves.html").read_text()
    assert all(f">{name}</text>" in page for name in ("sirnn", "lstm-dt", "chance"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("demo", "--models", "mmrn"), "Did you mean 'mmrnn'"),
        (("doctor", "--model", "mmrn"), "Did you mean 'mmrnn'"),
        (("compile", "rnn", "--hidden-size", "4", "--set", "activation"), "--set must be NAME=VALUE"),
        (("demo", "--models", ","), "--models is empty"),
        (("demo", "--epochs", "0"), "--epochs"),
    ],
)
def test_a_mistake_ends_with_one_line_and_code_2(arguments, expected):
    done = run(*arguments, code=2)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_backend_is_named():
    done = run("doctor", code=2, CHRONODE_BACKEND="fast")
    assert "CHRONODE_BACKEND='fast'" in done.stderr


def test_drawn_examples_show_the_coded_bits():
    streams = bitstream(1, seed=0, shortest=6, longest=6)
    (line,) = drawn_examples(streams, 1)
    bits = [int(mark == "█") for mark in line.split()[0]]
    assert len(bits) == 6
    assert sum(bits) % 2 == int(streams[0].target)


def test_doctor_names_the_settings_of_every_model_that_has_a_kernel():
    output = run("doctor").stdout
    for name, model in chronode.models().items():
        assert (f"\n  {name}: " in output) == bool(model.kernel()), name


def test_ctrl_c_ends_with_code_1(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("chronode.cli.models.jsonlib", SimpleNamespace(dumps=interrupted))
    run("models", "--json", code=1)
