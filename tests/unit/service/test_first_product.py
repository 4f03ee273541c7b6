"""The first product of `make run`, from an API that is not yet able to take it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from service.local.first_product import NotReadyError, ServiceClient

BROKEN_OFF = "half a reply"


@contextmanager
def answering(*replies: tuple[int, str]) -> Iterator[tuple[ServiceClient, list[str]]]:
    """An API with these replies to requests in turn, the last of them to all that follow; and the paths asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = replies[min(len(asked), len(replies) - 1)]
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Location", "/v1/jobs/one")
            if body == BROKEN_OFF:
                self.send_header("Content-Length", str(len(body) + 1))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = reply

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield ServiceClient(f"http://127.0.0.1:{server.server_address[1]}", None), asked
        finally:
            server.shutdown()
            thread.join()


RECORD = """{"id": "one", "kind": "benchmark", "state": "queued", "attempt": 0, "created_at": "2026-01-01T00:00:00Z",
"progress": {"done": 0, "total": 1}, "request": {"kind": "sweep", "shapes": [64]}}"""


def test_a_product_that_cannot_be_taken_yet_is_asked_for_again() -> None:
    with answering((503, "{}"), (503, "{}"), (200, ""), (200, RECORD)) as (api, asked):
        assert api.multiply(Event()).id == "one"
    assert asked == ["/v1/matmul", "/v1/matmul", "/v1/matmul", "/v1/jobs/one"]


@pytest.mark.parametrize(("status", "stops"), [(500, False), (503, True)])
def test_the_error_says_what_the_api_said(status: int, stops: bool) -> None:
    stop = Event()
    if stops:
        stop.set()
    with answering((status, "no room")) as (api, asked), pytest.raises(NotReadyError, match="no room"):
        api.multiply(stop)
    assert asked == ["/v1/matmul"]


def test_an_api_that_ends_within_its_reply_is_waited_for() -> None:
    with answering((200, BROKEN_OFF), (200, ""), (200, '{"devices": [{}]}')) as (api, asked):
        api.wait_until_ready(1, Event())
    assert asked == ["/readyz", "/readyz", "/v1/devices"]
