"""Flows of a single request, which is sent again if that may help. Every request can be retried: POSTs of one call
carry the same Idempotency-Key, and other requests are idempotent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import count
from typing import Any

from matmul_client.core.errors import Busy, DeadlineExceeded, MatmulError, ServerError, Unreachable, error_of
from matmul_client.core.wire import JSON, Call, Flow, NoReply, Outcome, Pause, Reply, Request

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 4.0
ROUNDING_S = 0.02  # a socket may wake up that much before the deadline that it was given
FIRST_CONTACT_RETRIES = 3  # while nothing has ever answered: probably nothing is there
# Of a gateway before the service, and of a service that read too slowly or still works on the first try.
_AGAIN_STATUS = frozenset({408, 502})
_AGAIN_CODES = frozenset({"idempotency_key_in_use"})


def exchange(call: Call, request: Request) -> Flow[Reply]:
    """The reply to the request, with a status below 400. Raises ServerError or a subclass, Unreachable,
    DeadlineExceeded."""
    for tries in count():
        if call.remaining_s <= 0:
            raise DeadlineExceeded(f"The call did not end in its {call.timeout_s:g} s.")
        outcome = yield request
        if isinstance(outcome, Reply) or (outcome and outcome.may_have_arrived):
            call.contact.has_answered = True
        if isinstance(outcome, Reply) and outcome.status < 400:
            return outcome
        error = _error(outcome, call)
        wait_s = pause_s(error, tries)
        max_retries = call.max_retries if call.contact.has_answered else min(FIRST_CONTACT_RETRIES, call.max_retries)
        if tries >= max_retries or not is_passing(error) or wait_s >= call.remaining_s:
            raise error
        yield Pause(wait_s)
    raise AssertionError("the loop ends with a reply or an error")


def _error(outcome: Outcome, call: Call) -> MatmulError:
    if isinstance(outcome, Reply):
        return error_of(outcome.status, outcome.headers, bytes(outcome.body))
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


def get_json(call: Call, target: str, headers: Mapping[str, str] | None = None) -> Flow[Any]:
    """The JSON document at `target`. Raises as `exchange`."""
    reply = yield from exchange(call, Request("GET", target, {"accept": JSON, **(headers or {})}))
    return json.loads(bytes(reply.body))


def get_records(call: Call, path: str, name: str | None = None) -> Flow[list[dict[str, Any]]]:
    """The list called `name` (by default `path`) of the document at `/v1/<path>`: kernels, devices, presets."""
    document = yield from get_json(call, f"/v1/{path}")
    records: list[dict[str, Any]] = document[name or path]
    return records
