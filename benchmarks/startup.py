"""CPU time of short commands, as multiples of `python -c "import torch"`: python benchmarks/startup.py

Every round runs each command once, so that all see the same machine; the least of the rounds counts, because other
work on the machine only adds to it. The figures are written to benchmarks/startup.json and benchmarks/startup.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MAIN = "from chronode.cli import main; main()"
TRAIN = ["train", "example.csv", "--target", "outcome", "--id", "patient", "--time", "charted_at"]
TRAIN += ["--model", "mmrnn", "--epochs", "2", "--hidden", "8"]
# What is run, and the most that it may take where importing torch takes 1.6 s.
COMMANDS: dict[str, tuple[list[str], float | None]] = {
    "import torch": (["-c", "import torch"], None),
    "chronode --version": (["-c", MAIN, "--version"], 0.3),
    "chronode --help": (["-c", MAIN, "--help"], 0.3),
    "chronode train --help": (["-c", MAIN, "train", "--help"], 0.3),
    "chronode train --no-such-option": (["-c", MAIN, "train", "--no-such-option"], 0.3),
    "chronode predict, 80 series": (["-c", MAIN, "predict", "trained", "example.csv", "-o", "out.csv", "--force"], 2.5),
    "chronode train, 80 series, 2 epochs, 8 units": (["-c", MAIN, *TRAIN], 4.0),
}
TORCH_SECONDS = 1.6


def cpu_seconds(arguments: list[str], folder: Path) -> float:
    """User and system time of one process and of the processes that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Modules are compiled once, as by an installation, even if the environment forbids it.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(rounds: int) -> dict[str, float]:
    """Command -> least CPU seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        example = ["-c", MAIN, "data", "example", "example.csv", "--patients", "80"]
        for arguments in (example, ["-c", MAIN, *TRAIN, "-o", "trained"]):
            subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)
        times: dict[str, list[float]] = {label: [] for label in COMMANDS}
        for _ in range(rounds):
            for label, (arguments, _) in COMMANDS.items():
                times[label].append(cpu_seconds(arguments, folder))
    return {label: min(each) for label, each in times.items()}


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    seconds = measured(rounds)
    torch = seconds["import torch"]
    lines = [
        "# Start-up times",
        "",
        f"`python benchmarks/startup.py --rounds {rounds}`: CPU seconds, least of the rounds.",
        "",
    ]
    lines += ["| command | CPU seconds | times `import torch` | at most |", "| --- | ---: | ---: | ---: |"]
    for label, (_, most) in COMMANDS.items():
        limit = "" if most is None else f"{most / TORCH_SECONDS:.2f}"
        lines.append(f"| `{label}` | {seconds[label]:.2f} | {seconds[label] / torch:.2f} | {limit} |")
    text = "\n".join(lines) + "\n"
    (HERE / "startup.md").write_text(text)
    (HERE / "startup.json").write_text(json.dumps(seconds, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
