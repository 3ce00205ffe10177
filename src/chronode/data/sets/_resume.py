"""A download that goes on where it was interrupted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._limits import DOWNLOAD_BYTES, DOWNLOAD_SPEED

if TYPE_CHECKING:
    from requests import Response
    from rich.console import Console

ATTEMPTS = 5  # connections that may break before it is given up
WAIT = (10.0, 60.0)  # seconds: to connect, and between bytes
WINDOW = 60.0  # seconds over which the speed is measured
_CHUNK = 1 << 18


class Resuming:
    """A downloader for `pooch.retrieve`: collects FILE.part, goes on there next time, and hands the whole file over.

    The rest is asked for only if the server says that the file is still the same one (its ETag or its date, kept in
    FILE.part.tag); otherwise, and from a server that cannot send parts, everything is downloaded again.

    Args:
        part: where the bytes are collected.
        console: where the progress bar goes.
    """

    def __init__(self, part: Path, console: Console) -> None:
        self.part, self.console = part, console
        self.tag = part.with_name(part.name + ".tag")

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        """Downloads `url` to `output_file`; an error leaves the part for the next time."""
        from requests.exceptions import ChunkedEncodingError, ConnectionError, Timeout

        for attempt in range(1, ATTEMPTS + 1):
            before = self._size()
            try:
                self._stream(url)
                break
            except (ChunkedEncodingError, ConnectionError, Timeout):
                if attempt == ATTEMPTS or self._size() <= before:
                    raise
        self.tag.unlink(missing_ok=True)
        self.part.replace(output_file)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _stream(self, url: str) -> None:
        import requests

        have = self._size() if self.tag.is_file() else 0
        # Compressed on the way, the bytes would be others than those the hash is of.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": self.tag.read_text()}
        with _connected(url, headers) as response:
            if have and response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()  # there is nothing behind it: begin again
                return self._stream(url)
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                self._keep_tag(response)
                have = 0
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise requests.ConnectionError(f"{url} sent another part than the one asked for")
            self._collect(response, have)

    def _keep_tag(self, response: Response) -> None:
        etag = response.headers.get("ETag", "")
        tag = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
        self.tag.unlink(missing_ok=True)
        if tag:
            self.tag.write_text(tag)

    def _collect(self, response: Response, have: int) -> None:
        """Writes the body behind the first `have` bytes; a body that ends early is a broken connection."""
        from requests import ConnectionError
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
        from urllib3.exceptions import HTTPError

        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() and len(length) < 19 else None
        _check_size(total or 0, response.url)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True) as progress, self.part.open("ab") as file:
            file.truncate(have)
            task = progress.add_task(self.part.stem, total=total, completed=have)
            pace = _Pace(have)
            try:
                # What is there, not a whole chunk: a slow server would not be noticed for hours.
                while chunk := response.raw.read1(_CHUNK, decode_content=False):
                    have += len(chunk)
                    _check_size(have, response.url)
                    pace.check(have, response.url)
                    file.write(chunk)
                    progress.advance(task, len(chunk))
            except HTTPError as error:
                raise ConnectionError(f"{response.url}: the connection broke: {error}") from error
        if total is not None and self._size() != total:
            raise ConnectionError(f"{response.url} ended after {self._size():,} of {total:,} bytes")


class Refused(OSError):
    """A download that would take forever, or all of the disk; it is not tried again."""


class _Pace:
    """How fast bytes come: looked at once a minute."""

    def __init__(self, have: int) -> None:
        self.have, self.since = have, time.monotonic()

    def check(self, have: int, url: str) -> None:
        """Gives up on a server that sent next to nothing for a minute."""
        seconds = time.monotonic() - self.since
        if seconds < WINDOW:
            return
        speed = (have - self.have) / seconds
        if speed < DOWNLOAD_SPEED.value:
            told = f"{url} sends {speed:,.0f} bytes a second; what came is kept for the next time"
            raise Refused(f"{told}. Set {DOWNLOAD_SPEED.variable}=0 to wait however long it takes.")
        self.have, self.since = have, time.monotonic()


def _check_size(size: int, url: str) -> None:
    if size > DOWNLOAD_BYTES.value:
        raise Refused(f"{url} is larger than {DOWNLOAD_BYTES.value:,} bytes. {DOWNLOAD_BYTES.cure}")


def _connected(url: str, headers: dict[str, str]) -> Response:
    import requests

    try:
        return requests.get(url, headers=headers, stream=True, timeout=WAIT)
    except requests.ConnectionError as error:  # its own text is a paragraph about retries
        raise requests.ConnectionError("no connection") from error
