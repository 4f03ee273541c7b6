"""Flows of products: multiply, submit, fetch, and chains of products."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, SupportsIndex

from matmul_client.core.bodies import Reference, body_of, fits_multipart
from matmul_client.core.elements import Array, array_of, dense, seen
from matmul_client.core.errors import (
    InvalidOperand,
    InvalidRequest,
    MatmulError,
    NotFound,
    ServerError,
    foreign_reply,
    job_error,
)
from matmul_client.core.exchange import Record, exchange
from matmul_client.core.jobs import cancel, job_of, wait, wait_s
from matmul_client.core.matrices import upload
from matmul_client.core.numbers import one_type
from matmul_client.core.operands import ChainedProduct, Operand
from matmul_client.core.options import plain
from matmul_client.core.wire import OCTETS, Call, Flow, Reply, Request, computed

ADDED = ("c", "bias")  # operands that are added
SCALES = ("scale_a", "scale_b")
HALF_BYTES = 2  # of float16 and bfloat16


def multiply(call: Call, a: Any, b: Any, options: Mapping[str, Any]) -> Flow[Array]:
    """The product, by a single request if it is ready in time. Raises subclasses of MatmulError."""
    product, _ = yield from _multiplied(call, a, b, options)
    return product


def _multiplied(call: Call, a: Any, b: Any, options: Mapping[str, Any]) -> Flow[tuple[Array, str]]:
    """The product, and the id of its job."""
    request = yield from _product_request(call, a, b, options)
    reply = yield from _post(call, request, {"accept": OCTETS, "prefer": f"wait={wait_s(call)}"})
    job_id = _job_id(reply)
    if reply.status == 202:
        reply = yield from _product(call, job_id)
    call.owned.clear()
    return array_of(reply), job_id


def submit(call: Call, a: Any, b: Any, options: Mapping[str, Any]) -> Flow[Record]:
    """The record of the job, which continues on its own."""
    request = yield from _product_request(call, a, b, options)
    reply = yield from _post(call, request, {"prefer": "respond-async"})
    call.owned.clear()
    return job_of(reply)


def submit_chain(call: Call, product: ChainedProduct) -> Flow[str]:
    """Id of the job of a product that was written with `@`, and of those that it is made of, submitted once."""
    if product.job_id is None:
        request = yield from _product_request(call, product.left, product.right, {})
        reply = yield from _post(call, request, {"prefer": "respond-async"})
        product.job_id = _job_id(reply)
        call.forget.append(product.forget)
    return product.job_id


def multiply_chain(call: Call, product: ChainedProduct) -> Flow[Array]:
    """The product of a chain; the last of it takes one request."""
    if product.job_id is not None:
        with suppress(NotFound):  # the job has expired, and is made again
            return (yield from fetch(call, product.job_id))
    array, product.job_id = yield from _multiplied(call, product.left, product.right, {})
    return array


def submit_chain_detached(call: Call, product: ChainedProduct) -> Flow[str]:
    """Like `submit_chain`, but the jobs continue if this call fails later."""
    job_id = yield from submit_chain(call, product)
    call.owned.clear()
    return job_id


def _product_request(call: Call, a: Any, b: Any, options: Mapping[str, Any]) -> Flow[Request]:
    """The request for a product. All tries use one Idempotency-Key. Jobs that the operands need are submitted first."""
    chosen = {name: value for name, value in options.items() if value is not None}
    if "group_sizes" in chosen:
        chosen["group_sizes"] = _whole(chosen["group_sizes"])
    given = {"a": a, "b": b} | {name: chosen.pop(name) for name in (*ADDED, *SCALES) if name in chosen}
    operands: dict[str, Array | Reference] = {}
    arrays: dict[str, Array] = {}
    for name, value in given.items():
        if isinstance(value, Operand):
            operands[name] = yield from _reference(call, value)
            _add_view(chosen, name, value)
        else:
            arrays[name] = seen(value, name)
    is_plain = not operands and not chosen.keys() & {"alpha", "beta"} and not arrays.keys() & {*ADDED}
    size = sum(array.nbytes for array in arrays.values())
    operands |= yield from computed(lambda: _converted(arrays, chosen, is_plain=is_plain), size)
    yield from _upload_what_no_form_carries(call, operands)
    media_type, body = body_of(operands, plain(chosen))
    headers = {"content-type": media_type}
    if call.max_retries:
        headers["idempotency-key"] = secrets.token_hex(16)
    return Request("POST", "/v1/matmul", headers, body)


def _converted(arrays: Mapping[str, Array], options: Mapping[str, Any], *, is_plain: bool) -> dict[str, Array]:
    """Dense, and of one type but for the scales. Raises InvalidOperand."""
    whole = {name: dense(array) for name, array in arrays.items()}
    scales = {name: whole.pop(name).astype("float32", copy=False) for name in SCALES if name in whole}
    return _addends_widened(one_type(whole, is_plain=is_plain), options) | scales


def _whole(sizes: Iterable[SupportsIndex]) -> list[int]:
    """Raises InvalidOperand."""
    try:
        return [operator.index(size) for size in sizes]
    except TypeError:
        raise InvalidOperand(f"group_sizes is {sizes!r}; give whole numbers, such as [3, 0, 5].") from None


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
            raise InvalidRequest(
                f"{name} cannot be a transpose or a conjugate: fetch it, or compute it so.", field=name
            )
        if asked:
            options[f"{option}_{name}"] = not options.get(f"{option}_{name}", False)


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
    except ServerError as error:
        if not call.was_cut or error.job_id is not None:  # there is no job, or it has ended
            call.unanswered = None
        raise
    call.unanswered = None
    call.owned.append(_job_id(reply))
    return reply


def _job_id(reply: Reply) -> str:
    """Raises ServiceFailed."""
    if "location" not in reply.headers:
        raise foreign_reply(reply.status)
    return reply.headers["location"].rpartition("/")[2]


def fetch(call: Call, job_id: str) -> Flow[Array]:
    """The product of a job, waited for. Raises JobFailed, JobCancelled."""
    return array_of((yield from _product(call, job_id)))


def _product(call: Call, job_id: str) -> Flow[Reply]:
    record = yield from wait(call, job_id)
    if record["state"] != "succeeded":
        raise job_error(record)
    return (yield from exchange(call, Request("GET", f"/v1/jobs/{job_id}/product", {"accept": OCTETS})))


def abandon(call: Call, ended: Call) -> Flow[None]:
    """Cancels what a failed call had started. A job whose id was never received is found by its Idempotency-Key."""
    for forget in ended.forget:
        forget()
    while ended.uploads:
        with suppress(MatmulError):
            yield from exchange(call, Request("DELETE", ended.uploads.pop()))
    if ended.unanswered is not None and ended.may_have_made_a_job:
        request, ended.unanswered = ended.unanswered, None
        headers = {**request.headers, "prefer": "respond-async"}
        reply = yield from exchange(call, replace(request, headers=headers))
        ended.owned.append(_job_id(reply))
    while ended.owned:
        try:
            yield from cancel(call, ended.owned.pop())
        except ServerError:
            continue  # it has ended
