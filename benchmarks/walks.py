"""Counts the modules of chronode that a command walks through: those of which a function runs.

python benchmarks/walks.py            # train, stream and export on a small file
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import chronode

SOURCE = Path(chronode.__file__).parent


def walked(call: Callable[[], Any]) -> set[str]:
    """Returns the modules of which a function ran, with all threads of this process."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {str(Path(file).relative_to(SOURCE)) for file in files if file.startswith(str(SOURCE))}


def command(*words: str) -> Callable[[], None]:
    """Returns a call of the command line in this process."""

    def run() -> None:
        from chronode.cli.app import command as root

        with (Path(tempfile.mkdtemp()) / "output").open("w") as file, contextlib.redirect_stdout(file):
            root()(list(words), standalone_mode=False)

    return run


def main() -> None:
    """Trains on a small file, streams into the model and exports it."""
    folder = Path(tempfile.mkdtemp())
    rows = [f"{i},{t},{(i % 2) * t + (i * t) % 7},{'ab'[i % 2]}" for i in range(60) for t in range(5)]
    (folder / "data.csv").write_text("id,time,x,label\n" + "\n".join(rows) + "\n")
    run, options = str(folder / "run"), shlex.split("--target label --id id --time time --model gru --epochs 1 -o")
    command("train", str(folder / "data.csv"), *options, str(folder / "first"))()  # imports all modules
    (folder / "events.jsonl").write_text('{"id": "new", "time": 0, "x": 1.0}\n')
    for name, call in (
        ("train", command("train", str(folder / "data.csv"), *options, run)),
        ("stream", command("stream", run, str(folder / "events.jsonl"))),
        ("export", command("export", run, "--format", "c", "-o", str(folder / "c"))),
    ):
        modules = walked(call)
        print(f"{name}: {len(modules)} modules", file=sys.stderr)
        if "-v" in sys.argv:
            print("\n".join(f"    {module}" for module in sorted(modules)), file=sys.stderr)


if __name__ == "__main__":
    main()
