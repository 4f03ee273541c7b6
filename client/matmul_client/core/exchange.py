"""Flows of a single request, which is sent again if that may help. Every request can be retried: POSTs of one call
carry the same Idempotency-Key, and other requests are idempotent.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import count
from typing import Any
from urllib.parse import quote

from matmul_client.core.errors import (
    Busy,
    DeadlineExceeded,
    InvalidRequest,
    MatmulError,
    ServerError,
    Unreachable,
    document_in,
    error_of,
    foreign_reply,
)
from matmul_client.core.wire import JSON, LONGEST_S, Call, Flow, NoReply, Outcome, Pause, Reply, Request

Record = dict[str, Any]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 4.0
ROUNDING_S = 0.02  # a socket may wake up that much before the deadline that it was given
FIRST_CONTACT_RETRIES = 3  # while nothing has ever answered: probably nothing is there
_GATEWAY_STATUS = frozenset({502, 504})
# Of a gateway before the service, and of a service that read too slowly or still works on the first try.
_AGAIN_STATUS = frozenset({408, 502})
_AGAIN_CODES = frozenset({"http_504", "idempotency_key_in_use"})  # the service's own 504 is a job's end


def exchange(call: Call, request: Request) -> Flow[Reply]:
    """The reply to the request, with a status of success. Raises ServerError or a subclass, Unreachable,
    DeadlineExceeded. `call.was_cut` then says whether a try before the last may have been carried out."""
    call.was_cut = False
    for tries in count():
        if call.remaining_s <= 0:
            raise DeadlineExceeded(f"The call did not end in its {call.timeout_s:g} s.")
        outcome = yield request
        if isinstance(outcome, Reply) or (outcome and outcome.may_have_arrived):
            call.contact.has_answered = True
        if isinstance(outcome, Reply) and 200 <= outcome.status < 300:
            return outcome
        call.was_cut = call.was_cut or (_may_be_done(outcome) and not call.sending.is_partial)
        error = _error(outcome, call)
        wait_s = pause_s(error, tries)
        max_retries = call.max_retries if call.contact.has_answered else min(FIRST_CONTACT_RETRIES, call.max_retries)
        if tries >= max_retries or not is_passing(error) or wait_s >= min(call.remaining_s, LONGEST_S):
            raise error
        yield Pause(wait_s)
    raise AssertionError("the loop ends with a reply or an error")


def _may_be_done(outcome: Outcome) -> bool:
    """Whether a request may have been carried out though no answer to it came: a gateway does not know either."""
    if isinstance(outcome, Reply):
        return outcome.status in _GATEWAY_STATUS
    return isinstance(outcome, NoReply) and outcome.may_have_arrived


def _error(outcome: Outcome, call: Call) -> MatmulError:
    if isinstance(outcome, Reply):
        return error_of(outcome.status, outcome.headers, outcome.body)
    assert isinstance(outcome, NoReply)
    if call.remaining_s <= ROUNDING_S:
        return DeadlineExceeded(f"The call did not end in its {call.timeout_s:g} s.")
    return Unreachable(outcome.reason)


def is_passing(error: MatmulError) -> bool:
    """Whether the same request may get a different answer a moment later."""
    if isinstance(error, ServerError):
        return isinstance(error, Busy) or error.status in _AGAIN_STATUS or error.code in _AGAIN_CODES
    return isinstance(error, Unreachable)


def pause_s(error: MatmulError, tries: int) -> float:
    """How long to wait before the next try. Doubles with each try, and is randomized, so that many callers do not come
    back at the same time; never less than the service asked for."""
    backoff_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries, 10)) * (0.5 + random.random() / 2)
    asked_s = error.retry_after_s if isinstance(error, ServerError) else None
    return max(backoff_s, asked_s or 0.0)


def document_of(reply: Reply, *members: str) -> Record:
    """The JSON object in a reply. Raises ServiceFailed where it has not these members."""
    document = document_in(reply.body)
    if document is None or not document.keys() >= {*members}:
        raise foreign_reply(reply.status)
    return {**document}


def segment(name: object) -> str:
    """An id or a name in a path or a query. Raises InvalidRequest if it is something else, such as the job itself."""
    if not isinstance(name, str):
        raise InvalidRequest(f"{name!r:.80} is not an id or a name; give text, such as job.id.")
    return quote(name, safe="")


def get_json(call: Call, target: str, *members: str, headers: Mapping[str, str] | None = None) -> Flow[Record]:
    """The JSON object at `target`, which has these members. Raises as `exchange`."""
    reply = yield from exchange(call, Request("GET", target, {"accept": JSON, **(headers or {})}))
    return document_of(reply, *members)


def get_records(call: Call, path: str, name: str | None = None) -> Flow[list[Record]]:
    """The list called `name` (by default `path`) of the document at `/v1/<path>`: kernels, devices, presets."""
    document = yield from get_json(call, f"/v1/{path}", name or path)
    records: list[Record] = document[name or path]
    return records
