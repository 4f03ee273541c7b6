"""The caller of the path's measurement, against a server that refuses, and one that closes what idles."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from benchmarks.measure.http import client
from benchmarks.measure.http.client import Connection
from benchmarks.measure.http.load import HOST
from benchmarks.measure.path.caller import ServiceCaller


@contextmanager
def refusing(times: int) -> Iterator[int]:
    """A server that refuses so many requests with 503; its port."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version, refused = "HTTP/1.1", 0

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            is_refused = Answers.refused < times
            Answers.refused += is_refused
            self.send_response(503 if is_refused else 200)
            self.send_header(*(("Retry-After", "0") if is_refused else ("Location", "/v1/jobs/1")))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer((HOST, 0), Answers) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("times", [0, 1, 5])
def test_a_moment_without_workers_ends_no_measurement(times: int) -> None:
    with refusing(times) as port, ServiceCaller(port) as caller:
        timed = caller.timed(caller.stored("a", "b"))
    assert timed.location == "/v1/jobs/1" and timed.ms > 0


def test_a_service_without_workers_is_an_error() -> None:
    with refusing(6) as port, ServiceCaller(port) as caller, pytest.raises(RuntimeError, match="503"):
        caller.timed(caller.stored("a", "b"))


@pytest.mark.parametrize(("idle_s", "connections"), [(0.0, 3), (3600.0, 1)])
def test_a_connection_that_idled_is_made_anew(monkeypatch: pytest.MonkeyPatch, idle_s: float, connections: int) -> None:
    """The other version of a comparison may take longer to start than a server waits for a request."""
    monkeypatch.setattr(client, "MAX_IDLE_S", idle_s)
    opened: list[tuple[str, int]] = []

    class Counted(socket.socket):
        def connect(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            opened.append(address)
            super().connect(address)

    monkeypatch.setattr(socket, "socket", Counted)
    with refusing(0) as port, Connection(HOST, port) as connection:
        for _ in range(2):
            assert connection.request("POST", "/", {}, b"12").status == 200
    assert opened == [(HOST, port)] * connections
