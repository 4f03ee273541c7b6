"""The flow of a large upload: ranges over several connections; a range that is interrupted is sent again on its own."""

from __future__ import annotations

import json
import secrets
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import count

from matmul_client.core.errors import Conflict, MatmulError, NotFound, ServerError
from matmul_client.core.exchange import document_of, exchange, pause_s
from matmul_client.core.wire import JSON, OCTETS, Buffer, Call, Concurrent, Flow, Pause, Request

RANGED_BYTES = 128 << 20  # a smaller matrix goes in one request
RANGE_BYTES = 32 << 20
LANES = 4
# Of a service before uploads, and of one whose store has none.
_NO_UPLOADS = frozenset({404, 405, 501})


def send_in_ranges(call: Call, matrix_id: str, dtype: str, shape: tuple[int, ...], raw: Buffer) -> Flow[bool]:
    """Whether the service takes them; it has the matrix then. Raises MatmulError's kin."""
    target = yield from _open(call, matrix_id, dtype, shape)
    if target is None:
        return False
    call.uploads.append(target)
    view = memoryview(raw)
    todo = deque(range(0, len(view), RANGE_BYTES))
    yield Concurrent(tuple(partial(_lane, call, target, view, todo) for _ in range(min(LANES, len(todo)))))
    try:
        yield from _complete(call, target)
    except NotFound:  # it was completed, and the answer was lost
        yield from exchange(call, Request("HEAD", f"/v1/matrices/{matrix_id}"))
    call.uploads.remove(target)
    return True


def _complete(call: Call, target: str) -> Flow[None]:
    """A range that was cut off and sent again may still be coming in, as far as the service knows."""
    request = Request("POST", f"{target}/complete", _with_key({}))
    for tries in count():
        try:
            yield from exchange(call, request)
            return
        except Conflict as error:
            wait_s = pause_s(error, tries)
            if error.code != "wrong_state" or wait_s >= call.remaining_s:
                raise
        yield Pause(wait_s)


def _with_key(headers: dict[str, str]) -> dict[str, str]:
    return {**headers, "idempotency-key": secrets.token_hex(16)}


def _open(call: Call, matrix_id: str, dtype: str, shape: tuple[int, ...]) -> Flow[str | None]:
    asked = json.dumps({"id": matrix_id, "dtype": dtype, "shape": shape}).encode()
    try:
        reply = yield from exchange(call, Request("POST", "/v1/uploads", _with_key({"content-type": JSON}), (asked,)))
    except ServerError as error:
        if error.status in _NO_UPLOADS:
            return None
        raise
    opened = document_of(reply, "upload", "url")
    if str(opened["url"]).startswith("/"):
        return str(opened["url"])
    with suppress(NotFound, Conflict):  # the API sends it into its object store as well as this client could
        yield from exchange(call, Request("DELETE", f"/v1/uploads/{opened['upload']}"))
    return None


def _lane(call: Call, target: str, view: memoryview, todo: deque[int]) -> Flow[None]:
    """Sends what is left to be sent, a range at a time; where one fails, the others have nothing left to do."""
    while todo:
        first = todo.popleft()
        piece = view[first : first + RANGE_BYTES]
        said = {"content-type": OCTETS, "content-range": f"bytes {first}-{first + len(piece) - 1}/{len(view)}"}
        try:
            yield from exchange(call, Request("PUT", target, said, (piece,)))
        except MatmulError:
            todo.clear()
            raise
