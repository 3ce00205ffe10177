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
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = next(found[1] for line in process.stderr if (found := re.search(r"ws://(127.0.0.1:\d+)/", line)))
        pages = json.load(urllib.request.urlopen(f"http://{address}/json"))
        target = next(page for page in pages if page["type"] == "page")["webSocketDebuggerUrl"]
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
        process.stderr.close()


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
        page = ""
        try:
            for _ in range(300):
                page = call("Runtime.evaluate", expression="document.body.innerHTML")["result"]["value"]
                if '<b id="connection">live</b>' in page and page.count("<polyline") >= 2:
                    break
                time.sleep(0.1)
            assert call("Runtime.evaluate", expression="document.body.scrollWidth <= 1000")["result"]["value"]
            if folder := os.environ.get("CHRONODE_SCREENSHOTS"):
                picture = base64.b64decode(call("Page.captureScreenshot", format="png")["data"])
                with open(f"{folder}/serve.png", "wb") as file:
                    file.write(picture)
        finally:
            done.set()
            sender.join()
    assert '<b id="connection">live</b>' in page
    assert page.count("<polyline") >= 2 and 'class="alarm"' in page and "p_ill&gt;=0" in page
