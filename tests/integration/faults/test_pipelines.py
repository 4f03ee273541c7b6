"""Requests that come faster than they are answered, and bodies that the parser stops before: raw sockets."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.integration.faults.test_sockets import POST, TIMEOUT_S, connection
from tools.harness.api import Api, running_api


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One that does not wait long for its clients."""
    limits = {"receive_timeout_s": TIMEOUT_S, "send_timeout_s": TIMEOUT_S}
    with running_api(valkey, f"{new_id('sockets')}:", tmp_path_factory.mktemp("sockets"), **limits) as running:
        yield running


def test_a_chunked_body_with_an_upgrade_is_read(api: Api) -> None:
    """As from HTTP/2-capable clients on plain HTTP."""
    body = b'{"a": [[1]], "b": [[1]]}'
    head = POST + b"Prefer: respond-async\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for gap in (0, len(head) - 3, len(head), len(head) + 10):
        with connection(api) as opened:
            text = head + chunks + head + chunks + last
            opened.sendall(text[:gap])
            time.sleep(0.02)
            opened.sendall(text[gap:])
            assert statuses(opened) == [202, 202, 200]


def test_many_pipelined_upgrades_are_all_answered(api: Api) -> None:
    one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade%s\r\nUpgrade: h2c\r\n\r\n"
    with connection(api) as opened:
        opened.sendall(one % b"" * 600 + one % b", close")
        assert statuses(opened) == [200] * 601


def statuses(opened: socket.socket) -> list[int]:
    """Of all answers that come until the server closes."""
    data = b""
    while piece := opened.recv(65536):
        data += piece
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", data)]


@pytest.mark.parametrize("second", [b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", b"\x00\r\n\r\n"], ids=["body", "head"])
def test_a_pipelined_error_answers_its_own_request(api: Api, second: bytes) -> None:
    body = b'{"a": [[1]], "b": [[1]]}'
    first = POST + b"Prefer: wait=1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with capture_logs() as lines, connection(api) as opened:
        opened.sendall(first + POST + second)
        assert statuses(opened) == [202, 400]
    assert not lines


def test_clients_that_leave_between_pipelined_requests_are_no_error(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    body = b'{"a": [[1]], "b": [[1]]}'
    first = POST + b"Prefer: wait=1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for _ in range(5):
        with connection(api) as opened:
            opened.sendall(first + b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    with connection(api) as opened:  # answered after the others
        opened.sendall(first + b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert statuses(opened) == [202, 200]
    assert not [record for record in caplog.records if record.exc_info]
