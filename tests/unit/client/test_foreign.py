"""Replies that are not the service's: of proxies, of other programs, of a wrong URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from matmul_client import Busy, Client, MatmulError, ServiceFailed
from matmul_client.core import benchmarks, jobs, matrices, products
from matmul_client.core.elements import array_of, memory
from matmul_client.core.errors import error_of, seconds
from matmul_client.core.events import EventFeed
from matmul_client.core.exchange import exchange, get_records
from matmul_client.core.http import Service, broken
from matmul_client.core.ranges import send_in_ranges
from matmul_client.core.wire import Call, Flow, Reply, Request
from tests.unit.client.play import JOB, ONE, Played, problem

A, LONG = np.ones((1, 1), np.float32), np.ones((200, 200))
FLOWS: dict[str, Callable[[Call], Flow[Any]]] = {
    "multiply": lambda call: products.multiply(call, A, A, {}),
    "submit": lambda call: products.submit(call, A, A, {}),
    "upload": lambda call: matrices.upload(call, A),
    "look for a matrix": lambda call: matrices.upload(call, LONG),
    "upload in ranges": lambda call: send_in_ranges(call, "0" * 64, "float32", (1, 1), b"1234"),
    "matrix": lambda call: matrices.find(call, "a"),
    "job": lambda call: jobs.find(call, JOB),
    "wait": lambda call: jobs.wait(call, JOB),
    "cancel": lambda call: jobs.cancel(call, JOB),
    "jobs": lambda call: jobs.list_jobs(call, 1, {}),
    "kernels": lambda call: get_records(call, "kernels"),
    "benchmark": lambda call: benchmarks.start(call, "quick", {}),
    "results": lambda call: benchmarks.results(call, JOB),
    "report": lambda call: benchmarks.rendered(call, JOB, "report", "pdf"),
}
FOREIGN = [b"<html>Sign in</html>", b"", b"[]", b"null", b'{"message": "hi"}', b"[" * 100_000, b"\x1f\x8b\x08", b'{"id']


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("body", FOREIGN)
def test_no_page_is_taken_for_an_answer(name: str, body: bytes) -> None:
    """Least of all for the word that a matrix is stored."""
    played = Played([Reply(200, {"content-type": "text/html"}, body)])
    with pytest.raises(ServiceFailed, match=r"^The answer, with status 200, is not one of a matmul service; check"):
        played.run(FLOWS[name](played.call))
    assert len(played.requests) == 1


@pytest.mark.parametrize("name", FLOWS)
def test_a_redirection_says_where_to(name: str) -> None:
    played = Played([Reply(301, {"location": "https://elsewhere/\n"}, b"")])
    with pytest.raises(ServiceFailed, match=r"redirected to 'https://elsewhere/\\n'; give the URL of the service"):
        played.run(FLOWS[name](played.call))


@pytest.mark.parametrize(
    "headers",
    [
        {"x-matmul-shape": "a,b"},
        {"x-matmul-shape": ""},
        {"x-matmul-shape": "-1,-1"},
        {"x-matmul-shape": "1,1,1,1"},
        {"content-encoding": "gzip"},
        {"x-matmul-dtype": ""},
    ],
)
def test_headers_that_make_no_matrix(headers: dict[str, str]) -> None:
    with pytest.raises(ServiceFailed, match="not one of a matmul service"):
        array_of(Reply(200, {**ONE, **headers}, A.tobytes()))


@pytest.mark.parametrize("size", [999_999_999_999_999, 10**30])
def test_a_reply_larger_than_memory(size: int) -> None:
    with pytest.raises(ServiceFailed, match=f"is said to have {size} bytes"):
        memory(size)


def test_a_reason_is_one_sentence_on_one_line() -> None:
    assert str(error_of(422, {}, b'{"detail": "Too\\n  long."}')) == "Too long."
    assert str(error_of(422, {}, b'{"detail": [{"loc": []}]}')) == "The service answered with status 422 and no reason."
    assert str(error_of(500, {}, b"[" * 100_000)).endswith("status 500 and no reason.")
    assert broken("http://a", ValueError("-ERR\r\nx\n")).reason == "The connection to http://a broke off: -ERR x."


def test_retry_after_in_all_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 784111770.0)
    assert seconds("Sun, 06 Nov 1994 08:49:37 GMT") == 7
    assert seconds("Sun, 06 Nov 1994 08:49:00 GMT") == 0
    assert [seconds(each) for each in (None, "", "soon", "-1", "1.5", "Sun, 99 Nov 1994 08:49:37 GMT")] == [None] * 6


def test_no_pause_is_longer_than_a_clock_has() -> None:
    """Though the call has no deadline."""
    for after in ("99999999999999999999", "9" * 400):
        busy = Reply(503, {"retry-after": after}, b"")
        played = Played([busy], timeout_s=float("inf"))
        with pytest.raises(Busy):
            played.run(exchange(played.call, Request("GET", "/v1/kernels")))
        with pytest.raises(Busy):
            EventFeed(JOB, 8).broken(busy)


def test_an_event_that_is_none() -> None:
    for data in (b"{", b"[]", b"\xff"):
        with pytest.raises(ServiceFailed, match="not one of a matmul service"):
            list(EventFeed(JOB, 8).feed(b"id: 1\nevent: queued\ndata: " + data + b"\n\n"))


def test_a_gateway_that_waited_too_long_is_asked_again() -> None:
    """A job that took too long is not: the service itself says so."""
    done = Reply(200, ONE, A.tobytes())
    played = Played([Reply(504, {}, b"<html>"), done])
    assert played.run(FLOWS["multiply"](played.call)) == A
    late = Played([problem(504, "time_limit_exceeded", job=JOB)])
    with pytest.raises(MatmulError, match="time_limit_exceeded"):
        late.run(FLOWS["multiply"](late.call))


def test_no_url_tells_a_password() -> None:
    for url in ("http://user:secret@host", "http://user:secret@host:99999", "http://:secret@[::1"):
        with pytest.raises(MatmulError) as told:
            Client(url)
        assert "secret" not in str(told.value)


def test_what_is_no_url() -> None:
    for url in ("http://host/?a=b", "http://host#a", "http://user@host"):
        with pytest.raises(MatmulError, match="no more than a host, a port and a path; leave out"):
            Service(url, None)
    for url in ("http://a..b", f"http://{'a' * 70}.b", "http+unix://%2Ftmp"):
        with pytest.raises(MatmulError, match="is not one; give http://host:port"):
            Service(url, None)


def test_names_and_addresses_of_hosts() -> None:
    assert Service("http://bücher.example:8000/cell/", None).base == "http://xn--bcher-kva.example:8000/cell"
    six = Service("http://[::1]:8000", None)
    assert (six.host, six.headers(Request("GET", "/"))["host"]) == ("::1", "[::1]:8000")


def test_an_id_is_one_part_of_a_path() -> None:
    for name, target in (("a b", "a%20b"), ("é", "%C3%A9"), ("a?b", "a%3Fb"), ("../jobs", "..%2Fjobs")):
        played = Played([problem(404, "matrix_not_found")] * 2)
        for flow in (matrices.find, jobs.find):
            with pytest.raises(MatmulError):
                played.run(flow(played.call, name))
        assert [request.target for request in played.requests] == [f"/v1/matrices/{target}", f"/v1/jobs/{target}"]
