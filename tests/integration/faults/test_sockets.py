"""Clients that send slowly, wrongly or without end: raw sockets against the real server."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import psutil
import pytest
from structlog.testing import capture_logs

from jobs.logs import add_context
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.api_process.live_workers import LiveWorkers
from service.server import deadlines
from tests.integration.api.test_jobs import problem
from tests.support.prompt import within
from tools.harness.api import Api, npy, running_api, until

TIMEOUT_S = 0.6
POST = b"POST /v1/matmul HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    directory = tmp_path_factory.mktemp("sockets")
    with running_api(valkey, f"{new_id('sockets')}:", directory, max_body_bytes=1 << 20) as running:
        yield running


@pytest.fixture(scope="module")
def impatient(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One that does not wait long for its clients: on a busy machine, not even for those that hurry."""
    directory = tmp_path_factory.mktemp("impatient")
    limits = {"receive_timeout_s": TIMEOUT_S, "send_timeout_s": TIMEOUT_S}
    with running_api(valkey, f"{new_id('sockets')}:", directory, **limits) as running:
        yield running


@contextmanager
def connection(api: Api) -> Iterator[socket.socket]:
    parts = urlsplit(api.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as opened:
        yield opened


def answer(opened: socket.socket) -> tuple[int, str]:
    """Status and problem type of all that comes until the server closes; (0, "") for nothing."""
    data = b""
    while piece := opened.recv(65536):
        data += piece
    if not data:
        return 0, ""
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)["type"].rpartition("/")[2]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"", (0, "")),
        (b"GET /livez HT", (408, "request_timeout")),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n", (408, "request_timeout")),
        (POST + b"Content-Length: 100\r\n\r\n{", (408, "request_timeout")),
        (POST + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":', (408, "request_timeout")),
    ],
    ids=["nothing", "half a line", "half a head", "half a body", "half a chunk"],
)
def test_who_falls_silent_is_not_waited_for(impatient: Api, sent: bytes, expected: tuple[int, str]) -> None:
    def falls_silent() -> tuple[int, str]:
        started = time.monotonic()
        with connection(impatient) as opened:
            opened.sendall(sent)
            answered = answer(opened)
            assert time.monotonic() - started > TIMEOUT_S * 0.8
            return answered

    assert within(TIMEOUT_S * 4, falls_silent) == expected


def test_a_refusal_is_about_its_own_request(api: Api) -> None:
    with connection(api) as opened:
        opened.sendall(POST + b"X-Request-Id: cut-short\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n")
        document = json.loads(opened.makefile("rb").read().partition(b"\r\n\r\n")[2])
    assert document["type"] == "/problems/malformed_request"
    assert (document["instance"], document["request_id"]) == ("/v1/matmul", "cut-short")


@pytest.mark.parametrize(
    "start",
    [b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: ", POST + b"Content-Length: 1000\r\n\r\n"],
    ids=["head", "body"],
)
def test_a_byte_at_a_time_does_not_help(impatient: Api, start: bytes) -> None:
    def sends_on() -> None:
        with connection(impatient) as opened:
            opened.sendall(start)
            opened.setblocking(False)
            started = time.monotonic()
            while time.monotonic() - started < TIMEOUT_S * 20:
                with suppress(ConnectionError):  # it was cut off, and what was said before can still be read
                    opened.sendall(b"x")
                try:
                    if opened.recv(12) == b"HTTP/1.1 408":
                        return
                except BlockingIOError:
                    time.sleep(0.05)

    within(TIMEOUT_S * 6, sends_on)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"nonsense\r\n\r\n", (400, "malformed_request")),
        (b"GET /livez HTTP/1.1\nHost: localhost\n\n", (400, "malformed_request")),
        (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400, "malformed_request")),
        (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", (400, "malformed_request")),
        (POST + b"Content-Length: -1\r\n\r\n", (400, "malformed_request")),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", (400, "malformed_request")),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", (431, "headers_too_large")),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 20_000 + b"\r\n", (431, "headers_too_large")),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", (431, "headers_too_large")),
    ],
    ids=["nonsense", "bare LF", "length and chunks", "two lengths", "negative", "folded", "long", "many", "long path"],
)
def test_what_is_no_request(api: Api, sent: bytes, expected: tuple[int, str]) -> None:
    with connection(api) as opened:
        with suppress(OSError):  # the answer may come before all was sent
            opened.sendall(sent)
        try:
            assert answer(opened) == expected
        except ConnectionResetError:
            assert expected[0] == 431  # what was still on its way made the system drop the answer


def test_a_million_tiny_chunks_are_cut_off(api: Api) -> None:
    """Before they cost time or memory."""
    process = psutil.Process()

    def sends_them() -> None:
        with connection(api) as opened:
            opened.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            before = process.memory_info().rss
            with pytest.raises(OSError):
                for _ in range(1000):
                    opened.sendall(b"1\r\nx\r\n" * 1000)
            assert process.memory_info().rss - before < 16 << 20

    within(2.0, sends_them)


def test_an_honest_chunked_upload_of_small_chunks_passes(api: Api) -> None:
    body = npy(np.ones((100, 100)))
    with api.client() as client:
        chunks = (body[i : i + 16] for i in range(0, len(body), 16))
        reply = client.post("/v1/matrices", content=chunks, headers={"content-type": "application/x-npy"})
    assert reply.status_code == 201


def test_the_answer_to_a_body_over_the_limit_arrives(api: Api) -> None:
    """To a client that sends all of it before it reads, on a connection of its own: what it sends is thrown away."""
    for media_type, status in (("application/x-safetensors", 413), ("text/plain", 415)):
        for _ in range(3):
            asked = Request(f"{api.url}/v1/matmul", b"x" * (24 << 20), {"Content-Type": media_type})
            with pytest.raises(HTTPError) as refused:
                urlopen(asked, timeout=60)
            with refused.value as reply:
                assert (reply.code, reply.headers["content-type"]) == (status, "application/problem+json")


def test_a_client_that_leaves_in_the_middle_leaves_nothing(api: Api) -> None:
    body = npy(np.ones((300, 400)))
    head = b"POST /v1/matrices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
    before = api.stored_bytes()
    for _ in range(3):
        with connection(api) as opened:
            opened.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[: 700 << 10])
    with api.client() as client:
        assert client.get("/livez").status_code == 200
    until(lambda: not list(api.settings.store_dir.glob("w_*")))
    assert api.stored_bytes() == before


def test_too_many_connections_are_told_so(
    valkey: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "MAX_CONNECTIONS", 2)
    with running_api(valkey, f"{new_id('sockets')}:", tmp_path) as api, ExitStack() as stack:
        opened = [stack.enter_context(connection(api)) for _ in range(8)]
        assert [answer(each) for each in opened[2:]] == [(503, "too_many_connections")] * 6


def test_expect_continue(api: Api) -> None:
    """A body that would be refused is not even asked for."""
    with connection(api) as opened:
        opened.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
        assert opened.recv(12) == b"HTTP/1.1 413"


def test_idle_connections_do_not_stop_others(api: Api) -> None:
    sockets = []
    try:
        for _ in range(300):
            parts = urlsplit(api.url)
            opened = socket.create_connection((parts.hostname, parts.port))
            opened.sendall(b"GET /livez HTTP/1.1\r\nX: ")
            sockets.append(opened)
        with api.client() as client:
            assert within(1.0, lambda: client.get("/livez")).status_code == 200
    finally:
        for opened in sockets:
            opened.close()


def test_pipelined_requests_are_answered_in_order(api: Api) -> None:
    with connection(api) as opened:
        host = b" HTTP/1.1\r\nHost: localhost\r\n"
        opened.sendall(b"GET /livez" + host + b"\r\nGET /nope" + host + b"Connection: close\r\n\r\n")
        data = b""
        while piece := opened.recv(65536):
            data += piece
    assert data.index(b" 200 ") < data.index(b" 404 ")


def test_a_large_body_is_followed_by_the_next_request(api: Api) -> None:
    """On the same connection, in the same bytes: large bodies pass the parser by."""
    body = npy(np.ones((250, 500)))[: (1 << 20) - 7]
    body = body + b"\0" * ((1 << 20) - len(body))
    host = b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
    upload = b"POST /v1/matrices" + host + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with connection(api) as opened:
        opened.sendall(upload + upload + b"GET /livez" + host + b"Connection: close\r\n\r\n")
        data = b""
        while piece := opened.recv(65536):
            data += piece
    assert re.findall(rb"HTTP/1.1 (\d+)", data) == [b"422", b"422", b"200"]


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_upgrade_is_passed_over(api: Api, protocol: str) -> None:
    """With a body and without, and the connection stays of use; curl --http2 asks so."""
    upgrade = f"HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
    body = '{"a": [[1]], "b": [[1]]}'
    post = f"POST /v1/matmul {upgrade}Prefer: respond-async\r\nContent-Type: application/json\r\n"
    post += f"Content-Length: {len(body)}\r\n\r\n{body}"
    for gap in (0, len(post) - 10, len(post) - len(body)):  # where the bytes are torn apart
        with connection(api) as opened:
            text = f"GET /livez {upgrade}\r\n{post}GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            cut = text.index("POST") + gap
            opened.sendall(text[:cut].encode())
            time.sleep(0.05)
            opened.sendall(text[cut:].encode())
            data = b""
            while piece := opened.recv(65536):
                data += piece
        assert re.findall(rb"HTTP/1.1 (\d+)", data) == [b"200", b"202", b"200"]


def test_request_ids(api: Api) -> None:
    with api.client() as client:
        assert client.get("/livez", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
        assert client.get("/livez", headers={"x-request-id": "a b"}).headers["x-request-id"] != "a b"
        first, second = (client.get("/livez").headers["x-request-id"] for _ in range(2))
    assert first != second


def test_unexpected_errors_say_nothing_of_the_inside(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: LiveWorkers) -> None:
        raise RuntimeError("the secret of the inside")

    monkeypatch.setattr(LiveWorkers, "now", broken)
    with capture_logs(processors=[add_context]) as lines, api.client() as client:
        document = problem(client.get("/v1/kernels"), 500, "internal_error")
    assert "secret" not in json.dumps(document)
    (line,) = (line for line in lines if line["event"] == "unexpected error")
    assert line["request_id"] == document["request_id"]
