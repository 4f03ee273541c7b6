"""The caller of the path's measurement, against a server that refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

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
