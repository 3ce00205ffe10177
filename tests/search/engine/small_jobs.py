"""Jobs for the tests of the engine; workers import this module."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Square:
    """Its result is the square of a number; reports the process that it runs in."""

    number: int

    @property
    def key(self):
        return str(self.number)

    def execute(self, state, report) -> Any:
        report(os.getpid())
        return self.number**2


@dataclass(frozen=True)
class Wrong(Square):
    """Raises an error."""

    def execute(self, state, report):
        raise ValueError(f"{self.number} is wrong.")


@dataclass(frozen=True)
class Broken(Square):
    """Raises an error that nobody expects."""

    def execute(self, state, report):
        return {}[self.number]


@dataclass(frozen=True)
class Endless(Square):
    """Reports until it is stopped."""

    def execute(self, state, report):
        while True:
            report(os.getpid())
            time.sleep(0.01)


@dataclass(frozen=True)
class Mortal(Square):
    """Its process ends by itself until a file holds as many lines as there were attempts."""

    attempts: int
    file: Path

    def execute(self, state, report):
        with open(self.file, "a") as file:
            file.write("tried\n")
        if len(self.file.read_text().splitlines()) < self.attempts:
            os._exit(7)
        return self.number**2


@dataclass(frozen=True)
class Counting(Square):
    """Counts to its number in the folder for unfinished jobs, where it continues."""

    def execute(self, state, report):
        file = state / self.key
        done = len(file.read_text()) if file.exists() else 0
        for _ in range(done, self.number):
            with open(file, "a") as opened:
                opened.write(".")
            report(len(file.read_text()))
        return done


@dataclass(frozen=True)
class Surroundings(Square):
    """Its result is the process that started its own, whether torch was imported before it, and a variable."""

    def execute(self, state, report):
        return os.getppid(), "torch" in sys.modules, os.environ.get("CHRONODE_TEST_OF_WORKERS")
