"""The page of a service in a real browser: live predictions and alarms appear, and nothing else is loaded."""

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.request

import pytest
from servers import served
from streams import events, train_vitals

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (the Debian package chromium)")


@contextlib.contextmanager
def opened(url, folder):
    """A page in Chromium, as a function that calls a method of the DevTools protocol."""
    from websockets.sync.client import connect

    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
    ]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={folder}"]
    command = [CHROMIUM, *flags, "--remote-debugging-port=0", "--window-size=1000,760", url]
    # A file, not a pipe: nobody would read what Chromium goes on writing, and a full pipe would stop it.
    log = folder.with_suffix(".log")
    with open(log, "w") as file:
        process = subprocess.Popen(command, stderr=file)
    try:
        address = until(lambda: re.search(r"ws://(127.0.0.1:\d+)/", log.read_text()))[1]
        target = until(lambda: page_of(address))["webSocketDebuggerUrl"]
        numbers = itertools.count(1)
        with connect(target, max_size=None) as socket:

            def call(method, **params):
                number = next(numbers)
                socket.send(json.dumps({"id": number, "method": method, "params": params}))
                while (answer := json.loads(socket.recv(60))).get("id") != number:
                    pass
                return answer["result"]

            yield call
    finally:
        process.kill()
        process.wait()


def page_of(address):
    """The description of the first page of a browser, or None: its window may open after its port."""
    with urllib.request.urlopen(f"http://{address}/json", timeout=60) as answer:
        return next((page for page in json.load(answer) if page["type"] == "page"), None)


def until(question, seconds=120):
    """The first answer of a function that is true; a machine that runs other tests may be slow."""
    end = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < end, f"no answer within {seconds} s"
        time.sleep(0.1)
    return answer


def test_the_page_shows_live_predictions_and_alarms(tmp_path):
    home = train_vitals(tmp_path)
    with served(home / "run", "--alarm", "p_ill>=0") as server, opened(server.url, tmp_path / "profile") as call:
        done = threading.Event()

        def send():
            for lap in itertools.count():
                for row in events(home / "new.csv"):
                    if done.wait(0.05):
                        return
                    server.ask("/observe", {name: cell for name, cell in row.items() if cell} | {"patient": f"p{lap}"})

        sender = threading.Thread(target=send)
        sender.start()

        def complete():
            # Without a body yet, the expression has no value.
            page = call("Runtime.evaluate", expression="document.body.innerHTML")["result"].get("value", "")
            return page if '<b id="connection">live</b>' in page and page.count("<polyline") >= 2 else None

        try:
            page = until(complete)
            assert call("Runtime.evaluate", expression="document.body.scrollWidth <= 1000")["result"]["value"]
            if folder := os.environ.get("CHRONODE_SCREENSHOTS"):
                picture = base64.b64decode(call("Page.captureScreenshot", format="png")["data"])
                with open(f"{folder}/serve.png", "wb") as file:
                    file.write(picture)
        finally:
            done.set()
            sender.join()
    assert 'class="alarm"' in page and "p_ill&gt;=0" in page
