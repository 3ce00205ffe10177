"""`chronode analyze`: every command as a user calls it, and every command that the docs show."""

import json
import re
from pathlib import Path

import pytest
import typer
from commands import QUICK, VITALS, chronode, run, write_vitals

from chronode.lab.cli.analyze import analyze_app

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("analysis.md", "analysis_oscillators.md", "analysis_expressivity.md")
COMMANDS = typer.main.get_command(analyze_app).commands
BITS = ("--option", "train=32", "--option", "valid=8", "--option", "test=8", "--hidden", "4", "--epochs", "1")

SMALL = {
    "gradients": (["--lengths", "5,10", "--hidden", "4", "--seeds", "1"], ["gradients"]),
    "flow": (["--steps", "10", "--hidden", "4"], ["flow"]),
    "teaching": (["--steps", "6", "--hidden", "4"], ["teaching", "surface"]),
    "training": (["--length", "6", "--steps", "2", "--hidden", "4"], ["training"]),
    "equilibrium": (["--model", "ernn", "--hidden", "4"], ["convergence", "eigenvalues"]),
    "phase": (["--steps", "20"], ["phase"]),
    "energy": (["--steps", "20"], ["energy"]),
    "volume": (["--steps", "3", "--model", "unicornn,gru"], ["volume"]),
    "inverse": (["--steps", "10", "--delta-t", "0.1"], ["inverse"]),
    "state-bounds": (["--steps", "10"], ["state-bounds"]),
    "gradient-bounds": (["--lengths", "5,10"], ["gradient-bounds"]),
    "gradient-formula": (["--steps", "10"], ["gradient-formula"]),
    "trajectory": (["--model", "ltc,lstm", "--width", "8"], ["trajectory"]),
    "expressivity": (["--values", "4,8", "--tries", "1"], ["expressivity"]),
    "depth-table": (["--tries", "1", "--width", "5", "--workers", "1"], ["depth-table"]),
    "time-constants": (["--steps", "5"], ["time-constants"]),
}
STUDIES = ("time-steps", "weight-norms", "sensitivity", "stacking", "subsampling")


def check(folder, done, pictures):
    """The printed table is the written one, and every picture is reported on the error stream."""
    written = {name: json.loads((folder / f"{name}.json").read_text()) for name in pictures}
    assert json.loads(done.stdout) == (written[pictures[0]] if len(pictures) == 1 else written)
    for name in pictures:
        assert f"plot: {folder / f'{name}.png'}" in done.stderr
        drawn = (folder / f"{name}.png").read_bytes()
        assert drawn.startswith(b"\x89PNG") and len(drawn) < 120_000


@pytest.mark.parametrize("command", list(SMALL))
def test_every_command_draws_and_its_json_is_all_that_is_printed(command, tmp_path):
    arguments, pictures = SMALL[command]
    check(tmp_path, run("analyze", command, *arguments, "--json", "--output", str(tmp_path)), pictures)


@pytest.mark.slow
@pytest.mark.parametrize("command", STUDIES)
def test_studies_run_on_a_task(command, tmp_path):
    done = run("analyze", command, "--epochs", "1", "--hidden", "4", "--json", "--output", str(tmp_path))
    check(tmp_path, done, [command])


def test_every_command_is_among_them():
    assert COMMANDS.keys() == {*SMALL, *STUDIES, "health"}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_ends_with_where_and_how_to_tell(command):
    *_, output, json_flag, plugin = COMMANDS[command].params
    assert (output.opts, json_flag.opts, plugin.opts) == (["--output"], ["--json"], ["--plugin"])
    assert output.default == (None if command == "health" else Path("runs/analyze")) and json_flag.default is False


def test_table_2_is_shown_beside_the_papers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ("--model", "mmrnn,ode-rnn", "--lengths", "5,10,25,50", "--hidden", "4", "--seeds", "1")
    output = run("analyze", "gradients", *command).stdout
    for row in ("mmrnn, chronode", "mmrnn, paper", "ode-rnn, chronode", "ode-rnn, paper"):
        assert row in output
    assert "0.97 ± 0.01" in output and "1214.94 ± 3750.62" in output and "states neither" in output
    assert "plot: runs/analyze/gradients.png" in output


def test_notes_come_last_and_leave_the_json_clean(tmp_path):
    command = ("analyze", "gradients", "--lengths", "5", "--hidden", "4", "--seeds", "1", "--output", str(tmp_path))
    plain, as_json = run(*command), run(*command, "--json")
    plot = f"plot: {tmp_path / 'gradients.png'}"
    summary, _, notes = plain.stdout.partition(f"{plot}\n")
    assert summary.startswith("Gradient norms") and notes.startswith("ode-rnn: ") and "states neither" in notes
    assert plain.stderr == "" and as_json.stderr == f"{plot}\n{notes}"


# ---- health -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of one epoch on bit streams."""
    folder = tmp_path_factory.mktemp("health") / "run"
    chronode("train", "bitstream", "--model", "mmrnn", *BITS, "--threads", "1", "--output", folder)
    return folder


def test_health_of_a_run_that_loses_to_a_baseline_is_six_sentences_and_a_plot(finished):
    output = run("analyze", "health", str(finished)).stdout.splitlines()
    subjects = ["Baselines", "Gradient", "Saturation", "Dead units", "Ranges", "Time", "plot"]
    assert [line.split(":")[0] for line in output] == subjects
    assert output[-1] == f"plot: {finished / 'health.png'}"
    assert json.loads((finished / "health.json").read_text())["findings"] == output[:-1]
    assert (finished / "health.png").read_bytes().startswith(b"\x89PNG")


def test_health_as_json_goes_where_asked(finished, tmp_path):
    done = run("analyze", "health", str(finished), "bitstream", "--json", "--output", str(tmp_path))
    check(tmp_path, done, ["health"])


def test_health_on_another_file_with_missing_values(tmp_path):
    for name, seed in (("ward", 0), ("other", 1)):
        write_vitals(tmp_path / f"{name}.csv", seed=seed)
    run_folder = tmp_path / "run"
    chronode("train", tmp_path / "ward.csv", *VITALS, *QUICK, "--model", "gru-d", "--epochs", 1, "--output", run_folder)
    output = run("analyze", "health", str(run_folder), str(tmp_path / "other.csv")).stdout
    assert "the decay time of the state is" in output
    assert (run_folder / "health.png").is_file()


# ---- mistakes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["inverse", "--delta-t", "fast"], "--delta-t must be numbers separated by commas, got 'fast'"),
        (["gradients", "--lengths", "5.5"], "--lengths must be whole numbers"),
        (["gradients", "--lengths", ","], "--lengths is empty"),
        (["flow", "--model", ","], "--model is empty"),
        (["volume", "--model", "lstmm"], "there is no model 'lstmm'. Did you mean 'lstm'"),
        (["equilibrium", "--model", "gru"], "--model gru is not an equilibrium model: choose irnn, sirnn or ernn"),
        (["expressivity", "--over", "solver", "--values", "euler"], "solver='euler' is not supported"),
        (["health", "nowhere"], "nowhere"),
        (["flow", "--steps", "1"], "--steps"),
    ],
)
def test_a_mistake_ends_with_one_line_and_code_2(arguments, expected):
    done = run("analyze", *arguments, code=2)
    assert expected in done.stderr and "Traceback" not in done.stderr


# ---- help and docs ------------------------------------------------------------------------------------------


def shown():
    """Every command line of the help texts and the docs, from `chronode analyze` on."""
    for command in COMMANDS.values():
        (line,) = re.findall(r"^Example: chronode analyze (.*)$", command.help, re.MULTILINE)
        yield line
    for page in PAGES:
        yield from re.findall(r"chronode analyze ([a-z][a-z-]*[^`|#\n]*)", (DOCS / page).read_text())


@pytest.mark.parametrize("line", sorted(set(shown())))
def test_what_is_shown_can_be_typed(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *arguments = line.split()
    arguments = [word for word in arguments if word not in ("...", "--help")]
    if name == "health" and not arguments:
        arguments = ["runs/any"]
    if name == "health":
        (tmp_path / arguments[0]).mkdir(parents=True)  # a run that does not exist is refused
    COMMANDS[name].make_context(name, arguments)  # raises what is wrong with them


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_the_docs_can_be_imported_and_that_of_the_first_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        whole = compile(block, page, "exec")
        imports = "\n".join(line for line in block.splitlines() if line.startswith(("from ", "import ")))
        exec(whole if page == "analysis.md" else compile(imports, page, "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", PAGES)
def test_the_docs_show_pictures_that_exist(page):
    text = (DOCS / page).read_text()
    pictures = re.findall(r"\]\((pictures/[^)]*)\)", text)
    assert len(pictures) >= (6 if page == "analysis.md" else 3)
    assert all((DOCS / picture).stat().st_size < 120_000 for picture in pictures)
    linked = re.findall(r"\]\((\w+\.md)[)#]", text)
    assert all((DOCS / other).is_file() for other in linked)
