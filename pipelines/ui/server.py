"""Serves the pages on this machine: GET and HEAD of known addresses, and nothing else.

| danger                            | what is done                                                               |
|-----------------------------------|----------------------------------------------------------------------------|
| others in the network             | listens on a loopback address only; no other one can be bound              |
| a web page that names this server | the Host header must be a loopback name with this port (DNS rebinding)     |
| a path out of the root            | no path is opened: addresses are looked up in a table of pages and reports |
| markup in data                    | escaped; the security policy of a page runs no script but its own, by hash |
| slow, long or many requests       | 10 s to ask and to read, 32 at once, 2 KB of request line, 16 KB of headers |
"""

import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from components.errors import PenstockError, SettingsError
from components.redact import redact
from pipelines.ui.site import Site

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MOST_CONNECTIONS = 32
_SECONDS = 10.0  # of a connection
_LINE, _HEADERS = 2048, 16384  # bytes
_TARGET = re.compile(r"/[A-Za-z0-9._~:@+%/-]*", re.ASCII)
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    # Each page allows its own style sheet and script by hash; this adds what a page cannot say about itself.
    "Content-Security-Policy": "frame-ancestors 'none'; object-src 'none'; base-uri 'none'; form-action 'none'",
}


class UiServer(ThreadingHTTPServer):
    """Listens on a loopback address, and closes connections that take too long."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, site: Site, host: str = LOOPBACK[0], port: int = 0) -> None:
        """Binds the address; raises SettingsError if it is not a loopback one, or taken.

        Args:
            site: what to serve.
            host: a loopback address.
            port: 0 takes a free one.
        """
        if host not in LOOPBACK:
            raise SettingsError(
                f"--host {host}: expected {', '.join(LOOPBACK[:-1])} or {LOOPBACK[-1]}; the page has no log-in, so "
                f"it is not served to others: forward the port (ssh -L {port}:127.0.0.1:{port}), or write files "
                "(--write)"
            )
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._open: dict[Any, float] = {}
        self._guard = threading.Lock()
        try:
            super().__init__((host, port), partial(_Handler, site))
        except OSError as error:
            raise SettingsError(f"--port {port}: {error.strerror or error}; expected a free one") from None
        names = ("127.0.0.1", "localhost", "[::1]")
        self.hosts = frozenset(f"{name}:{self.server_port}" for name in names) | (
            frozenset(names) if self.server_port == 80 else frozenset()
        )

    def server_bind(self) -> None:
        """Binds the address without asking a name server for our name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address of the index."""
        host = self.server_name
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for one more connection."""
        del client_address
        with self._guard:
            if len(self._open) >= MOST_CONNECTIONS:
                return False
            self._open[request] = time.monotonic() + _SECONDS
        return True

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        super().shutdown_request(request)
        with self._guard:
            self._open.pop(request, None)

    def service_actions(self) -> None:
        """Ends connections whose time is up: each read of the library may take as long as the one before."""
        now = time.monotonic()
        with self._guard:
            late = [request for request, end in self._open.items() if end < now]
        for request in late:
            with suppress(OSError):  # closed meanwhile
                request.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def making(self, request: Any) -> Iterator[None]:
        """Stops the time of a connection while its page is made, which may take long; the client has it for the rest.

        Args:
            request: the connection.
        """
        self._open[request] = float("inf")
        try:
            yield
        finally:
            self._open[request] = time.monotonic() + _SECONDS

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing about a client that went away; prints any other error."""
        del request, client_address
        if not isinstance(sys.exc_info()[1], OSError):
            print(redact(traceback.format_exc()), file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    server: UiServer
    server_version, sys_version = "Penstock", ""
    timeout = _SECONDS
    raw_requestline: bytes  # set by the library

    def __init__(self, site: Site, *arguments: Any) -> None:
        self._site = site
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answers with a page."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answers with the headers of a page."""
        self._answer()

    def _answer(self) -> None:
        if (status := self._refused()) is not None:
            self._send(status, status.phrase)
            return
        try:
            with self.server.making(self.request):
                content = self._site.page(unquote(self.path, errors="strict"))
        except (PenstockError, OSError) as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, redact(str(error)) or type(error).__name__)
            return
        if content is None:
            self._send(HTTPStatus.NOT_FOUND, "no such page")
        else:
            self._send(HTTPStatus.OK, content)

    def _refused(self) -> HTTPStatus | None:
        """Returns why a request is rejected; None if it is not."""
        hosts = self.headers.get_all("Host") or []
        is_bad = (
            len(self.raw_requestline) > _LINE
            or sum(len(name) + len(value) for name, value in self.headers.items()) > _HEADERS
            or not _TARGET.fullmatch(self.path)
            or not _is_decodable(self.path)
            or self.headers.get("Content-Length", "0").strip() != "0"
            or "Transfer-Encoding" in self.headers
            or len(hosts) != 1
        )
        if is_bad:
            return HTTPStatus.BAD_REQUEST
        return None if hosts[0].strip().lower() in self.server.hosts else HTTPStatus.MISDIRECTED_REQUEST

    def _send(self, status: HTTPStatus, content: bytes | str) -> None:
        kind = "text/plain" if isinstance(content, str) else "text/html"
        body = content.encode(errors="replace") if isinstance(content, str) else content
        self.send_response(status)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)), **_SAFE}
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers what the library refuses: another method is a 405, all else is a 400; nothing of it is repeated."""
        del message, explain
        known = code == HTTPStatus.NOT_IMPLEMENTED
        status = HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.BAD_REQUEST
        self.close_connection = True
        self._send(status, status.phrase)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the library's name
        """Logs nothing: a request may contain anything."""
        del format, arguments


def _is_decodable(path: str) -> bool:
    """Whether a path is text without control characters, and stays below its root."""
    try:
        text = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return False
    return text.isprintable() and ".." not in text.split("/") and "\\" not in text
