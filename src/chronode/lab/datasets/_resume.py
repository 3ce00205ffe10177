"""Downloads that resume after an interruption."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...storage import DOWNLOAD_BYTES, DOWNLOAD_SPEED

if TYPE_CHECKING:
    from requests import Response
    from rich.console import Console

ATTEMPTS = 5  # number of connections before a download is aborted
WAIT = (10.0, 60.0)  # timeouts in seconds: to connect, and between bytes
WINDOW = 60.0  # seconds over which the speed is measured
_CHUNK = 1 << 18


class Resuming:
    """Downloader for `pooch.retrieve` that collects FILE.part, resumes it next time, and delivers the complete file.

    The rest is requested only if the server confirms that the file is unchanged (by its ETag or date, stored in
    FILE.part.tag); otherwise, and if the server does not support ranges, everything is downloaded again.
    """

    def __init__(self, part: Path, console: Console) -> None:
        self.part, self.console = part, console
        self.tag = part.with_name(part.name + ".tag")

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        """Downloads `url` to `output_file`; after an error the part is kept for the next attempt."""
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
        # Without transport compression, which would change the bytes that are hashed.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": self.tag.read_text()}
        with _connected(url, headers) as response:
            if have and response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()  # the file is not longer than this: start again
                return self._stream(url)
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                self._keep_tag(response)
                have = 0
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise requests.ConnectionError(f"{url} sent a different part than requested")
            self._collect(response, have)

    def _keep_tag(self, response: Response) -> None:
        etag = response.headers.get("ETag", "")
        tag = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
        self.tag.unlink(missing_ok=True)
        if tag:
            self.tag.write_text(tag)

    def _collect(self, response: Response, have: int) -> None:
        """Appends the body after the first `have` bytes; an incomplete body counts as a broken connection."""
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
                # Reads available bytes, not a full chunk: otherwise a slow server would go unnoticed for hours.
                while chunk := response.raw.read1(_CHUNK, decode_content=False):
                    have += len(chunk)
                    _check_size(have, response.url)
                    pace.check(have, response.url)
                    file.write(chunk)
                    progress.advance(task, len(chunk))
            except HTTPError as error:
                raise ConnectionError(f"{response.url}: the connection broke: {error}") from error
        if total is not None and self._size() != total:
            raise ConnectionError(f"{response.url} stopped after {self._size():,} of {total:,} bytes")


class Refused(OSError):
    """A download is too slow or too large; it is not retried."""


class _Pace:
    """Download speed, checked once a minute."""

    def __init__(self, have: int) -> None:
        self.have, self.since = have, time.monotonic()

    def check(self, have: int, url: str) -> None:
        """Aborts if the server has sent almost nothing for a minute."""
        seconds = time.monotonic() - self.since
        if seconds < WINDOW:
            return
        speed = (have - self.have) / seconds
        if speed < DOWNLOAD_SPEED.value:
            problem = f"{url} sends only {speed:,.0f} bytes per second; the received part is kept for the next attempt"
            raise Refused(f"{problem}. Set {DOWNLOAD_SPEED.variable}=0 to wait without limit.")
        self.have, self.since = have, time.monotonic()


def _check_size(size: int, url: str) -> None:
    if size > DOWNLOAD_BYTES.value:
        raise Refused(f"{url} is larger than {DOWNLOAD_BYTES.value:,} bytes. {DOWNLOAD_BYTES.cure}")


def _connected(url: str, headers: dict[str, str]) -> Response:
    import requests

    try:
        return requests.get(url, headers=headers, stream=True, timeout=WAIT)
    except requests.ConnectionError as error:  # its message is a long text about retries
        raise requests.ConnectionError("no connection") from error
