"""Further processes of a training on this machine; run as a program, this module is one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from typing import IO, Any

from ._crew import follow


class LocalHelpers:
    """Processes on this machine that train along; see `Helpers`."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.errors: list[IO[bytes]] = []

    def start(self, content: bytes, port: int, size: int) -> None:
        """Starts processes that do not see the Ctrl-C of a terminal: the first process ends them."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        for rank in range(1, size):
            self.errors.append(tempfile.TemporaryFile())  # noqa: SIM115
            process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, self.host, str(port), str(rank), str(size)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self.errors[-1],
                env=environment,
                start_new_session=True,
            )
            self.processes.append(process)
        for process in self.processes:
            assert process.stdin is not None
            try:
                process.stdin.write(content)
                process.stdin.close()
            except BrokenPipeError:
                return  # it has ended; `fault` has the reason

    def fault(self) -> str:
        """Returns how a process has ended, with the last line of its errors."""
        for process, file in zip(self.processes, self.errors, strict=True):
            if process.poll() is not None:
                file.seek(0)
                lines = file.read().decode(errors="replace").split("\n")
                return next((line for line in reversed(lines) if line.strip()), f"exit code {process.returncode}")
        return ""

    def stop(self) -> None:
        """Ends all processes."""
        for process in self.processes:
            process.kill()
        for process, file in zip(self.processes, self.errors, strict=True):
            process.wait()
            file.close()
        self.processes, self.errors = [], []


def main(arguments: list[str]) -> None:
    """Reads the training from the standard input and trains along; without the first process it ends quietly."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    numbers: list[Any] = [int(argument) for argument in arguments[1:]]
    follow(sys.stdin.buffer.read(), arguments[0], *numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
