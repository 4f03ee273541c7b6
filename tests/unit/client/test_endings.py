"""What a call leaves behind that did not end well, and what it leaves alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from matmul_client import Busy, Client, DeadlineExceeded, JobFailed, NotFound, ServiceFailed
from matmul_client.core import matrices, products, ranges
from matmul_client.core.exchange import exchange
from matmul_client.core.operands import ChainedProduct, Operand
from matmul_client.core.wire import Compute, Concurrent, Flow, NoReply, Reply, Request
from tests.unit.client.play import CUT, JOB, LOCATION, NOT_SENT, ONE, Played, problem

A = np.ones((1, 1), np.float32)
PRODUCT = Reply(200, ONE, A.tobytes())
ACCEPTED = Reply(202, LOCATION, b'{"job":{}}')
CANCELLED = Reply(202, {}, b'{"id": "", "state": "cancelled"}')
FULL = problem(503, "queue_full")


@pytest.mark.parametrize("cut", [CUT, Reply(502, {}, b"<html>"), Reply(504, {}, b"<html>")])
@pytest.mark.parametrize(
    ("last", "error"), [(FULL, Busy), (NOT_SENT, ConnectionError), (problem(500, "internal_error"), ServiceFailed)]
)
def test_a_job_made_by_a_try_that_was_cut_is_cancelled(
    cut: Reply | NoReply, last: Reply | NoReply, error: type[Exception]
) -> None:
    """Though the answer to a later try says nothing of it."""
    answers: list[Reply | NoReply] = [cut, last, last]
    played = Played(answers, max_retries=2)
    with pytest.raises(error):
        played.run(products.multiply(played.call, A, A, {}))
    assert played.call.has_started
    after = Played([ACCEPTED, CANCELLED])
    after.run(products.abandon(after.call, played.call))
    assert after.requests[1].target == f"/v1/jobs/{JOB}/cancel"


@pytest.mark.parametrize("last", [FULL, problem(500, "worker_lost", job=JOB)])
def test_what_made_no_job_or_one_that_has_ended_needs_no_cancelling(last: Reply) -> None:
    ended: list[Reply | NoReply] = [CUT, problem(500, "worker_lost", job=JOB)]
    refused: list[Reply | NoReply] = [NOT_SENT, last]
    for answers in (refused, ended):
        played = Played(answers, max_retries=1)
        with pytest.raises((Busy, JobFailed)):
            played.run(products.multiply(played.call, A, A, {}))
        assert not played.call.has_started


def test_a_matrix_that_a_try_before_may_have_deleted_is_deleted() -> None:
    gone = problem(404, "matrix_not_found")
    played = Played([CUT, gone])
    played.run(matrices.delete(played.call, "a"))
    before: list[list[Reply | NoReply]] = [[], [NOT_SENT], [FULL]]
    for answers in before:
        missing = Played([*answers, gone])
        with pytest.raises(NotFound):
            missing.run(matrices.delete(missing.call, "a"))


def test_a_chain_is_computed_once() -> None:
    """Its result may be asked for twice, and be an operand."""
    product = ChainedProduct(A, A)
    done = Reply(200, {}, b'{"id": "", "state": "succeeded"}')
    played = Played([PRODUCT, done, PRODUCT, PRODUCT])
    for chain in (product, product, ChainedProduct(Operand(product), A)):
        assert played.run(products.multiply_chain(played.call, chain)) == A
    assert [request.method for request in played.requests] == ["POST", "GET", "GET", "POST"]
    expired = Played([problem(404, "job_not_found"), PRODUCT])
    assert expired.run(products.multiply_chain(expired.call, product)) == A


def test_a_link_whose_job_was_cancelled_is_computed_again() -> None:
    link = ChainedProduct(A, A)
    played = Played([ACCEPTED, problem(422, "shape_mismatch")])
    with pytest.raises(ValueError, match="shape_mismatch"):
        played.run(products.multiply(played.call, Operand(link), A, {}))
    after = Played([CANCELLED])
    after.run(products.abandon(after.call, played.call))
    again = Played([ACCEPTED, PRODUCT])
    assert again.run(products.multiply(again.call, Operand(link), A, {})) == A
    assert [request.target for request in again.requests] == ["/v1/matmul"] * 2


def test_an_upload_in_ranges_that_fails_is_ended() -> None:
    """The service would keep its room for minutes."""
    opened, refused = Reply(201, {}, b'{"upload": "up_1", "url": "/v1/uploads/up_1"}'), problem(403, "forbidden")
    played = Played([opened, refused])
    with pytest.raises(PermissionError):
        played.run(ranges.send_in_ranges(played.call, "0" * 64, "float32", (1, 1), b"1234"))
    assert played.call.has_started
    after = Played([Reply(204, {}, b"")])
    after.run(products.abandon(after.call, played.call))
    assert [(each.method, each.target) for each in after.requests] == [("DELETE", "/v1/uploads/up_1")]

    whole = Played([opened, Reply(204, {}, b""), Reply(201, {}, b"{}")])
    assert whole.run(ranges.send_in_ranges(whole.call, "0" * 64, "float32", (1, 1), b"1234"))
    assert not whole.call.has_started


class Interrupted(Client):
    """Ctrl-C comes while a range is sent; that is refused once the main thread has gone on."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1", max_retries=1)
        self.sent = 0
        self.left = threading.Event()

    def _perform(self, call: Any, request: Request) -> Reply:
        self.sent += 1
        if self.sent == 1:
            identity = threading.main_thread().ident
            assert identity is not None
            signal.pthread_kill(identity, signal.SIGINT)
            assert self.left.wait(60)
        return FULL


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Also where this process was started in the background, which ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_after_ctrl_c_no_thread_sends_more() -> None:
    client = Interrupted()
    ended: list[BaseException] = []

    def lane(call: Any) -> Flow[None]:
        try:
            yield from exchange(call, Request("PUT", "/v1/uploads/up_1"))
        except BaseException as error:
            ended.append(error)
            raise

    def flow(call: Any) -> Flow[None]:
        yield Concurrent((lambda: lane(call),))

    before = {*threading.enumerate()}
    call = client._call(None)
    with pytest.raises(KeyboardInterrupt):
        client._run(call, flow(call))
    (thread,) = {*threading.enumerate()} - before
    client.left.set()
    thread.join(60)
    assert client.sent == 1 and isinstance(ended[0], (Busy, DeadlineExceeded)) and not thread.is_alive()


def test_a_thread_that_fails_of_itself_is_heard() -> None:
    """Else the upload would be said to be complete."""

    def fails() -> None:
        raise MemoryError

    def lane() -> Flow[None]:
        yield Compute(fails)

    def flow() -> Flow[None]:
        yield Concurrent((lane,))

    with Client("http://127.0.0.1:1") as client, pytest.raises(MemoryError):
        client._run(client._call(None), flow())
