"""Complex products over HTTP, by every way in, through the whole service."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import save

from jobs.formats.elements import Array
from tests.integration.accumulate.test_api import parts, stored
from tests.integration.api.test_jobs import submit
from tools.harness.api import from_npy

RNG = np.random.default_rng(7)
NPY = {"accept": "application/x-npy", "prefer": "wait=60"}
TYPES = ("complex64", "complex128")  # the second is none of safetensors'
Reply = Callable[[httpx.Client, Array, Array, dict[str, Any]], httpx.Response]


def integers(*shape: int, dtype: str = "complex64") -> Array:
    """Small ones: products are exact."""
    return (RNG.integers(-4, 5, shape) + 1j * RNG.integers(-4, 5, shape)).astype(dtype)


def pairs(array: Array) -> Any:
    return array.view(array.real.dtype).reshape(*array.shape, 2).tolist()


def nested(client: httpx.Client, a: Array, b: Array, options: dict[str, Any]) -> httpx.Response:
    body = {"a": pairs(a), "b": pairs(b), "dtype": a.dtype.name, **options}
    return client.post("/v1/matmul", json=body, headers=NPY)


def files(client: httpx.Client, a: Array, b: Array, options: dict[str, Any]) -> httpx.Response:
    """A comes big-endian and column by column."""
    turned = np.asfortranarray(a.astype(a.dtype.newbyteorder(">")))
    return client.post("/v1/matmul", files=parts(options, a=turned, b=b), headers=NPY)


def tensors(client: httpx.Client, a: Array, b: Array, options: dict[str, Any]) -> httpx.Response:
    body = save({"a": a, "b": b}, metadata={"options": json.dumps(options)})
    return client.post("/v1/matmul", content=body, headers=NPY | {"content-type": "application/x-safetensors"})


def raw(client: httpx.Client, a: Array, b: Array, options: dict[str, Any]) -> httpx.Response:
    """Elements alone, stored first."""
    ids = []
    for each in (a, b):
        headers = {"content-type": "application/octet-stream", "x-matmul-dtype": each.dtype.name}
        headers["x-matmul-shape"] = ",".join(map(str, each.shape))
        ids.append(client.post("/v1/matrices", content=each.tobytes(), headers=headers).json()["id"])
    return client.post("/v1/matmul", json={"a": {"matrix": ids[0]}, "b": {"matrix": ids[1]}} | options, headers=NPY)


def chained(client: httpx.Client, a: Array, b: Array, options: dict[str, Any]) -> httpx.Response:
    """A is the product of a job that may still be queued."""
    eye = np.eye(a.shape[1], dtype=a.dtype)
    job = submit(client, a={"matrix": stored(client, a)}, b={"matrix": stored(client, eye)})
    return client.post("/v1/matmul", files=parts(options | {"a": {"job": job}}, b=b), headers=NPY)


@pytest.mark.parametrize(
    ("way", "dtype"),
    [(tensors, "complex64"), *((way, dtype) for way in (nested, files, raw, chained) for dtype in TYPES)],
)
def test_every_way_in(client: httpx.Client, way: Reply, dtype: str) -> None:
    a, b = integers(6, 9, dtype=dtype), integers(11, 9, dtype=dtype)
    reply = way(client, a, b, {"transpose_b": True, "conjugate_b": True, "alpha": [0, 2]})
    assert reply.status_code == 200, reply.text
    product = from_npy(reply.content)
    assert product.dtype == dtype
    np.testing.assert_array_equal(product, 2j * (a @ b.conj().T))
    job = client.get(reply.headers["location"]).json()
    assert job["verification"]["passed"] and job["kernel"] == "cpu_blas"
    assert job["product"] == {"shape": [6, 11], "dtype": dtype, "bytes": 66 * np.dtype(dtype).itemsize}
    flops = 8 * 6 * 11 * 9
    assert job["gflops"] == pytest.approx(flops / job["timing"]["kernel_ms"] / 1e6)


def test_json_out_random_operands_and_a_batch(client: httpx.Client) -> None:
    made = {"a": {"random": {"shape": [2, 3, 4], "seed": 1}}, "b": {"random": {"shape": [4, 5], "seed": 2}}}
    body = made | {"dtype": "complex128", "c": pairs(integers(3, 5, dtype="complex128")), "beta": [0.5, -1]}
    reply = client.post("/v1/matmul", json=body, headers={"prefer": "wait=60"})
    assert reply.status_code == 200, reply.text
    told = np.array(reply.json()["c"])
    assert told.shape == (2, 3, 5, 2)
    address = f"/v1/jobs/{reply.json()['job']['id']}/product"
    again = client.get(address, headers={"accept": "application/x-npy"})
    np.testing.assert_array_equal(told[..., 0] + 1j * told[..., 1], from_npy(again.content))
    refused = client.get(
        f"/v1/jobs/{reply.json()['job']['id']}/product", headers={"accept": "application/x-safetensors"}
    )
    assert refused.status_code == 406 and "safetensors" not in refused.json()["offers"]


def test_infinite_parts_travel_by_name(client: httpx.Client) -> None:
    body = {"a": [[["Infinity", 0], [0, "NaN"]]], "b": [[[1, 0]], [[0, 0]]], "dtype": "complex64"}
    reply = client.post("/v1/matmul", json=body, headers={"prefer": "wait=60"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["c"] == [[["NaN", "NaN"]]]


def test_a_stored_matrix_comes_back(client: httpx.Client) -> None:
    matrix = integers(3, 4)
    of_json = client.post("/v1/matrices", json={"data": pairs(matrix), "dtype": "complex64"}).json()
    assert of_json["id"] == stored(client, matrix) and of_json["dtype"] == "complex64"
    back = client.get(f"/v1/matrices/{of_json['id']}", headers={"accept": "application/x-npy"})
    np.testing.assert_array_equal(np.load(io.BytesIO(back.content)), matrix)
    assert client.get(f"/v1/matrices/{of_json['id']}", headers={"accept": "application/json"}).json() is not None


C64 = "complex64"
ROWS = [[1, 2], [3, 4]]
PAIRS = [[[1, 2], [3, 4]]]
RANDOM = {"random": {"shape": [2, 2]}}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"a": ROWS, "b": ROWS, "dtype": C64}, "a is rows of numbers, but an element of complex64 is a pair"),
        ({"a": PAIRS, "b": [[[1, 2, 3]]], "dtype": C64}, "b[0][0] has 3 entries, but an element"),
        ({"a": PAIRS, "b": [[[1, True]]], "dtype": C64}, "b[0][0][1] is true; a JSON number belongs there"),
        ({"a": PAIRS, "b": [[[1e39, 0]]], "dtype": C64}, "b[0][0][0] is 1e+39, which is too large for float32"),
        ({"a": [[[[[1, 2]]]]], "b": PAIRS, "dtype": C64}, "a is too deep; an operand is a list of rows of pa"),
        ({"a": RANDOM, "b": RANDOM, "alpha": [1, 2]}, "alpha is complex, but products of float32 are real"),
        ({"a": RANDOM, "b": RANDOM, "alpha": [1, 2, 3]}, "alpha: a finite number belongs here, or for complex"),
        (
            {"a": {"random": {"shape": [2, 2], "dtype": C64}}, "b": RANDOM},
            "a is complex64 but b is float32; both operands must have the same element type.",
        ),
        ({"a": RANDOM, "b": RANDOM, "dtype": C64, "kernel": "warp_tiled"}, "warp_tiled does not multiply complex64"),
        ({"a": RANDOM, "b": RANDOM, "dtype": C64, "accuracy": "exact"}, "operands to exact accuracy; there are: fp32."),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(client: httpx.Client, body: dict[str, Any], sentence: str) -> None:
    reply = client.post("/v1/matmul", json=body)
    assert reply.status_code == 422 and sentence in reply.json()["detail"], reply.text


def test_the_inference_protocol_has_no_complex_numbers(client: httpx.Client) -> None:
    inputs = [{"name": name, "shape": [1, 1], "datatype": "COMPLEX64", "data": [1]} for name in "AB"]
    reply = client.post("/v2/models/matmul/infer", json={"inputs": inputs})
    assert reply.status_code == 422, reply.text
    assert "has no complex numbers; send such products to POST /v1/matmul" in reply.text
