"""Replies to inference requests: JSON, followed by the product if it was requested as binary data."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from jobs.errors import InvalidRequest
from jobs.formats.elements import matrix_bytes
from jobs.models import Job, JobRecord
from jobs.states import JobState
from jobs.stored import RecordUnreadable
from kernels.model.outputs import Delivered
from service.bodies.nested_lists import to_json
from service.context import Context
from service.http.negotiation import JSON, OCTETS
from service.http.representations import UNCONDITIONAL, Representation, StoredElements, send
from service.inference.body import OUTPUT
from service.inference.datatypes import datatype_of
from service.inference.head import LENGTH_HEADER
from service.inference.models import VERSION, Model
from service.inference.reader import InferRequest
from service.inference.regions import Window
from service.submit.replies import (
    end_reply,
    job_location,
    product_elements,
    reads_long,
    sending_product,
    server_timing,
)


def check_sendable(context: Context, wanted: InferRequest, delivered: Delivered) -> None:
    """Checks, before a job is submitted, that the product can be sent as requested. Raises InvalidRequest."""
    elements, max_elements = prod(delivered.shape), context.settings.max_json_elements
    where = wanted.body.output
    if where.is_in_region:
        if (where.shared_memory_byte_size or 0) < delivered.bytes:
            raise InvalidRequest(
                f"The product has {delivered.bytes} bytes, which is more than its shared_memory_byte_size.",
                field="outputs",
            )
    elif not wanted.body.is_binary and elements > max_elements:
        raise InvalidRequest(
            f"The product has {elements} elements; JSON carries {max_elements} here, so ask for binary_data.",
            field="outputs",
        )


def infer_end(
    context: Context,
    job: Job,
    request: Request,
    extra: Mapping[str, str],
    *,
    model: Model,
    wanted: InferRequest,
    target: Window | None,
) -> Response | None:
    """The reply with the product, or with the reason why there is none; None while the job has not ended. `target` is
    the shared memory to write it to. Raises InvalidRequest, and as `product_reply`.
    """
    if job.record.state is not JobState.SUCCEEDED:
        return end_reply(context, job, request, extra)
    if job.record.product is None:
        raise RecordUnreadable
    headers = {**job_location(job.id), "server-timing": server_timing(job.record), **extra}
    with sending_product():
        product = product_elements(job)
        if target is not None:
            _write(target, context, product)
            return Response(_head(job.record, model, wanted, product), 200, headers, JSON)
        if not wanted.body.is_binary:
            values = to_json(product.load(context).reshape(-1), product.dtype)
            return Response(_head(job.record, model, wanted, product, data=orjson.Fragment(values)), 200, headers, JSON)
        size = {"binary_data_size": matrix_bytes(product.dtype, product.shape)}
        head = _head(job.record, model, wanted, product, parameters=size)
        headers[LENGTH_HEADER.lower()] = str(len(head))
        return send(context, Representation(product, OCTETS, head), UNCONDITIONAL, headers)


def infer_reads_store(context: Context, job: Job, _request: Request, *, wanted: InferRequest) -> bool:
    """As `reads_store`, of `infer_end`."""
    product, body = job.record.product, wanted.body
    if product is None:
        return False
    return not body.is_binary or body.output.is_in_region or reads_long(context, product.bytes)


def _write(target: Window, context: Context, product: StoredElements) -> None:
    """Writes the product to shared memory. The reply does not mention it, because NVIDIA's C++ client expects other
    parameters there.
    """
    done = 0
    for chunk in product.chunks(context, 0, matrix_bytes(product.dtype, product.shape)):
        target.write(memoryview(chunk).cast("B"), done)
        done += len(chunk)


def _head(record: JobRecord, model: Model, wanted: InferRequest, product: StoredElements, **output: Any) -> bytes:
    """The reply's JSON."""
    document: dict[str, Any] = {"model_name": model.name, "model_version": VERSION}
    if wanted.body.id:
        document["id"] = wanted.body.id
    document["parameters"] = _about(record)
    about = {"name": OUTPUT, "datatype": datatype_of(product.dtype), "shape": product.shape}
    document["outputs"] = [about | output]
    return orjson.dumps(document)


def _about(record: JobRecord) -> dict[str, str | float]:
    """The reply's parameters about the job. Parameters of the protocol are flat."""
    assert record.timing is not None
    about = {"job": record.id, "kernel": record.kernel, "device": record.device, "gflops": record.gflops}
    return {name: value for name, value in (*about.items(), *record.timing) if value is not None}
