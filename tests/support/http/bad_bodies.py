"""Bodies that must be refused: media types, files, uploads."""

from __future__ import annotations

import struct

import numpy as np

from service.bodies.sizes import in_units
from tests.support.http.bad_requests import (
    F32,
    MAX_BODY,
    NPY,
    OCTETS,
    OK,
    ROW,
    TENSORS,
    Case,
    lying,
    one_file,
    tensor,
    tensors,
)
from tools.harness.api import npy

MEDIA = [
    Case("no type", 415, "unsupported_media_type", "not given", "Content-Type", content=b"x"),
    Case(
        "text",
        415,
        "unsupported_media_type",
        "text/plain",
        "Content-Type",
        content=b"{}",
        headers={"content-type": "text/plain"},
    ),
    Case(
        "gzip", 415, "unsupported_media_type", "gzip", "Content-Encoding", json=OK, headers={"content-encoding": "gzip"}
    ),
    Case("accept", 406, "not_acceptable", "application/x-npy", "Accept", json=OK, headers={"accept": "text/html"}),
    Case("accept with weight 0", 406, "not_acceptable", "Accept", "Accept", json=OK, headers={"accept": "*/*;q=0"}),
    Case(
        "no boundary",
        400,
        "malformed_body",
        "boundary",
        "Content-Type",
        content=b"x",
        headers={"content-type": "multipart/form-data"},
    ),
    Case(
        "not that boundary",
        400,
        "malformed_body",
        "boundary",
        content=b"hello",
        headers={"content-type": "multipart/form-data; boundary=x"},
    ),
    Case(
        "multipart cut off",
        400,
        "malformed_body",
        "closing boundary",
        content=b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nabc',
        headers={"content-type": "multipart/form-data; boundary=x"},
    ),
    Case(
        "text for a file",
        422,
        "invalid_matrix",
        "not an .npy file",
        "a",
        content=b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n[[1,2]]\r\n--x--\r\n',
        headers={"content-type": "multipart/form-data; boundary=x"},
    ),
    Case(
        "empty multipart",
        422,
        "invalid_request",
        "a is missing",
        "a",
        content=b"--x--\r\n",
        headers={"content-type": "multipart/form-data; boundary=x"},
    ),
    Case("missing part", 422, "invalid_request", "b is missing", "b", files={"a": npy(np.ones((2, 2), F32))}),
    Case("unknown part", 422, "invalid_request", "'x'", "x", files={"x": b""}),
    Case("part of a kind", 415, "unsupported_media_type", "image/png", "a", files={"a": ("a.png", b"", "image/png")}),
    Case(
        "part twice",
        422,
        "invalid_request",
        "twice",
        "a",
        files={
            "a": npy(np.ones((2, 2), F32)),
            "options": (None, b'{"a": {"random": {"shape": [2, 2]}}}', "application/json"),
        },
    ),
    Case(
        "options no JSON",
        400,
        "malformed_body",
        "options is not JSON",
        "options",
        files={"options": (None, b"kernel=auto")},
    ),
    Case("options too long", 422, "invalid_request", "options", "options", files={"options": (None, b" " * 70_000)}),
]
FILES = [
    Case("no npy", 422, "invalid_matrix", "npy", "a", **one_file(b"hello, this is no matrix")),
    Case("empty part", 422, "invalid_matrix", "ends", "a", **one_file(b"")),
    Case("npy claims 32 GiB", 422, "invalid_matrix", "bytes", "a", **one_file(lying("<f8", (65536, 65536)))),
    Case("npy past 2^64", 422, "invalid_matrix", "size", "a", **one_file(lying("<f4", (2**64, 2)))),
    Case("npy product past 2^64", 422, "invalid_matrix", "2^63", "a", **one_file(lying("<f4", (2**40, 2**40)))),
    Case("npy negative", 422, "invalid_matrix", "size", "a", **one_file(lying("<f4", (-1, 2)))),
    Case("npy bool", 422, "unsupported_dtype", "b1", "a", **one_file(npy(np.ones((2, 2), bool)))),
    Case("npy object", 422, "unsupported_dtype", "O", "a", **one_file(lying("|O", (2, 2), b"cos\nsystem\n"))),
    Case("npy structured", 422, "unsupported_dtype", "structured", "a", **one_file(npy(np.zeros((2, 2), "f4,i4")))),
    Case("npy long complex", 422, "unsupported_dtype", "c32", "a", **one_file(npy(np.ones((2, 2), np.clongdouble)))),
    Case("npy truncated", 422, "invalid_matrix", "missing", "a", **one_file(npy(np.ones((2, 2), F32))[:-1])),
    Case(
        "npy trailing bytes", 422, "invalid_matrix", "after the last", "a", **one_file(npy(np.ones((2, 2), F32)) + b"x")
    ),
    Case(
        "safetensors overlap",
        422,
        "invalid_matrix",
        "overlap",
        **tensors({"a": tensor(0, 16), "b": tensor(8, 24)}, b"\0" * 24),
    ),
    Case(
        "safetensors out of range",
        422,
        "invalid_matrix",
        "bytes",
        **tensors({"a": tensor(0, 16), "b": tensor(16, 32)}, b"\0" * 20),
    ),
    Case(
        "safetensors header too long",
        422,
        "invalid_matrix",
        "header",
        content=struct.pack("<Q", 2**60) + b"{}",
        headers={"content-type": TENSORS},
    ),
    Case("safetensors no JSON", 422, "invalid_matrix", "JSON", **tensors(b"{nope}")),
    Case("safetensors names", 422, "invalid_matrix", "a, b", "a", **tensors({"x": tensor(0, 16)}, b"\0" * 16)),
    Case(
        "safetensors dtype",
        422,
        "unsupported_dtype",
        "C128",
        "a",
        **tensors({"a": tensor(0, 64, dtype="C128"), "b": tensor(64, 80)}, b"\0" * 80),
    ),
    Case(
        "safetensors options",
        422,
        "invalid_request",
        "nope",
        "nope",
        **tensors({"a": tensor(0, 16), "b": tensor(16, 32), "__metadata__": {"options": '{"nope": 1}'}}, b"\0" * 32),
    ),
    Case("empty safetensors", 422, "invalid_matrix", "ends", content=b"", headers={"content-type": TENSORS}),
    Case("too large a matrix", 422, "invalid_matrix", "largest", "a", **one_file(npy(np.ones((300, 300), F32)))),
    Case("body over the limit", 413, "body_too_large", in_units(MAX_BODY), **one_file(b"x" * MAX_BODY)),
]
UPLOADS = [
    Case(
        "octets without a shape",
        422,
        "invalid_matrix",
        "Shape",
        "X-Matmul-Shape",
        content=b"1234",
        headers={"content-type": OCTETS, "x-matmul-dtype": "float32"},
    ),
    Case(
        "octets without a dtype",
        422,
        "unsupported_dtype",
        "Dtype",
        "X-Matmul-Dtype",
        content=b"1234",
        headers={"content-type": OCTETS},
    ),
    Case(
        "octets too short",
        422,
        "invalid_matrix",
        "bytes",
        content=b"123",
        headers={"content-type": OCTETS, "x-matmul-dtype": "float32", "x-matmul-shape": "1,1"},
    ),
    Case(
        "octets shape",
        422,
        "invalid_matrix",
        "Shape",
        "X-Matmul-Shape",
        content=b"1234",
        headers={"content-type": OCTETS, "x-matmul-dtype": "float32", "x-matmul-shape": "1;1"},
    ),
    Case(
        "two tensors",
        422,
        "invalid_matrix",
        "one tensor",
        **tensors({"a": tensor(0, 16), "b": tensor(16, 32)}, b"\0" * 32),
    ),
    Case("neither data nor random", 422, "invalid_request", "either", "data", json={}),
    Case("both", 422, "invalid_request", "either", "data", json={"data": ROW, "random": {"shape": [1, 1]}}),
    Case("data of a kind", 422, "invalid_matrix", "rows", "data", json={"data": 3}),
    Case("data ragged", 422, "invalid_matrix", "data[1]", "data[1]", json={"data": [[1, 2], [3]]}),
    Case("upload unknown field", 422, "invalid_request", "shape", "shape", json={"data": ROW, "shape": [1, 2]}),
    Case("upload random huge", 422, "invalid_matrix", "largest", json={"random": {"shape": [10**6, 10**6]}}),
    Case("upload empty", 422, "invalid_matrix", "ends", content=b"", headers={"content-type": NPY}),
    Case(
        "upload text",
        415,
        "unsupported_media_type",
        "text/csv",
        "Content-Type",
        content=b"1,2",
        headers={"content-type": "text/csv"},
    ),
]
for upload in UPLOADS:
    upload.path = "/v1/matrices"
BODIES = [*MEDIA, *FILES, *UPLOADS]
