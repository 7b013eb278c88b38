"""Promise D7: the server of the page."""

import gc
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from components.errors import SettingsError
from pipelines.ui import server as module
from pipelines.ui.server import MOST_CONNECTIONS, UiServer
from pipelines.ui.site import Site


@pytest.fixture
def server(root: Path) -> Iterator[UiServer]:
    """A server on a free port."""
    with UiServer(Site(root)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: UiServer, request: bytes) -> bytes:
    """Sends bytes and returns all that comes back."""
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        parts = []
        with suppress(OSError):  # the server may refuse a request before all of it was sent
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)


def get(server: UiServer, path: str = "/", *, method: str = "GET", host: str = "", more: str = "") -> bytes:
    """Sends a request and returns the answer."""
    host = host or f"127.0.0.1:{server.server_port}"
    return ask(server, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode("utf-8", "surrogateescape"))


def status(answer: bytes) -> int:
    """Returns the status of an answer; 0 if the connection was closed without one."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def test_it_serves_the_pages(server: UiServer) -> None:
    """The index, the pages that it links to, and their reports."""
    index = get(server)
    (page,) = {part.split(b'"')[0].decode() for part in index.split(b'href="') if part.startswith(b"customers-")} - {
        part.split(b'"')[0].decode() for part in index.split(b'href="') if b"/" in part.split(b'"')[0]
    }

    assert (status(index), status(get(server, f"/{page}"))) == (200, 200)
    assert status(get(server, f"/{page.removesuffix('.html')}/report.html")) == 200
    assert b"<title>report" in get(server, f"/{page.removesuffix('.html')}/runs/20261118-030000-abcd.html")


def test_head_has_the_headers_alone(server: UiServer) -> None:
    """As GET, without the body; with the headers that keep a browser from doing more than showing the page."""
    head, body = get(server, method="HEAD").split(b"\r\n\r\n")

    assert body == b""
    assert b"X-Content-Type-Options: nosniff" in head
    assert b"frame-ancestors 'none'" in head
    assert b"Cache-Control: no-store" in head
    assert b"Python" not in head


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.168.0.1", "::"])  # noqa: S104
def test_only_loopback_addresses_are_bound(root: Path, host: str) -> None:
    """D7: any other address is an error that says what to do instead."""
    with pytest.raises(SettingsError, match=r"expected 127\.0\.0\.1, ::1 or localhost"):
        UiServer(Site(root), host)


def test_it_listens_on_loopback(server: UiServer) -> None:
    """D7: no other interface of this machine answers."""
    listening = [each.laddr.ip for each in psutil.Process().net_connections("tcp") if each.status == "LISTEN"
                 and each.laddr.port == server.server_port]  # fmt: skip

    assert listening == ["127.0.0.1"]


def test_a_port_that_is_taken(root: Path, server: UiServer) -> None:
    """Is an error that names it."""
    with pytest.raises(SettingsError, match=f"--port {server.server_port}: Address already in use"):
        UiServer(Site(root), port=server.server_port)


BAD = {
    "no request": b"\r\n\r\n",
    "noise": bytes(range(256)),
    "no version": b"GET\r\n\r\n",
    "another version": b"GET / HTTP/9.9\r\nHost: HOST\r\n\r\n",
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n",
    "a long path": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "an endless line": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: HOST\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    "long headers": b"GET / HTTP/1.1\r\nHost: HOST\r\nA: " + b"b" * 60_000 + b"\r\n\r\n",
    "a body": b"GET / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nhello",
    "a length that is no number": b"GET / HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n",
    "chunks": b"GET / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a proxy request": b"GET http://example.com/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a query": b"GET /?a=<script> HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a path that is no text": b"GET /%ff%fe HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "NUL": b"GET /index.html%00 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a line break": b"GET /%0d%0aSet-Cookie:a HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "the folder above": b"GET /../customers/live.json HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "the folder above, encoded": b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a backslash": b"GET /..%5c..%5cetc HTTP/1.1\r\nHost: HOST\r\n\r\n",
}


@pytest.mark.parametrize("request_", BAD.values(), ids=BAD)
def test_bad_requests(server: UiServer, request_: bytes) -> None:
    """D7: a 400 that repeats nothing of the request, or a connection that is closed; the server goes on."""
    answer = ask(server, request_.replace(b"HOST", f"127.0.0.1:{server.server_port}".encode()))

    assert (status(answer) == 400 and answer.endswith(b"Bad Request")) or answer in (b"", b"Bad Request")
    assert status(get(server)) == 200


@pytest.mark.parametrize("path", ["/customers", "/live.json", "//etc/passwd", "/a/./b", "/index.html/", "/.penstock"])
def test_no_path_is_opened(server: UiServer, path: str) -> None:
    """D7: only addresses of pages are answered; there are no listings."""
    assert status(get(server, path)) == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "BREW"])
def test_other_methods(server: UiServer, method: str) -> None:
    """The server changes nothing."""
    answer = get(server, method=method)

    assert (status(answer), b"Allow: GET, HEAD" in answer) == (405, True)


@pytest.mark.parametrize(
    "host", ["example.com", "example.com:PORT", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.example.com:PORT"]
)
def test_other_hosts(server: UiServer, host: str) -> None:
    """D7: a web page whose name leads to this machine gets nothing (DNS rebinding)."""
    answer = get(server, host=host.replace("PORT", str(server.server_port)))

    assert (status(answer), b"customers" in answer) == (421, False)


def test_connections_that_take_too_long(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: a client that sends a byte now and then is cut off, however many it sends."""
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    with UiServer(Site(root)) as made, socket.create_connection(("127.0.0.1", made.server_port)) as slow:
        monkeypatch.setattr(module._Handler, "timeout", None)
        slow.sendall(b"GET / HT")
        made.handle_request()
        made.service_actions()

        assert slow.recv(100) == b""


def test_a_page_that_takes_long_to_make(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a connection is the client's: many pipelines are read for longer than that."""
    monkeypatch.setattr(module, "_SECONDS", 0.0)

    class SlowSite(Site):
        def page(self, address: str) -> bytes | None:
            made.service_actions()
            return super().page(address)

    with UiServer(SlowSite(root)) as made, socket.create_connection(("127.0.0.1", made.server_port)) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{made.server_port}\r\n\r\n".encode())
        made.handle_request()

        assert client.recv(12) == b"HTTP/1.0 200"


def test_more_connections_than_there_is_room_for(server: UiServer) -> None:
    """D7: they are closed at once; when the others end, there is room again."""
    held = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(MOST_CONNECTIONS)]
    with socket.create_connection(("127.0.0.1", server.server_port)) as late:
        assert late.recv(100) == b""
    for each in held:
        each.close()
    while status(get(server)) != 200:  # until the threads of the others have ended
        pass

    assert status(get(server)) == 200


def test_a_thousand_mixed_requests(server: UiServer) -> None:
    """D7: neither memory nor file descriptors nor threads are left of them."""
    process = psutil.Process()
    address = f"127.0.0.1:{server.server_port}"
    asked = [
        *(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for method, path, host in (
            ("GET", "/", address), ("HEAD", "/", address), ("GET", "/none", address), ("POST", "/", address),
            ("GET", "/", "example.com"),
        )),
        *list(BAD.values())[:5],
    ]  # fmt: skip

    def measure(count: int) -> tuple[int, int]:
        for at in range(count):
            ask(server, asked[at % len(asked)])
        while server._open:  # until the last thread has closed its connection
            pass
        gc.collect()
        return process.memory_info().rss, process.num_fds()

    before = measure(300)
    after = measure(1000)

    assert after[1] <= before[1]
    assert after[0] - before[0] < 8 << 20
    assert status(get(server)) == 200


def test_an_error_is_said_without_secrets(root: Path, server: UiServer) -> None:
    """D5: a folder that is gone is an error of the page, not of the server."""
    os.rename(root, root.with_name("gone"))  # noqa: PTH104
    answer = get(server)

    assert (status(answer), b"no such folder" in answer) == (500, True)
    os.rename(root.with_name("gone"), root)  # noqa: PTH104
    assert status(get(server)) == 200
