"""Real processes to be killed in the middle of their work."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Importing torch takes seconds, so one process imports it and every victim is a fork of that one.
FORKER = """
import json, os, sys
exec(sys.argv[1])
while order := sys.stdin.readline():
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        work(lambda word: os.write(sender, f"{word} ".encode()), *json.loads(order))
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as words:
        first = words.read(1)
        print("begun", flush=True)
        if sys.stdin.readline().strip() == "kill":
            os.kill(pid, 9)  # not reaped yet, so the number is still its own even if its work is over
        os.waitpid(pid, 0)
        print(first + words.read(), flush=True)
"""


@contextmanager
def victims(source: str) -> Iterator[Callable[..., list[str]]]:
    """Gives `killed_after(seconds, *arguments)`: it starts `work(say, *arguments)` of `source`, kills it by SIGKILL
    so many seconds after its first word, and returns what it said. With None seconds it may finish.
    """
    command = [sys.executable, "-c", FORKER, source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forker:
        assert forker.stdin is not None and forker.stdout is not None
        orders, replies = forker.stdin, forker.stdout

        def send(order: str) -> None:
            orders.write(order + "\n")
            orders.flush()

        def killed_after(seconds: float | None, *arguments: object) -> list[str]:
            send(json.dumps(arguments))
            assert replies.readline() == "begun\n"
            time.sleep(seconds or 0)
            send("wait" if seconds is None else "kill")
            return replies.readline().split()

        yield killed_after
        orders.close()
