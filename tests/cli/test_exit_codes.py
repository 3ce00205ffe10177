"""Exit codes and last lines: what ended how, and advice that works."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from commands import MAIN, QUICK, VITALS, chronode
from work_folder import copy_run, vitals_file, work_folder

here = pytest.fixture(work_folder)
vitals = pytest.fixture(vitals_file)


def _delays(quick, slow):
    """Moments of Ctrl-C; some are enough for every `make test`."""
    return pytest.mark.parametrize("delay", [*quick, *(pytest.param(one, marks=pytest.mark.slow) for one in slow)])


@_delays([0.1, 0.8], [0.4, 1.5, 3.0])
def test_ctrl_c_while_modules_are_imported_is_one_line(delay):
    """Before `main` runs there is only Python's own start, see the next test."""
    begun = MAIN.replace("main()", "print('begun', flush=True); main()")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", begun, "train", "nothing"], **pipes) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode in (1, 2), errors  # 2 where it was done before the signal came
    assert "Traceback" not in errors and len(errors.strip().splitlines()) <= 2, errors


@_delays([0.0, 0.05], [0.01, 0.2])
def test_ctrl_c_while_python_shuts_down_keeps_the_exit_code(delay):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", MAIN, "train", "nothing"], **pipes) as process:
        assert process.stderr is not None and "no task" in process.stderr.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (2, "")


@pytest.mark.parametrize(
    ("module", "large"),
    [
        ("chronode.cli", {"torch", "numpy", "typer", "rich"}),  # so there is no time in which Ctrl-C is not caught
        ("chronode.cli.app", {"torch", "numpy", "pandas", "yaml", "pooch"}),  # --help and usage errors answer at once
    ],
)
def test_importing_the_command_line_imports_nothing_large(module, large):
    code = f"import sys, {module}; print(sorted({large!r} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("train nothing.csv", 2),
        ("train --resume nothing", 2),
        ("train --config nothing.yaml", 2),
        ("predict nothing data.csv", 2),
        ("show nothing", 2),
        ("runs nothing", 2),
        ("stream nothing", 2),
        ("export nothing", 2),
        ("compare nothing.csv", 2),
    ],
)
def test_mistakes_import_nothing_large(words, code):
    assert _imported({"torch", "numpy", "pandas"}, words) == (code, [])


@pytest.mark.parametrize(("words", "code"), [("train --help", 0), ("train --no-such-option", 2)])
def test_help_and_usage_errors_import_nothing_large(words, code):
    assert _imported({"torch", "numpy", "pandas", "pydantic"}, words) == (code, [])


@pytest.mark.parametrize(("words", "code"), [("--help", 0), ("nothing", 2)])
def test_the_list_of_commands_imports_none_of_them(words, code):
    assert _imported({"rich", "chronode.cli.train", "chronode.runs", "chronode.lab.cli.tasks"}, words) == (code, [])


def _imported(modules, words):
    """The exit code, and which of these modules the command imported."""
    script = f"import atexit, sys; atexit.register(lambda: print('found:', *{modules!r} & sys.modules.keys())); {MAIN}"
    done = subprocess.run([sys.executable, "-c", script, *words.split()], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()[-1].split()[1:]


def test_predicting_imports_neither_torch_dynamo_nor_matplotlib(here, vitals):
    copy_run(here / "run")
    code = "import sys; from chronode.runs import load; t = load('run'); "
    code += "t.predict(t.series('vitals.csv', labeled=False)); "
    code += "print(sorted({'torch._dynamo', 'matplotlib', 'scipy', 'sympy'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_command_does_not_let_pyarrow_import_pandas(here, vitals):
    copy_run(here / "run")
    code = f"import atexit, sys; atexit.register(lambda: print('pandas' in sys.modules)); {MAIN}"
    words = ["predict", "run", str(vitals), "-o", "predicted.csv"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "False"), done.stderr
    assert len((here / "predicted.csv").read_text().splitlines()) == 41


def test_pandas_can_be_imported_after_pyarrow_was_kept_from_it():
    code = """
        from chronode.system import process
        process.has_frames = False
        from chronode.data import from_long
        from chronode.data._times import parse_dates
        import sys
        first = from_long({"t": ["2024-01-01", "2024-01-03"], "x": [1.0, 2.0]}, time="t")
        assert "pandas" not in sys.modules
        print(first.lengths.tolist(), parse_dates(["03.02.2024"], "%d.%m.%Y")[1])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.stdout == "[2] 1000000.0\n", done.stderr


@pytest.mark.parametrize(
    ("file", "advice"),
    [
        (".config-", "Free some space, then run the same command again: no epoch was trained yet."),
        (".environment-", "Free some space, then run the same command again: no epoch was trained yet."),
        (".run-", "Free some space, then run the same command again: no epoch was trained yet."),
        (".checkpoint-", "Free some space, then resume with: chronode train --resume run"),
        (".model-", "Free some space, then resume with: chronode train --resume run"),
    ],
)
def test_a_full_disk_ends_with_advice_that_works(here, vitals, monkeypatch, file, advice):
    real = os.fsync

    def full(handle):
        if os.path.basename(os.readlink(f"/proc/self/fd/{handle}")).startswith(file):
            raise OSError(28, "No space left on device")
        real(handle)

    asked = ("train", vitals, *VITALS, *QUICK, "--epochs", 1, "-o", "run")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        done = chronode(*asked, code=1)
    assert "the disk is full" in done.err and done.err.strip().endswith(advice), done.err
    chronode(*(("train", "--resume", "run") if "--resume" in advice else asked))
    assert json.loads((here / "run/summary.json").read_text())["status"] == "finished"


def test_a_damaged_run_is_listed_as_damaged_and_the_others_follow(here, vitals):
    copy_run(here / "runs/whole")
    wrong = {
        "summary.json": ("[]", '{"status": 3}', "{}", '{"status": "finished", "test": [1]}', "[" * 5000),
        "run.json": ("{",),
        "config.json": ("[]", '{"data": 3}', '{"model": {"hidden": "x"}}'),
        "environment.json": ('{"started": []}', "7"),
        "metrics.jsonl": ('{"epoch": "one"}\n', "[]\n", '{"loss": "low"}\n'),
    }
    count = 0
    for name, texts in wrong.items():
        for text in texts:
            count += 1
            shutil.copytree(here / "runs/whole", here / f"runs/damaged-{count:02d}")
            (here / f"runs/damaged-{count:02d}" / name).write_text(text)
            done = chronode("show", here / f"runs/damaged-{count:02d}", code=2)
            assert f"damaged-{count:02d}/{name}" in done.err and len(done.err.splitlines()) == 1, done.err
    done = chronode("runs", "runs")
    assert done.out.count("damaged") >= count and "finished" in done.out
    notes = done.err.splitlines()
    assert len(notes) == count and all(line.startswith("note: runs/damaged-") for line in notes)
    output = {row["run"]: row["status"] for row in json.loads(chronode("runs", "runs", "--json").out)}
    assert output.pop("runs/whole") == "finished" and set(output.values()) == {"damaged"} and len(output) == count


LESS_OFTEN = ("{}", "[" * 5000, '{"objective": 3}')


@pytest.mark.parametrize("name", ["model.json", "objective.json", "data.json", "model.safetensors"])
@pytest.mark.parametrize("content", ["", "[]", *(pytest.param(c, marks=pytest.mark.slow) for c in LESS_OFTEN)])
def test_a_damaged_model_is_one_line_and_exit_code_2(here, vitals, name, content):
    copy_run(here / "run")
    (here / "run" / name).write_text(content)
    done = chronode("predict", "run", vitals, code=2)
    assert f"run/{name}" in done.err and len(done.err.splitlines()) == 1, done.err


def test_drafts_of_a_killed_run_are_swept_when_it_is_resumed(here, vitals):
    chronode("train", vitals, *VITALS, *QUICK, "--epochs", 1, "-o", "run")
    for name in (".confusion-abcd1234.draft.png", ".model-abcd1234.draft.safetensors", ".metrics-a_b_c_d_.draft.jsonl"):
        (here / "run" / name).write_bytes(b"half")
    (here / "run/checkpoints/.checkpoint-000009-ab-abcd1234.draft.safetensors").write_bytes(b"half")
    (here / "run/.mine").write_text("stays")
    chronode("train", "--resume", "run", "--epochs", 2)
    assert [path.name for path in (here / "run").rglob(".*")] == [".mine"]


def test_the_exit_codes_are_in_the_help():
    assert "Exit codes: 0: done; 1" in chronode("--help").out


@pytest.mark.parametrize("output", ["/dev/full", "closed", "gone"])
def test_predictions_that_standard_output_does_not_take_are_an_error(here, vitals, output):
    copy_run(here / "run")
    command = [sys.executable, "-c", MAIN, "predict", "run", str(vitals)]
    if output == "gone":  # a reader that has ended
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
    else:
        target = "/dev/full" if output == "/dev/full" else "&-"
        shell = ["sh", "-c", f'"$@" >{target}', "sh", *command]
        done = subprocess.run(shell, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note:")]
    assert [line.split(": ")[:2] for line in lines] == [["chronode", "standard output"]] * (output != "gone")
