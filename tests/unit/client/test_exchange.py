"""Which requests the client retries, when, and with which Idempotency-Key."""

from __future__ import annotations

import json

import numpy as np
import pytest

from matmul_client import Busy, Conflict, DeadlineExceeded, InvalidRequest, JobFailed, ServiceFailed, Unreachable
from matmul_client.core import jobs, products
from matmul_client.core.exchange import exchange
from matmul_client.core.operands import ChainedProduct, Operand
from matmul_client.core.ranges import send_in_ranges
from matmul_client.core.wire import Reply, Request
from tests.unit.client.play import CUT, JOB, LOCATION, NOT_SENT, ONE, Played, problem

ASK = Request("GET", "/v1/kernels")
A = np.ones((1, 1), np.float32)
PRODUCT = Reply(200, ONE, A.tobytes())
ACCEPTED = Reply(202, LOCATION, b'{"job":{}}')


@pytest.mark.parametrize(
    "passing",
    [
        CUT,
        NOT_SENT,
        problem(429, "quota_exceeded"),
        problem(503, "queue_full"),
        problem(409, "idempotency_key_in_use"),
        Reply(502, {}, b"<html>"),
    ],
)
def test_what_passes_is_asked_again(passing: Reply) -> None:
    played = Played([passing, passing, PRODUCT])
    assert played.run(exchange(played.call, ASK)) == PRODUCT
    assert played.requests == [ASK] * 3 and len(played.pauses_s) == 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem(422, "shape_mismatch"), InvalidRequest),
        (problem(409, "wrong_state"), Conflict),
        (problem(500, "worker_lost", job=JOB), JobFailed),
        (problem(500, "internal_error"), ServiceFailed),
    ],
)
def test_what_stays_wrong_is_told_at_once(reply: Reply, error: type[Exception]) -> None:
    played = Played([reply])
    with pytest.raises(error, match=r"^A sentence about \w+\.$"):
        played.run(exchange(played.call, ASK))


def test_a_filter_that_is_none_is_not_sent() -> None:
    played = Played([Reply(200, {}, b'{"jobs":[],"next":null}')])
    assert played.run(jobs.list_jobs(played.call, 3, {"state": None, "kind": "matmul", "q": None})) == []
    assert [each.target for each in played.requests] == ["/v1/jobs?limit=3&kind=matmul"]


def test_retry_after_is_waited_for_and_pauses_grow() -> None:
    played = Played([problem(503, "queue_full", retry_after_s=7), CUT, CUT, CUT, PRODUCT])
    played.run(exchange(played.call, ASK))
    assert played.pauses_s[0] == 7
    assert played.pauses_s[1:] == sorted(played.pauses_s[1:])


def test_it_gives_up_after_so_many_tries() -> None:
    played = Played([NOT_SENT] * 3, max_retries=2)
    with pytest.raises(Unreachable, match="refused"):
        played.run(exchange(played.call, ASK))


def test_a_service_that_never_answered_is_given_up_soon() -> None:
    stranger = Played([NOT_SENT] * 9)
    with pytest.raises(Unreachable):
        stranger.run(exchange(stranger.call, ASK))
    assert len(stranger.requests) == 4
    known = Played([CUT, *[NOT_SENT] * 7, PRODUCT])
    assert known.run(exchange(known.call, ASK)) == PRODUCT


def test_no_pause_outlasts_the_deadline() -> None:
    """If no answer is possible in time, the error comes at once, not after a pause."""
    played = Played([problem(429, "quota_exceeded", retry_after_s=30)], timeout_s=10)
    with pytest.raises(Busy) as caught:
        played.run(exchange(played.call, ASK))
    assert caught.value.retry_after_s == 30 and played.pauses_s == []


def test_a_cut_at_the_deadline_is_one_of_time() -> None:
    played = Played([], timeout_s=10)

    def flow() -> object:
        waiting = exchange(played.call, ASK)
        next(waiting)
        played.clock.now += 10
        return waiting.send(CUT)

    with pytest.raises(DeadlineExceeded, match="10 s"):
        flow()


def test_all_tries_of_a_call_have_one_key() -> None:
    played = Played([CUT, problem(503, "store_unavailable"), PRODUCT])
    assert played.run(products.multiply(played.call, A, A, {})) == A
    keys = {request.headers["idempotency-key"] for request in played.requests}
    assert len(keys) == 1 and len(played.requests) == 3

    other = Played([PRODUCT])
    other.run(products.multiply(other.call, A, A, {}))
    assert other.requests[0].headers["idempotency-key"] not in keys


def test_a_product_that_takes_long_is_waited_for_and_fetched() -> None:
    running = Reply(200, {}, json.dumps({"id": JOB, "state": "running"}).encode())
    done = Reply(200, {}, json.dumps({"id": JOB, "state": "succeeded"}).encode())
    played = Played([ACCEPTED, running, CUT, done, PRODUCT])
    assert played.run(products.multiply(played.call, A, A, {})) == A
    assert [request.target for request in played.requests[1:]] == [f"/v1/jobs/{JOB}"] * 3 + [f"/v1/jobs/{JOB}/product"]
    assert played.call.owned == []


def test_a_call_that_is_given_up_cancels_its_job() -> None:
    played = Played([ACCEPTED])
    flow = products.multiply(played.call, A, A, {})
    flow.send(next(iter([None])))
    flow.send(ACCEPTED)
    flow.close()
    assert played.call.owned == [JOB]
    after = Played([Reply(202, {}, b"{}")])
    after.run(products.abandon(after.call, played.call))
    assert [request.target for request in after.requests] == [f"/v1/jobs/{JOB}/cancel"]


def test_a_job_whose_id_never_came_is_asked_for_by_its_key() -> None:
    """For example if the deadline passes during the first request."""
    given_up = Played([])
    flow = products.multiply(given_up.call, A, A, {})
    first = flow.send(None)
    flow.close()
    assert isinstance(first, Request)

    after = Played([problem(409, "idempotency_key_in_use"), ACCEPTED, Reply(202, {}, b"{}")])
    after.run(products.abandon(after.call, given_up.call))
    asked, again, cancelled = after.requests
    assert asked == again and asked.body == first.body
    assert asked.headers["idempotency-key"] == first.headers["idempotency-key"]
    assert asked.headers["prefer"] == "respond-async" and cancelled.target.endswith("/cancel")


def test_a_refused_request_leaves_nothing_to_cancel() -> None:
    played = Played([problem(422, "shape_mismatch")])
    with pytest.raises(InvalidRequest):
        played.run(products.multiply(played.call, A, A, {}))
    assert played.call.unanswered is None and played.call.owned == []


def test_a_link_of_a_chain_is_submitted_once() -> None:
    link = Operand(ChainedProduct(A, A))
    played = Played([ACCEPTED, PRODUCT])
    played.run(products.multiply(played.call, link, link.T, {}))
    body = json.loads(bytes(played.requests[1].body[0]))
    assert body == {"a": {"job": JOB}, "b": {"job": JOB}, "transpose_b": True}


def test_a_call_may_have_no_deadline() -> None:
    played = Played([PRODUCT], timeout_s=float("inf"))
    assert played.run(products.multiply(played.call, A, A, {})) == A


def test_without_retries_no_key_is_needed() -> None:
    played = Played([PRODUCT], max_retries=0)
    played.run(products.multiply(played.call, A, A, {}))
    assert "idempotency-key" not in played.requests[0].headers


OPENED = Reply(201, {}, b'{"upload": "up_1", "url": "/v1/uploads/up_1"}')
SENT, STORED = Reply(204, {}, b""), Reply(201, {}, b"{}")


def sent_in_ranges(played: Played) -> bool:
    return played.run(send_in_ranges(played.call, "0" * 64, "float32", (1, 1), memoryview(b"1234")))


def test_an_upload_waits_for_a_range_that_was_cut_off() -> None:
    """The service still reads it, until it has noticed that nobody sends it any more."""
    played = Played([OPENED, CUT, SENT, *[problem(409, "wrong_state")] * 12, STORED])
    assert sent_in_ranges(played)
    with pytest.raises(Conflict, match="wrong_state"):
        sent_in_ranges(Played([OPENED, SENT, *[problem(409, "wrong_state")] * 99], timeout_s=10))
    with pytest.raises(Conflict, match="digest"):
        sent_in_ranges(Played([OPENED, SENT, problem(409, "digest_mismatch")]))


def test_an_upload_is_opened_once_and_completed_once() -> None:
    played = Played([CUT, OPENED, SENT, CUT, problem(409, "wrong_state"), STORED])
    assert sent_in_ranges(played)
    opening, completing = (
        [each.headers.get("idempotency-key") for each in played.requests if each.target.endswith(path)]
        for path in ("/uploads", "/complete")
    )
    assert len(opening) == 2 and len(completing) == 3
    assert len({*opening}) == len({*completing}) == 1 and None not in {*opening, *completing}
