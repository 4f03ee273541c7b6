"""Requests under /v2 that are right: of JSON, of JSON with raw tensors behind it, compressed, and questions."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

from jobs.formats.elements import Array
from tests.malformed.requests import Request

INFER = b"/v2/models/matmul/infer"
LENGTH = b"Inference-Header-Content-Length"
QUESTIONS = (
    *("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/matmul", "/v2/models/naive/versions/1"),
    *("/v2/models/matmul/config", "/v2/models/matmul/stats", "/v2/models/stats", "/v2/models/cpu_blas/ready"),
    *("/v2/systemsharedmemory/status", "/v2/cudasharedmemory/status", "/v2/nothing", "/v2/models/nothing"),
)


def _document(a: Array, *, is_binary: bool) -> dict[str, Any]:
    """The operands in the JSON, or both behind it."""
    where: dict[str, Any] = {"parameters": {"binary_data_size": a.nbytes}} if is_binary else {"data": a.tolist()}
    tensors = [{"name": name, "shape": list(a.shape), "datatype": "FP32", **where} for name in "AB"]
    wanted = [{"name": "C", "parameters": {"binary_data": is_binary}}]
    parameters = {"kernel": "auto", "alpha": 2.0, "transpose_b": True, "priority": 1, "timeout": 60_000_000}
    return {"id": "one", "inputs": tensors, "outputs": wanted, "parameters": parameters}


def inference_seeds(a: Array) -> list[Request]:
    plain = json.dumps(_document(a, is_binary=False)).encode()
    head = json.dumps(_document(a, is_binary=True)).encode()
    framed, length = head + 2 * a.tobytes(), (LENGTH, b"%d" % len(head))
    region = json.dumps({"key": "/one", "offset": 0, "byte_size": a.nbytes}).encode()
    return [
        Request("POST", INFER, [], plain, "json"),
        Request("POST", b"/v2/models/cpu_blas/versions/1/infer", [], plain, "json"),
        Request("POST", INFER, [length], framed, "octets"),
        Request("POST", INFER, [length, (b"Content-Encoding", b"gzip")], gzip.compress(framed), "octets"),
        Request("POST", INFER, [(b"Content-Encoding", b"deflate")], zlib.compress(plain), "octets"),
        Request("POST", b"/v2/repository/index", [], b'{"ready": true}', "json"),
        Request("POST", b"/v2/systemsharedmemory/region/one/register", [], region, "json"),
        *(Request("GET", question.encode()) for question in QUESTIONS),
    ]
