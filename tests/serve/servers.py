"""A served model in a process of its own, and requests to it."""

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from commands import MAIN


@dataclass
class Server:
    process: subprocess.Popen
    url: str
    token: str = ""

    def ask(self, path, body: Any = None, *, method=None, kind="application/json", accept="", token=None) -> Any:
        """Returns the status and the parsed body of the answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}{path}", data, method=method or ("GET" if data is None else "POST")
        )
        request.add_header("Content-Type", kind)
        if accept:
            request.add_header("Accept", accept)
        if token or self.token:
            request.add_header("Authorization", f"Bearer {token or self.token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, content, form = answer.status, answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            status, content, form = error.code, error.read(), error.headers["Content-Type"]
        return status, json.loads(content) if "json" in form else content

    def stop(self, number=15):
        self.process.send_signal(number)
        return self.process.wait(60)


@contextlib.contextmanager
def served(run, *options, token=""):
    """`chronode serve` on a free port."""
    command = [sys.executable, "-c", MAIN, "serve", str(run), "--port", "0", *map(str, options)]
    environment = {**os.environ, "COLUMNS": "200", "CHRONODE_TOKEN": token}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        lines = []
        while not (found := re.search(r"listening on (http://\S+)", lines[-1] if lines else "")):
            line = process.stderr.readline()
            assert line, "".join(lines)
            lines.append(line)
        yield Server(process, found[1], token)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()
