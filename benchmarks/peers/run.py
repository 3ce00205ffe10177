"""Runs one irregular file through eight packages and writes what happened.

    python benchmarks/peers/run.py [NAME ...]

Every package has a script, `packages/peer_NAME.py`, and pinned requirements, `packages/NAME.txt`, in a virtual
environment of its own; chronode runs in the environment of this command. Environments, data and answers are kept in
CHRONODE_PEERS (default: ~/.cache/chronode/peers): what is there and unchanged is not made again, so the command can be
stopped and repeated. With names, only these packages run. The results go to results.json and README.md here.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pages import page
from protocol import last_values, read, score, split_forecast

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("CHRONODE_PEERS", "~/.cache/chronode/peers")).expanduser()
PACKAGES = ("chronode", "ncps", "pypots", "torchcde", "aeon", "sktime", "darts", "neuralforecast")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def main() -> None:
    names = sys.argv[1:] or list(PACKAGES)
    if unknown := set(names) - set(PACKAGES):
        sys.exit(f"{', '.join(sorted(unknown))}: unknown package; choose from {', '.join(PACKAGES)}.")
    files = data_files()
    failed = []
    for name in names:
        try:
            answer(name, files)
        except subprocess.CalledProcessError as error:
            failed.append(f"{name}: {error}")
    write(files)
    if failed:
        sys.exit("\n".join(failed))


def data_files() -> tuple[Path, Path]:
    """Returns the CSV files for training and test, written in the environment of aeon, which ships the data set."""
    folder = CACHE / "data" / digest(HERE / "ragged_file.py", HERE / "packages" / "aeon.txt")
    files = folder / "train.csv", folder / "test.csv"
    if not all(file.exists() for file in files):
        folder.mkdir(parents=True, exist_ok=True)
        drafts = [file.with_suffix(".draft") for file in files]
        subprocess.run([interpreter("aeon"), HERE / "ragged_file.py", *drafts], check=True)
        for draft, file in zip(drafts, files, strict=True):
            draft.replace(file)
    return files


def interpreter(name: str) -> Path:
    """Returns the Python of a package's environment, which is made if its requirements changed."""
    if name == "chronode":
        return Path(sys.executable)
    folder, wanted = CACHE / name, HERE / "packages" / f"{name}.txt"
    python, stamp = folder / "bin" / "python", folder / "requirements"
    if not stamp.exists() or stamp.read_text() != digest(wanted):
        print(f"{name}: installing {wanted.name} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        stamp.write_text(digest(wanted))
    return python


def answer(name: str, files: tuple[Path, Path]) -> None:
    """Runs a package's script, unless its answer exists already."""
    out = answer_file(name, files)
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        command = [interpreter(name), "-W", "ignore", script(name), *files, out]
        subprocess.run(command, check=True, cwd=out.parent, env={**os.environ, **ONE_THREAD})


def answer_file(name: str, files: tuple[Path, Path]) -> Path:
    shared = [HERE / "protocol.py", HERE / "loop.py"]
    requirements = [] if name == "chronode" else [HERE / "packages" / f"{name}.txt"]
    return CACHE / "answers" / f"{name}-{digest(script(name), *shared, *requirements, *files)}.json"


def script(name: str) -> Path:
    return HERE / "packages" / f"peer_{name}.py"


def digest(*files: Path) -> str:
    """Returns a hash of the contents of files."""
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def write(files: tuple[Path, Path]) -> None:
    """Writes results.json from the answers of this file (keeping older ones of packages without), and README.md."""
    stored = HERE / "results.json"
    results: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {"packages": {}}
    known = results["packages"]
    for name in PACKAGES:
        if answer_file(name, files).exists():
            known[name] = json.loads(answer_file(name, files).read_text())
    results["packages"] = {name: known[name] for name in PACKAGES if name in known}
    parts = [read(file) for file in files]
    contexts, truth = split_forecast(parts[1])
    rows = [len(each.times) for part in parts for each in part]
    results["series"], results["rows"] = [len(part) for part in parts], [min(rows), max(rows)]
    results["last value"] = round(score("forecast", last_values(contexts), truth), 4)
    stored.write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "README.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
