"""Links do to their connections what the plan of faults says, and nothing else."""

from __future__ import annotations

import random
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import ClassVar, Literal

import psutil
import pytest

from jobs.redis.embedded import free_port
from tests.chaos.network.links import TRICKLE_BYTES
from tests.chaos.network.proxy import HOST, Proxies
from tools.harness.api import until

SILENCE_S = 0.3
TIMEOUT_S = 60.0
CALLS, RATE = 400, 0.1


class Echo(socketserver.BaseRequestHandler):
    """What servers do: they keep what came, and send it back."""

    received: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        with suppress(ConnectionError):
            while data := self.request.recv(1 << 16):
                self.received.append(data)
                self.request.sendall(data)


class EchoServer(socketserver.ThreadingTCPServer):
    """Waits for no connection that outlives it: a busy kernel may keep one whose other end is gone."""

    daemon_threads = True
    request_queue_size = 1024


class Front:
    """One link, in the process of links, before an echo."""

    def __init__(self, proxies: Proxies, port: int) -> None:
        self.proxies, self._port = proxies, port

    def do(self, what: Literal["cut", "reset", "half_open", "refuse", "accept"]) -> None:
        self.proxies.do("link", what)

    def mode(self, mode: str) -> None:
        self.proxies.do("link", "mode", mode=mode, delay_s=0.01)

    def faults(self) -> int:
        """Calls that failed so far."""
        counts = self.proxies.counts()["link"]
        return counts["before"] + counts["executed"]

    def connect(self) -> socket.socket:
        return socket.create_connection((HOST, self._port), TIMEOUT_S)


@pytest.fixture(scope="module")
def only_front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with EchoServer((HOST, 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        listen = free_port()
        described = {"name": "link", "listen": listen, "target": server.server_address[1], "fails_calls": True}
        proxies = Proxies([described], seed=1, log=tmp_path_factory.mktemp("links") / "proxy.log")
        yield Front(proxies, listen)
        proxies.stop()
        server.shutdown()


@pytest.fixture
def front(only_front: Front) -> Iterator[Front]:
    """As it was made."""
    yield only_front
    only_front.mode("plain")
    only_front.proxies.set_call_fault_rate(0.0)
    only_front.do("reset")
    Echo.received.clear()


def said(client: socket.socket, text: bytes, timeout_s: float = TIMEOUT_S) -> bytes:
    """What comes back of it. Raises OSError where the connection ends or is silent."""
    client.settimeout(timeout_s)
    client.sendall(text)
    back = b""
    while len(back) < len(text):
        if not (piece := client.recv(1 << 16)):
            raise ConnectionError("it ended")
        back += piece
    return back


def is_silent(client: socket.socket) -> bool:
    """For good: a busy machine may take its time for an answer."""
    client.settimeout(TIMEOUT_S)
    try:
        return not client.recv(1 << 16)
    except OSError:
        return True


def test_a_plain_link_passes_everything_on(front: Front) -> None:
    with closing(front.connect()) as client:
        for number in range(8):
            text = random.Random(number).randbytes(1 << 16)
            assert said(client, text) == text


def test_a_black_hole_keeps_everything_back_until_it_ends(front: Front) -> None:
    with closing(front.connect()) as client, closing(front.connect()) as other:
        assert said(client, b"before") == b"before"
        front.mode("hole")
        for each in (client, other):
            with pytest.raises(TimeoutError):
                said(each, b"later", SILENCE_S)
        assert Echo.received == [b"before"]
        front.mode("plain")
        for each in (client, other):
            each.settimeout(TIMEOUT_S)
            assert each.recv(5) == b"later"


@pytest.mark.parametrize("mode", ["slow", "trickle"])
def test_a_bad_link_still_passes_all_bytes_in_order(front: Front, mode: str) -> None:
    """A busy server reads several pieces at once, but hardly ever all of them."""
    front.mode(mode)
    text = random.Random(3).randbytes(2000)
    with closing(front.connect()) as client:
        for start in range(0, len(text), 100):
            assert said(client, text[start : start + 100]) == text[start : start + 100]
    assert (min(map(len, Echo.received)) <= TRICKLE_BYTES) == (mode == "trickle")


@pytest.mark.parametrize("what", ["cut", "reset"])
def test_a_cut_or_reset_ends_the_connections_there_are_and_no_others(
    front: Front, what: Literal["cut", "reset"]
) -> None:
    with closing(front.connect()) as client, closing(front.connect()) as other:
        assert said(client, b"hello") == b"hello"
        front.do(what)
        with pytest.raises(ConnectionError):
            said(client, b"hello?")
        other.close()
    with closing(front.connect()) as client:
        assert said(client, b"again") == b"again"


def test_connections_are_refused_until_they_are_accepted_again(front: Front) -> None:
    with closing(front.connect()) as client:
        assert said(client, b"hello") == b"hello"
        front.do("refuse")
        with pytest.raises(ConnectionError):
            said(client, b"hello?")
    with pytest.raises(ConnectionRefusedError):
        front.connect()
    front.do("accept")
    with closing(front.connect()) as client:
        assert said(client, b"again") == b"again"


def test_what_passes_is_counted(front: Front) -> None:
    before = Counter(front.proxies.traffic("link"))
    with closing(front.connect()) as client:
        for text in (b"PUT /a", b"GET /a", b"GET /b", b"other"):
            assert said(client, text) == text
    assert Counter(front.proxies.traffic("link")) - before == {
        "put": 1,
        "got": 2,
        "sent_bytes": 23,
        "received_bytes": 23,
    }


def test_a_half_open_connection_ends_for_the_server_alone(front: Front) -> None:
    with closing(front.connect()) as client, closing(front.connect()) as other:
        assert said(client, b"hello") == b"hello"
        front.do("half_open")
        with pytest.raises(TimeoutError):
            said(client, b"nobody", SILENCE_S)
        assert Echo.received == [b"hello"]
        other.close()
    with closing(front.connect()) as client:
        assert said(client, b"someone") == b"someone"


def test_a_client_that_left_at_once_leaves_no_connection_behind(front: Front) -> None:
    """Though its link reaches the server only after it has gone."""
    for _ in range(100):
        front.connect().close()
    links = psutil.Process(front.proxies.pid)
    until(lambda: not [each for each in links.net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED])


def test_calls_fail_at_their_rate_before_they_arrive_or_after_they_were_carried_out(front: Front) -> None:
    before, ended = front.proxies.counts()["link"], 0
    front.proxies.set_call_fault_rate(RATE)
    for number in range(CALLS):
        faults = front.faults()
        with closing(front.connect()) as client:
            try:
                said(client, b"%d" % number, SILENCE_S)
            except TimeoutError:
                ended += front.faults() > faults or is_silent(client)
            except OSError:
                ended += 1
    counts = {name: count - before[name] for name, count in front.proxies.counts()["link"].items()}
    assert counts["calls"] == CALLS
    assert ended == counts["before"] + counts["executed"]
    assert CALLS - len(Echo.received) == counts["before"]
    assert min(counts["before"], counts["executed"]) > CALLS * RATE / 2
