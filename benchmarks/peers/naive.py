"""A naive service on the same components as ours, FastAPI, Celery and Redis, as their guides show them.

    REDIS_URL=redis://… uvicorn benchmarks.peers.naive:api
    REDIS_URL=redis://… celery --app benchmarks.peers.naive:tasks worker

The body is two .npy files, one after the other; the reply is one .npy file. Matrices travel in the messages. Pickle
transmits bytes unchanged, which is the fastest way that Celery offers. No record, no check, no limits, no parser of its
own.
"""

from __future__ import annotations

import io
import os
from typing import Annotated

import numpy as np
from celery import Celery
from fastapi import Body, FastAPI, Response

TIMEOUT_S = 60.0

tasks = Celery("naive", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
tasks.conf.update(task_serializer="pickle", result_serializer="pickle", accept_content=["pickle"])
api = FastAPI()


@tasks.task  # type: ignore[untyped-decorator]  # Celery has no types
def multiply(body: bytes) -> bytes:
    operands = io.BytesIO(body)
    product = io.BytesIO()
    np.save(product, np.load(operands) @ np.load(operands))
    return product.getvalue()


@api.post("/matmul")
def matmul(body: Annotated[bytes, Body(media_type="application/octet-stream")]) -> Response:
    product: bytes = multiply.delay(body).get(timeout=TIMEOUT_S)
    return Response(product, media_type="application/x-npy")
