"""Flows of stored matrices: upload, download, delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matmul_client.core.elements import Array, array_of, content_hash, dense, dtype_name, elements, seen
from matmul_client.core.errors import NotFound, foreign_reply
from matmul_client.core.exchange import Record, document_of, exchange, get_json, segment
from matmul_client.core.numbers import one_type
from matmul_client.core.operands import Operand
from matmul_client.core.ranges import RANGED_BYTES, send_in_ranges
from matmul_client.core.wire import OCTETS, Call, Compute, Flow, Request, computed

HEAD_BYTES = 64 << 10  # a smaller matrix is sent without asking whether the service has it


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A matrix that the service keeps until `expires_at`."""

    id: str
    dtype: str
    shape: tuple[int, ...]


def upload(call: Call, value: Any) -> Flow[StoredMatrix]:
    """Stores a matrix under the hash of its contents; nothing is sent if the service has it."""
    given = seen(value, "the matrix")
    (array,) = (
        yield from computed(lambda: one_type({"the matrix": dense(given)}, is_plain=False), given.nbytes)
    ).values()
    digest = content_hash(array)
    yield Compute(lambda: digest.update(elements(array)))
    stored = StoredMatrix(digest.hexdigest(), dtype_name(array), array.shape)
    target = f"/v1/matrices/{stored.id}"
    if array.nbytes > HEAD_BYTES and (yield from is_there(call, stored.id)):
        return stored
    if array.nbytes >= RANGED_BYTES and (
        yield from send_in_ranges(call, stored.id, stored.dtype, array.shape, elements(array))
    ):
        return stored
    headers = {
        "content-type": OCTETS,
        "x-matmul-dtype": stored.dtype,
        "x-matmul-shape": ",".join(map(str, array.shape)),
    }
    reply = yield from exchange(call, Request("PUT", target, headers, (elements(array),)))
    document_of(reply, "id")
    return stored


def is_there(call: Call, matrix_id: str) -> Flow[bool]:
    """Whether the service has the matrix. Raises ServiceFailed where something else answers."""
    try:
        reply = yield from exchange(call, Request("HEAD", f"/v1/matrices/{matrix_id}"))
    except NotFound:
        return False
    if "x-matmul-dtype" not in reply.headers:
        raise foreign_reply(reply.status)
    return True


def find(call: Call, matrix_id: str) -> Flow[Record]:
    """What the service says of a stored matrix. Raises NotFound."""
    return (yield from get_json(call, f"/v1/matrices/{segment(matrix_id)}", "id", "dtype", "shape"))


def download(call: Call, matrix_id: str) -> Flow[Array]:
    """A stored matrix."""
    return array_of((yield from exchange(call, Request("GET", f"/v1/matrices/{matrix_id}", {"accept": OCTETS}))))


def delete(call: Call, matrix_id: str) -> Flow[None]:
    """Deletes a stored matrix. Raises NotFound."""
    try:
        yield from exchange(call, Request("DELETE", f"/v1/matrices/{matrix_id}"))
    except NotFound:
        if not call.was_cut:  # else a try before may have deleted it
            raise


def resolve_view(array: Array, operand: Operand) -> Array:
    """The matrix of an operand that may be a transposed or conjugated view: `array` is the stored matrix."""
    seen = array.swapaxes(-1, -2) if operand._transposed else array
    return seen.conj() if operand._conjugated and seen.dtype.kind == "c" else seen
