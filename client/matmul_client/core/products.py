"""Flows of products and matrices: multiply, submit, wait, fetch, upload, cancel."""

from __future__ import annotations

import json
import operator
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from matmul_client.core.bodies import Reference, body_of, fits_multipart
from matmul_client.core.elements import Array, array_of, content_hash, dtype_name, elements, to_array
from matmul_client.core.errors import NotFound, ServerError, job_error
from matmul_client.core.numbers import one_type
from matmul_client.core.operands import Chained, Operand
from matmul_client.core.ranges import RANGED_BYTES, send_in_ranges
from matmul_client.core.retrying import exchange
from matmul_client.core.wire import JSON, OCTETS, Call, Compute, Flow, Reply, Request

Record = dict[str, Any]

ADDED = ("c", "bias")  # operands that are added
SCALES = ("scale_a", "scale_b")
HALF_BYTES = 2  # of float16 and bfloat16
WAIT_S = 20  # of one request; what takes longer is asked for again
TERMINAL = frozenset({"succeeded", "failed", "cancelled"})
HEAD_BYTES = 64 << 10  # a smaller matrix is sent without asking whether the service has it


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A matrix that the service keeps until `expires_at`."""

    id: str
    dtype: str
    shape: tuple[int, ...]


def multiply(call: Call, a: Any, b: Any, options: Mapping[str, Any]) -> Flow[Array]:
    """The product, by a single request if it is ready in time. Raises subclasses of MatmulError."""
    request = yield from _product_request(call, a, b, options)
    reply = yield from _post(call, request, {"accept": OCTETS, "prefer": f"wait={_wait_s(call)}"})
    if reply.status == 202:
        reply = yield from _product(call, _job_id(reply))
    call.owned.clear()
    return array_of(reply)


def submit(call: Call, a: Any, b: Any, options: Mapping[str, Any]) -> Flow[Record]:
    """The record of the job, which continues on its own."""
    request = yield from _product_request(call, a, b, options)
    reply = yield from _post(call, request, {"prefer": "respond-async"})
    call.owned.clear()
    return _job_of(reply)


def submit_chain(call: Call, product: Chained) -> Flow[str]:
    """Id of the job of a product that was written with `@`, and of those that it is made of, submitted once."""
    if product.job_id is None:
        request = yield from _product_request(call, product.left, product.right, {})
        reply = yield from _post(call, request, {"prefer": "respond-async"})
        product.job_id = _job_id(reply)
    return product.job_id


def multiply_chain(call: Call, product: Chained) -> Flow[Array]:
    """The product of a chain; the last of it takes one request."""
    if product.job_id is not None:
        return (yield from fetch(call, product.job_id))
    return (yield from multiply(call, product.left, product.right, {}))


def submit_chain_detached(call: Call, product: Chained) -> Flow[str]:
    """Like `submit_chain`, but the jobs continue if this call fails later."""
    job_id = yield from submit_chain(call, product)
    call.owned.clear()
    return job_id


def _product_request(call: Call, a: Any, b: Any, options: Mapping[str, Any]) -> Flow[Request]:
    """The request for a product. All tries use one Idempotency-Key. Jobs that the operands need are submitted first."""
    chosen = {name: _factor(value) for name, value in options.items() if value is not None}
    if "group_sizes" in chosen:
        chosen["group_sizes"] = [operator.index(size) for size in chosen["group_sizes"]]
    given = {"a": a, "b": b} | {name: chosen.pop(name) for name in (*ADDED, *SCALES) if name in chosen}
    operands: dict[str, Array | Reference] = {}
    arrays: dict[str, Array] = {}
    for name, value in given.items():
        if isinstance(value, Operand):
            operands[name] = yield from _reference(call, value)
            _add_view(chosen, name, value)
        else:
            arrays[name] = to_array(value, name)
    scales = {name: arrays.pop(name) for name in SCALES if name in arrays}
    is_plain = not operands and not chosen.keys() & {"alpha", "beta"} and not arrays.keys() & {*ADDED}
    operands |= _addends_widened(one_type(arrays, is_plain=is_plain), chosen)
    operands |= {name: array.astype("float32", copy=False) for name, array in scales.items()}
    yield from _upload_what_no_form_carries(call, operands)
    media_type, body = body_of(operands, chosen)
    headers = {"content-type": media_type}
    if call.max_retries:
        headers["idempotency-key"] = secrets.token_hex(16)
    return Request("POST", "/v1/matmul", headers, body)


def _addends_widened(arrays: Mapping[str, Array], options: Mapping[str, Any]) -> dict[str, Array]:
    """Widens 16-bit addends to float32 if the product is float32."""
    is_wide = options.get("output_dtype") == "float32"
    return {
        name: array.astype("float32") if is_wide and name in ADDED and array.itemsize == HALF_BYTES else array
        for name, array in arrays.items()
    }


def _add_view(options: dict[str, Any], name: str, operand: Operand) -> None:
    """Adds the options for an operand that is a transpose or a conjugate."""
    for option, asked in (("transpose", operand._transposed), ("conjugate", operand._conjugated)):
        if asked and name not in ("a", "b"):
            raise ValueError(f"{name} cannot be a transpose or a conjugate: fetch it, or compute it so.")
        if asked:
            options[f"{option}_{name}"] = not options.get(f"{option}_{name}", False)


def _factor(value: Any) -> Any:
    """A factor as a JSON value; a complex number is a pair."""
    return [value.real, value.imag] if isinstance(value, complex) else value


def _reference(call: Call, operand: Operand) -> Flow[Reference]:
    source = operand._source
    if isinstance(source, Reference):
        return source
    return Reference("job", (yield from submit_chain(call, source)))


def _upload_what_no_form_carries(call: Call, operands: dict[str, Array | Reference]) -> Flow[None]:
    if not any(isinstance(value, Reference) for value in operands.values()):
        return
    for name, value in operands.items():
        if not isinstance(value, Reference) and not fits_multipart(value):
            stored = yield from upload(call, value)
            operands[name] = Reference("matrix", stored.id)


def _post(call: Call, request: Request, headers: Mapping[str, str]) -> Flow[Reply]:
    """Sends a request that makes a job. The job belongs to the call until it ends."""
    asked = replace(request, headers={**request.headers, **headers})
    call.unanswered = asked if call.max_retries else None  # without a key, asking again would make another job
    try:
        reply = yield from exchange(call, asked)
    except ServerError:
        call.unanswered = None  # it was answered: there is no job, or it has ended
        raise
    call.unanswered = None
    call.owned.append(_job_id(reply))
    return reply


def _job_id(reply: Reply) -> str:
    return reply.headers["location"].rpartition("/")[2]


def _job_of(reply: Reply) -> Record:
    record: Record = json.loads(bytes(reply.body))["job"]
    return record


def _wait_s(call: Call) -> int:
    return max(1, int(min(WAIT_S, call.remaining_s)))


def wait(call: Call, job_id: str) -> Flow[Record]:
    """The job's record at its end."""
    while True:
        record: Record = yield from get_json(call, f"/v1/jobs/{job_id}", {"prefer": f"wait={_wait_s(call)}"})
        if record["state"] in TERMINAL:
            return record


def fetch(call: Call, job_id: str) -> Flow[Array]:
    """The product of a job, waited for. Raises JobFailed, JobCancelled."""
    return array_of((yield from _product(call, job_id)))


def _product(call: Call, job_id: str) -> Flow[Reply]:
    record = yield from wait(call, job_id)
    if record["state"] != "succeeded":
        raise job_error(record)
    return (yield from exchange(call, Request("GET", f"/v1/jobs/{job_id}/product", {"accept": OCTETS})))


def cancel(call: Call, job_id: str) -> Flow[Record]:
    """The job's record, cancelled. Raises Conflict where it had ended."""
    headers = {"idempotency-key": secrets.token_hex(16)}
    reply = yield from exchange(call, Request("POST", f"/v1/jobs/{job_id}/cancel", headers))
    record: Record = json.loads(bytes(reply.body))
    return record


def abandon(call: Call, ended: Call) -> Flow[None]:
    """Cancels what a failed call had started. A job whose id was never received is found by its Idempotency-Key."""
    if ended.unanswered is not None:
        request, ended.unanswered = ended.unanswered, None
        headers = {**request.headers, "prefer": "respond-async"}
        reply = yield from exchange(call, replace(request, headers=headers))
        ended.owned.append(_job_id(reply))
    while ended.owned:
        try:
            yield from cancel(call, ended.owned.pop())
        except ServerError:
            continue  # it has ended


def upload(call: Call, value: Any) -> Flow[StoredMatrix]:
    """Stores a matrix under the hash of its contents; nothing is sent where the service has it."""
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


def delete(call: Call, target: str) -> Flow[None]:
    yield from exchange(call, Request("DELETE", target))


def get_json(call: Call, target: str, headers: Mapping[str, str] | None = None) -> Flow[Any]:
    reply = yield from exchange(call, Request("GET", target, {"accept": JSON, **(headers or {})}))
    return json.loads(bytes(reply.body))


def resolve_view(array: Array, operand: Operand) -> Array:
    """The matrix of an operand that may be a transposed or conjugated view: `array` is the stored matrix."""
    seen = array.swapaxes(-1, -2) if operand._transposed else array
    return seen.conj() if operand._conjugated and seen.dtype.kind == "c" else seen
