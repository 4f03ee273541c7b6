"""Flows of stored matrices: upload, download, delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matmul_client.core.elements import Array, array_of, content_hash, dtype_name, elements, to_array
from matmul_client.core.errors import NotFound
from matmul_client.core.exchange import exchange
from matmul_client.core.numbers import one_type
from matmul_client.core.operands import Operand
from matmul_client.core.ranges import RANGED_BYTES, send_in_ranges
from matmul_client.core.wire import OCTETS, Call, Compute, Flow, Request

HEAD_BYTES = 64 << 10  # a smaller matrix is sent without asking whether the service has it


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A matrix that the service keeps until `expires_at`."""

    id: str
    dtype: str
    shape: tuple[int, ...]


def upload(call: Call, value: Any) -> Flow[StoredMatrix]:
    """Stores a matrix under the hash of its contents; nothing is sent if the service has it."""
    (array,) = one_type({"the matrix": to_array(value, "the matrix")}, is_plain=False).values()
    digest = content_hash(array)
    yield Compute(lambda: digest.update(elements(array)))
    stored = StoredMatrix(digest.hexdigest(), dtype_name(array), array.shape)
    target = f"/v1/matrices/{stored.id}"
    if array.nbytes > HEAD_BYTES and (yield from _is_there(call, target)):
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
    yield from exchange(call, Request("PUT", target, headers, (elements(array),)))
    return stored


def _is_there(call: Call, target: str) -> Flow[bool]:
    try:
        yield from exchange(call, Request("HEAD", target))
    except NotFound:
        return False
    return True


def download(call: Call, matrix_id: str) -> Flow[Array]:
    """A stored matrix."""
    return array_of((yield from exchange(call, Request("GET", f"/v1/matrices/{matrix_id}", {"accept": OCTETS}))))


def delete(call: Call, matrix_id: str) -> Flow[None]:
    """Deletes a stored matrix. Raises NotFound."""
    yield from exchange(call, Request("DELETE", f"/v1/matrices/{matrix_id}"))


def resolve_view(array: Array, operand: Operand) -> Array:
    """The matrix of an operand that may be a transposed or conjugated view: `array` is the stored matrix."""
    seen = array.swapaxes(-1, -2) if operand._transposed else array
    return seen.conj() if operand._conjugated and seen.dtype.kind == "c" else seen
