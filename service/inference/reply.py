"""Replies to inference requests: JSON, followed by the product if it was requested as binary data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


def check_sendable(context: Context, infer_request: InferRequest, delivered: Delivered) -> None:
    """Checks, before a job is submitted, that the product can be sent as requested. Raises InvalidRequest."""
    elements, max_elements = prod(delivered.shape), context.settings.max_json_elements
    where = infer_request.body.output
    if where.is_in_region:
        if (where.shared_memory_byte_size or 0) < delivered.bytes:
            raise InvalidRequest(
                f"The product has {delivered.bytes} bytes, which is more than its shared_memory_byte_size.",
                field="outputs",
            )
    elif not infer_request.body.is_binary and elements > max_elements:
        raise InvalidRequest(
            f"The product has {elements} elements; JSON carries {max_elements} here, so ask for binary_data.",
            field="outputs",
        )


@dataclass(frozen=True, slots=True)
class InferReply:
    """Makes the reply to one inference request. `target` is the shared memory to write the product to."""

    model: Model
    infer_request: InferRequest
    target: Window | None

    def make(self, context: Context, job: Job, request: Request, extra: Mapping[str, str]) -> Response | None:
        """The reply with the product, or with the reason why there is none; None while the job has not ended. Raises
        InvalidRequest, and as `product_reply`.
        """
        if job.record.state is not JobState.SUCCEEDED:
            return end_reply(context, job, request, extra)
        if job.record.product is None:
            raise RecordUnreadable
        headers = {**job_location(job.id), "server-timing": server_timing(job.record), **extra}
        with sending_product():
            product = product_elements(job)
            if self.target is not None:
                _write(self.target, context, product)
                return Response(self._head(job.record, product), 200, headers, JSON)
            if not self.infer_request.body.is_binary:
                values = to_json(product.load(context).reshape(-1), product.dtype)
                head = self._head(job.record, product, data=orjson.Fragment(values))
                return Response(head, 200, headers, JSON)
            size = {"binary_data_size": matrix_bytes(product.dtype, product.shape)}
            head = self._head(job.record, product, parameters=size)
            headers[LENGTH_HEADER.lower()] = str(len(head))
            reply = send(context, Representation(product, OCTETS, head), UNCONDITIONAL, headers)
            for name in ("etag", "vary"):  # of a product's own bytes, as GET sends them
                del reply.headers[name]
            return reply

    def reads_store(self, context: Context, job: Job, _request: Request) -> bool:
        """Whether `make` must read a product from the store for so long that it should run in a thread."""
        product, body = job.record.product, self.infer_request.body
        if product is None:
            return False
        return not body.is_binary or body.output.is_in_region or reads_long(context, product.bytes)

    def _head(self, record: JobRecord, product: StoredElements, **output: Any) -> bytes:
        """The reply's JSON."""
        document: dict[str, Any] = {"model_name": self.model.name, "model_version": VERSION}
        if self.infer_request.body.id:
            document["id"] = self.infer_request.body.id
        document["parameters"] = _job_parameters(record)
        about = {"name": OUTPUT, "datatype": datatype_of(product.dtype), "shape": product.shape}
        document["outputs"] = [about | output]
        return orjson.dumps(document)


def _write(target: Window, context: Context, product: StoredElements) -> None:
    """Writes the product to shared memory. The reply does not mention it, because NVIDIA's C++ client expects other
    parameters there.
    """
    done = 0
    for chunk in product.chunks(context, 0, matrix_bytes(product.dtype, product.shape)):
        target.write(memoryview(chunk).cast("B"), done)
        done += len(chunk)


def _job_parameters(record: JobRecord) -> dict[str, str | float]:
    """The reply's parameters about the job. Parameters of the protocol are flat."""
    assert record.timing is not None
    about = {"job": record.id, "kernel": record.kernel, "device": record.device, "gflops": record.gflops}
    return {name: value for name, value in (*about.items(), *record.timing) if value is not None}
