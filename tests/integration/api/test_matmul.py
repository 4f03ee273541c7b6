"""POST /v1/matmul end to end: real HTTP, a real worker, every way in and every way out."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import load, save

from jobs.formats import float8
from jobs.formats.bfloat16 import narrow, widen
from jobs.formats.elements import Array
from jobs.formats.safetensors import safetensors_header
from tools.harness.api import from_npy, npy

RNG = np.random.default_rng(0)
A = RNG.standard_normal((37, 53)).astype(np.float32)
B = RNG.standard_normal((53, 29)).astype(np.float32)
NPY = {"accept": "application/x-npy"}


def files(a: Array, b: Array, **options: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {"a": ("a.npy", npy(a)), "b": ("b.npy", npy(b))}
    return parts | ({"options": (None, json.dumps(options), "application/json")} if options else {})


def right(reply: httpx.Response) -> httpx.Response:
    assert reply.status_code == 200, reply.text
    return reply


def test_json_in_and_out(client: httpx.Client) -> None:
    reply = right(client.post("/v1/matmul", json={"a": [[1, 2], [3, 4]], "b": [[5, 6], [7, 8]]}))
    document = reply.json()
    assert document["c"] == [[19, 22], [43, 50]]
    job = document["job"]
    assert (job["state"], job["kernel"], job["attempt"]) == ("succeeded", "cpu_blas", 1)
    assert job["product"] == {"shape": [2, 2], "dtype": "float32", "bytes": 16}
    assert job["verification"]["passed"]
    assert job["verification"]["residual"] <= job["verification"]["threshold"]
    assert job["timing"].keys() == {"queue_ms", "h2d_ms", "kernel_ms", "d2h_ms", "total_ms"}
    assert reply.headers["location"] == f"/v1/jobs/{job['id']}"
    assert client.get(reply.headers["location"]).json() == job


def test_integers_come_back_as_they_are(client: httpx.Client) -> None:
    reply = right(client.post("/v1/matmul", json={"a": [[16777217, -3]], "b": [[1], [0]]})).json()
    assert (reply["c"], reply["job"]["product"]["dtype"]) == ([[16777217]], "float64")
    stored = client.post("/v1/matrices", json={"data": [[16777217]]}).json()
    asked = {"a": {"matrix": stored["id"]}, "b": [[16777217]]}
    assert right(client.post("/v1/matmul", json=asked)).json()["c"] == [[16777217**2]]
    refused = client.post("/v1/matmul", json={"a": [[2**53 + 1]], "b": [[1]]})
    assert refused.status_code == 422 and "a[0][0] is 9007199254740993" in refused.json()["detail"]


def test_files_in_and_out(client: httpx.Client) -> None:
    reply = right(client.post("/v1/matmul", files=files(A, B), headers=NPY))
    np.testing.assert_allclose(from_npy(reply.content), A @ B, rtol=1e-4, atol=1e-4)
    timing = re.findall(r"(\w+);dur=[\d.]+", reply.headers["server-timing"])
    assert timing == ["queue", "h2d", "kernel", "d2h", "total"]
    assert reply.headers["location"].startswith("/v1/jobs/job_")


@pytest.mark.parametrize("order", [("a", "b", "options"), ("options", "b", "a"), ("b", "options", "a")])
def test_parts_in_any_order(client: httpx.Client, order: tuple[str, ...]) -> None:
    parts = files(A.T.copy(), B, transpose_a=True)
    reply = right(client.post("/v1/matmul", files=[(name, parts[name]) for name in order], headers=NPY))
    np.testing.assert_allclose(from_npy(reply.content), A @ B, rtol=1e-4, atol=1e-4)


def test_safetensors_in_and_out(client: httpx.Client) -> None:
    body = save({"a": A.T.copy(), "b": B}, metadata={"options": json.dumps({"transpose_a": True})})
    both = {"content-type": "application/x-safetensors", "accept": "application/x-safetensors"}
    reply = right(client.post("/v1/matmul", content=body, headers=both))
    np.testing.assert_allclose(load(reply.content)["c"], A @ B, rtol=1e-4, atol=1e-4)


def test_octets_out(client: httpx.Client) -> None:
    reply = right(client.post("/v1/matmul", files=files(A, B), headers={"accept": "application/octet-stream"}))
    assert (reply.headers["x-matmul-dtype"], reply.headers["x-matmul-shape"]) == ("float32", "37,29")
    np.testing.assert_allclose(np.frombuffer(reply.content, "<f4").reshape(37, 29), A @ B, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        (A.astype(">f4"), np.asfortranarray(B), "float32"),
        (A.astype(np.float64), B.astype(np.float64), "float64"),
        (A.astype(np.float16), B.astype(np.float16), "float16"),
        (np.asfortranarray(RNG.integers(-9, 9, (5, 7), np.int8)), RNG.integers(-9, 9, (7, 3), np.int8), "int32"),
        (RNG.integers(-9, 9, (5, 7)).astype(">i4"), RNG.integers(-9, 9, (7, 3)).astype(np.int32), "int32"),
    ],
    ids=["big-endian and Fortran", "float64", "float16", "int8", "int32"],
)
def test_element_types_and_orders(client: httpx.Client, a: Array, b: Array, dtype: str) -> None:
    product = from_npy(right(client.post("/v1/matmul", files=files(a, b), headers=NPY)).content)
    assert product.dtype == dtype
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(product, expected, rtol=5e-3 if dtype == "float16" else 1e-4, atol=0.05)


def test_bfloat16(client: httpx.Client) -> None:
    """By safetensors and JSON; npy has no such type and is refused before any work is done."""
    a, b = narrow(A), narrow(B)
    body = safetensors_header({"a": ("bfloat16", a.shape), "b": ("bfloat16", b.shape)}) + a.tobytes() + b.tobytes()
    kind = {"content-type": "application/x-safetensors"}
    reply = client.post("/v1/matmul", content=body, headers=kind | {"accept": "application/octet-stream"})
    product = widen(np.frombuffer(right(reply).content, "<u2").reshape(37, 29))
    np.testing.assert_allclose(product, widen(a) @ widen(b), rtol=1e-2, atol=0.05)
    assert np.asarray(right(client.post("/v1/matmul", content=body, headers=kind)).json()["c"]).shape == (37, 29)
    refused = client.post("/v1/matmul", content=body, headers=kind | NPY)
    assert (refused.status_code, refused.json()["type"]) == (406, "/problems/not_acceptable")


def test_float8(client: httpx.Client) -> None:
    """By safetensors; the product is float32, which every media type carries."""
    a, b = float8.narrow(A), float8.narrow(B)
    head = safetensors_header({"a": ("float8_e4m3", a.shape), "b": ("float8_e4m3", b.shape)})
    kind = {"content-type": "application/x-safetensors"}
    reply = right(client.post("/v1/matmul", content=head + a.tobytes() + b.tobytes(), headers=kind | NPY))
    product = from_npy(reply.content)
    assert product.dtype == np.float32
    np.testing.assert_allclose(product, float8.widen(a) @ float8.widen(b), rtol=1e-4, atol=1e-4)


def test_a_batch_and_one_matrix_for_all_of_it(client: httpx.Client) -> None:
    batch = RNG.standard_normal((4, 6, 53)).astype(np.float32)
    product = from_npy(right(client.post("/v1/matmul", files=files(batch, B), headers=NPY)).content)
    np.testing.assert_allclose(product, batch @ B, rtol=1e-4, atol=1e-4)


def test_references_and_seeds(client: httpx.Client) -> None:
    stored = client.post("/v1/matrices", content=npy(A), headers={"content-type": "application/x-npy"}).json()["id"]
    gram = {"a": {"matrix": stored}, "b": {"matrix": stored}, "transpose_b": True}
    product = from_npy(right(client.post("/v1/matmul", json=gram, headers=NPY)).content)
    np.testing.assert_allclose(product, A @ A.T, rtol=1e-4, atol=1e-4)
    random = {"random": {"shape": [53, 8], "seed": 5}}
    seeded = right(client.post("/v1/matmul", json={"a": {"matrix": stored}, "b": random}, headers=NPY)).content
    one_file: dict[str, Any] = {
        "b": ("b.npy", npy(B)),
        "options": (None, json.dumps({"a": {"matrix": stored}}), "application/json"),
    }
    mixed = from_npy(right(client.post("/v1/matmul", files=one_file, headers=NPY)).content)
    np.testing.assert_allclose(mixed, A @ B, rtol=1e-4, atol=1e-4)
    again = right(client.post("/v1/matmul", json={"a": {"matrix": stored}, "b": random}, headers=NPY)).content
    assert seeded == again


def test_a_product_is_an_operand(client: httpx.Client) -> None:
    first = right(client.post("/v1/matmul", json={"a": [[1, 2], [3, 4]], "b": [[1, 0], [0, 1]]})).json()["job"]["id"]
    square = {"matrix": first.replace("job_", "c_") + "_1"}
    assert right(client.post("/v1/matmul", json={"a": square, "b": square})).json()["c"] == [[7, 10], [15, 22]]


def test_nothing_to_sum_gives_zeros(client: httpx.Client) -> None:
    empty = files(np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32))
    np.testing.assert_array_equal(from_npy(right(client.post("/v1/matmul", files=empty, headers=NPY)).content), 0)


def test_nan_and_infinity(client: httpx.Client) -> None:
    """By IEEE rules; JSON carries them as strings, both ways."""
    body = {"a": [["NaN", 0], ["Infinity", 0], ["-Infinity", 0], [2, 0]], "b": [[1, 0], [0, 1]]}
    expected = [["NaN", "NaN"], ["Infinity", "NaN"], ["-Infinity", "NaN"], [2.0, 0.0]]
    assert right(client.post("/v1/matmul", json=body)).json()["c"] == expected


def test_a_large_product_is_left_out_of_json(client: httpx.Client) -> None:
    wide = {"a": {"random": {"shape": [1100, 1]}}, "b": {"random": {"shape": [1, 1100]}}}
    reply = right(client.post("/v1/matmul", json=wide)).json()
    assert reply["c"] is None
    product = right(client.get(f"/v1/jobs/{reply['job']['id']}/product"))
    assert from_npy(product.content).shape == (1100, 1100)


def test_large_files_are_streamed(client: httpx.Client) -> None:
    """In many batches, out in many pieces, and a Fortran-order one transposed on its way."""
    a = RNG.standard_normal((1800, 1500)).astype(np.float32)
    b = np.asfortranarray(RNG.standard_normal((1500, 1700)).astype(np.float32))
    product = from_npy(right(client.post("/v1/matmul", files=files(a, b), headers=NPY)).content)
    np.testing.assert_allclose(product, a @ b, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("chunk_bytes", [7, 1000, 100_000])
def test_chunked_bodies(client: httpx.Client, chunk_bytes: int) -> None:
    request = client.build_request("POST", "/v1/matmul", files=files(A, B), headers=NPY)
    body = io.BytesIO(request.read())
    chunks = iter(lambda: body.read(chunk_bytes), b"")
    headers = NPY | {"content-type": request.headers["content-type"]}
    reply = right(client.post("/v1/matmul", content=chunks, headers=headers))
    np.testing.assert_allclose(from_npy(reply.content), A @ B, rtol=1e-4, atol=1e-4)


def test_kernel_and_check_are_as_asked(client: httpx.Client) -> None:
    asked = {"a": [[1]], "b": [[2]], "kernel": "cpu_blas", "verify": "off", "dtype": "float64", "accuracy": "fp32"}
    job = right(client.post("/v1/matmul", json=asked)).json()["job"]
    assert job["request"]["accuracy"] == "fp32"
    assert job["verification"] == {"method": "off", "residual": None, "threshold": None, "passed": None}
    assert job["why"] == "cpu_blas was asked for."
