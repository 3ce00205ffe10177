"""Servers that send forever, or next to nothing, are given up on; what came is kept."""

import contextlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from remote_files import CONTENT, downloaded, empty_cache, local_server, numbers, own_catalogue

from chronode.lab.datasets import _download as download
from chronode.lab.datasets import _resume as resume
from chronode.storage._schema import DOWNLOAD_BYTES, DOWNLOAD_SPEED

cache = pytest.fixture(empty_cache)
known = pytest.fixture(own_catalogue)
server = pytest.fixture(local_server)


@pytest.fixture
def serve():
    """Gives `serve(answer)`: the address of a server that calls answer(request) for every request."""
    servers = []

    def start(answer):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                with contextlib.suppress(OSError):  # the other side may go
                    answer(self)

            def log_message(self, format, *args):
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(http)
        return f"http://127.0.0.1:{http.server_port}/numbers.bin"

    yield start
    for http in servers:
        http.shutdown()
        http.server_close()


def send_forever(request):
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(CONTENT)


def send_slowly(request):
    request.send_response(200)
    request.send_header("Content-Length", str(len(CONTENT)))
    request.send_header("ETag", '"one"')
    request.end_headers()
    for at in range(0, len(CONTENT), 2):
        request.wfile.write(CONTENT[at : at + 2])
        request.wfile.flush()
        time.sleep(0.05)


def test_a_server_that_sends_forever_is_stopped(serve, known, cache, monkeypatch):
    monkeypatch.setenv(DOWNLOAD_BYTES.variable, "5000000")
    known(numbers(serve(send_forever)))
    with pytest.raises(download.DataError, match="is larger than 5,000,000 bytes. Set CHRONODE_MAX_DOWNLOAD"):
        download.folder("numbers")
    assert sum(path.stat().st_size for path in (cache / "downloads").iterdir()) <= 5_000_000


def test_a_length_beyond_the_limit_is_refused_at_once(server, known, monkeypatch):
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    monkeypatch.setenv(DOWNLOAD_BYTES.variable, "1000")
    with pytest.raises(download.DataError, match="is larger than 1,000 bytes"):
        download.folder("numbers")
    monkeypatch.setenv(DOWNLOAD_BYTES.variable, str(len(CONTENT)))
    assert downloaded() == CONTENT


def test_a_server_that_sends_next_to_nothing_is_given_up_on(serve, known, cache, monkeypatch):
    monkeypatch.setattr(resume, "WINDOW", 0.5)
    known(numbers(serve(send_slowly)))
    begun = time.monotonic()
    message = "sends only [0-9]+ bytes per second; the received part is kept for the next attempt. Set "
    message += "CHRONODE_MIN_DOWNLOAD_SPEED=0"
    with pytest.raises(download.DataError, match=message):
        download.folder("numbers")
    assert time.monotonic() - begun < 20
    part = cache / "downloads" / "numbers.bin.part"
    assert CONTENT.startswith(part.read_bytes()) and part.stat().st_size > 2


def test_a_slow_server_is_waited_for_if_that_is_wanted(server, known, monkeypatch):
    monkeypatch.setattr(resume, "WINDOW", 0.05)
    monkeypatch.setenv(DOWNLOAD_SPEED.variable, "0")
    server.pause = 0.1
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    assert downloaded() == CONTENT
