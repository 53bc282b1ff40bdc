"""Page of a running run, served to this machine only."""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from evoprompt.experiments.report.page import drawing, render_page
from evoprompt.experiments.report.source import files_of, read_source
from evoprompt.support.errors import EvopromptError
from evoprompt.support.text import format_error

LOOPBACK = "127.0.0.1"
_SHARE = 10  # a page that took a second to make is made again ten seconds later at the soonest


class LivePage:
    """Page of a run, rendered again when its files have changed; writes nothing.

    Args:
        root: folder of a run, an optimization or an attached training.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._version = self._latest_version = ""
        self._page = b""
        self._next = self._written = 0.0

    @property
    def version(self) -> str:
        """Return a version that changes with the files, once the page may be rendered again."""
        if time.monotonic() >= self._next:
            self._latest_version = self._compute_version()
        return self._latest_version

    def page(self) -> bytes:
        """Return the page as HTML.

        Raises:
            InputError: the run no longer exists.
        """
        with self._lock:
            version = self.version
            if version != self._version or not self._page:
                drawing()  # once, so that it does not count as time of a page
                started = time.monotonic()
                text = render_page(read_source(self._root), version, self._written)
                self._page = text.encode("utf-8", "backslashreplace")
                self._version = version
                self._next = time.monotonic() + _SHARE * (time.monotonic() - started)
            return self._page

    def _compute_version(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for file in files_of(self._root):
            with suppress(OSError):  # it was removed between two checks
                stat = file.stat()
                self._written = max(self._written, stat.st_mtime)
                file_state = f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
                digest.update(file_state.encode(errors="replace"))
        return digest.hexdigest()


class LiveServer(ThreadingHTTPServer):
    """Server of a :class:`LivePage` on the loopback device; the browser polls its version.

    Args:
        page: to serve.
        port: to listen at; 0 for any that is free.
        patience: seconds after which a connection of an inactive client is closed.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, page: LivePage, port: int, patience: float = 10.0) -> None:
        self.live = page
        self.patience = patience
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def address(self) -> str:
        """Return the address of the page."""
        return f"http://{LOOPBACK}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version = "evoprompt"

    def setup(self) -> None:
        self.request.settimeout(self.server.patience)
        super().setup()

    def do_GET(self) -> None:
        allowed_hosts = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        live = self.server.live
        with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):  # the browser has gone
            if self.headers["Host"] not in allowed_hosts:  # a name of another site for this machine
                self.send_error(HTTPStatus.FORBIDDEN, "ask for 127.0.0.1")
            elif self.path not in ("/", "/version"):
                self.send_error(HTTPStatus.NOT_FOUND)
            else:
                try:
                    body = live.page() if self.path == "/" else live.version.encode()
                except (EvopromptError, OSError) as error:
                    reason = "cannot be read", format_error(error)
                    self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, *reason)
                    return
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Log nothing: requests of the page are of no interest."""
