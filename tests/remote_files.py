"""A server on this machine, archives to serve, an empty cache: what the tests of downloads share."""

import hashlib
import io
import tarfile
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chronode.lab.datasets import _catalogue as catalogue
from chronode.lab.datasets import _download as download
from chronode.lab.datasets._catalogue import DataSet, Remote

CONTENT = bytes(range(256)) * 4096  # 1 MiB
NOWHERE = "http://127.0.0.1:9/numbers.bin"  # nobody listens there


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """Serves `files`; can break off, be slow, or know nothing of ranges. `requests` is (path, Range header)."""

    def __init__(self):
        self.files, self.requests = {}, []
        self.ranges, self.tagged, self.break_after, self.pause = True, True, None, 0.0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                server.requests.append((self.path, self.headers["Range"]))
                server.answer(self)

            def log_message(self, format, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def url(self, name):
        return f"http://127.0.0.1:{self.http.server_port}/{name}"

    def answer(self, request):
        content = self.files.get(request.path[1:])
        if content is None:
            return request.send_error(404)
        tag = f'"{sha256(content)[:8]}"'
        asked, start = request.headers["Range"], 0
        if asked and self.ranges and request.headers["If-Range"] == tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return request.send_error(416)
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            request.send_response(200)
        if self.tagged:
            request.send_header("ETag", tag)
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        end = len(content) if self.break_after is None else min(start + self.break_after, len(content))
        try:
            for at in range(start, end, 1 << 16):
                request.wfile.write(content[at : min(at + (1 << 16), end)])
                time.sleep(self.pause)
        except OSError:
            return None  # the other side has gone


def numbers(url, hash=None):
    return Remote("numbers.bin", (url,), f"sha256:{sha256(CONTENT)}" if hash is None else hash)


def downloaded():
    """Content of numbers.bin in the cache or the mirror, after a download where one is needed."""
    return (download.folder("numbers") / "numbers.bin").read_bytes()


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(members, mode="w:gz"):
    """An archive of pairs of a `member` and its content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for one, content in members:
            one.size = len(content)
            archive.addfile(one, io.BytesIO(content))
    return buffer.getvalue()


def member(name, kind=tarfile.REGTYPE, link=""):
    """The head of a file, a link or a device in a tar archive."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


# ---- fixtures: a test file takes those that it needs by `server = pytest.fixture(local_server)` and so on -----


def local_server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def empty_cache(tmp_path, monkeypatch):
    """An empty cache of downloads, and no mirror."""
    monkeypatch.setenv("CHRONODE_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("CHRONODE_DATA_MIRROR", raising=False)
    return tmp_path / "cache"


def own_catalogue(cache, monkeypatch):
    """Makes `numbers` a data set of the given remote files, and the only one; the cache is empty."""

    def register(*remote, reads=("numbers.bin",), variants=()):
        facts = dict.fromkeys(("title", "publisher", "page", "licence", "cite"), "")
        made = DataSet(name="numbers", remote=remote, reads=reads, variants=variants, **facts)
        monkeypatch.setattr(catalogue, "_read", lambda: {"numbers": made})

    return register


def numbers_published(server, known):
    """The server, which has numbers.bin, and `numbers` is the data set of that file."""
    server.files["numbers.bin"] = CONTENT
    known(numbers(server.url("numbers.bin")))
    return server
