"""alpha·A·B + beta·C over HTTP: every way in, through the whole service; and what is refused, with a played worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import save

from jobs.formats.elements import Array
from tests.integration.api.test_jobs import problem, submit
from tools.harness.api import Api, from_npy, npy

RNG = np.random.default_rng(3)
NPY = {"accept": "application/x-npy", "prefer": "wait=60"}
ASYNC = {"prefer": "respond-async"}
FACTORS = {"alpha": 2.0, "beta": -3.0}
Reply = Callable[[httpx.Client, Array, Array, Array], httpx.Response]


def integers(*shape: int, dtype: str = "float32") -> Array:
    """Small ones: products are exact in every type."""
    return RNG.integers(-4, 5, shape).astype(dtype)


def parts(options: dict[str, Any], **arrays: Array) -> dict[str, Any]:
    sent: dict[str, Any] = {name: (f"{name}.npy", npy(array)) for name, array in arrays.items()}
    return {"options": (None, json.dumps(options), "application/json")} | sent


def stored(client: httpx.Client, array: Array) -> str:
    reply = client.post("/v1/matrices", content=npy(array), headers={"content-type": "application/x-npy"})
    return str(reply.json()["id"])


def nested(client: httpx.Client, a: Array, b: Array, c: Array) -> httpx.Response:
    body = {"a": a.tolist(), "b": b.tolist(), "c": c.tolist(), **FACTORS}
    return client.post("/v1/matmul", json=body, headers=NPY)


def files(client: httpx.Client, a: Array, b: Array, c: Array) -> httpx.Response:
    """The options come first, and C last: beta alone is not refused before."""
    return client.post("/v1/matmul", files=parts(FACTORS, a=a, b=b, c=c), headers=NPY)


def tensors(client: httpx.Client, a: Array, b: Array, c: Array) -> httpx.Response:
    body = save({"a": a, "b": b, "c": c}, metadata={"options": json.dumps(FACTORS)})
    return client.post("/v1/matmul", content=body, headers=NPY | {"content-type": "application/x-safetensors"})


def ids(client: httpx.Client, a: Array, b: Array, c: Array) -> httpx.Response:
    operands = {name: {"matrix": stored(client, each)} for name, each in {"a": a, "b": b, "c": c}.items()}
    return client.post("/v1/matmul", json=operands | FACTORS, headers=NPY)


def jobs(client: httpx.Client, a: Array, b: Array, c: Array) -> httpx.Response:
    """C is the product of a job that may still be queued."""
    one = {"a": {"matrix": stored(client, c)}, "b": {"matrix": stored(client, np.eye(len(c[0]), dtype=c.dtype))}}
    options = FACTORS | {"c": {"job": submit(client, **one)}}
    return client.post("/v1/matmul", files=parts(options, a=a, b=b), headers=NPY)


@pytest.mark.parametrize("n", [8, 300])
@pytest.mark.parametrize("way", [nested, files, tensors, ids, jobs])
def test_every_way_in(client: httpx.Client, way: Reply, n: int) -> None:
    if way is nested and n > 8:
        n = 40  # more than a record takes
    a, b, c = integers(n, 9), integers(9, n + 1), integers(n, n + 1)
    reply = way(client, a, b, c)
    assert reply.status_code == 200, reply.text
    np.testing.assert_array_equal(from_npy(reply.content), 2 * (a @ b) - 3 * c)
    request = client.get(reply.headers["location"]).json()["request"]
    assert (request["alpha"], request["beta"], request["c"]["shape"]) == (2.0, -3.0, [n, n + 1])
    if way is jobs:
        assert request["c"]["source"] == "job" and bool(request["c"]["matrix"]) is (n == 300)


def test_the_product_is_called_c_as_ever(client: httpx.Client) -> None:
    body = {"a": [[1, 2]], "b": [[3], [4]], "c": [[100]], "dtype": "int8", "alpha": 2}
    reply = client.post("/v1/matmul", json=body, headers={"prefer": "wait=60"}).json()
    assert reply["c"] == [[122]] and reply["job"]["verification"]["passed"]
    assert reply["job"]["request"]["c"]["dtype"] == "int32"


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32"])
@pytest.mark.parametrize("one", [True, False])
def test_types_and_batches(client: httpx.Client, dtype: str, one: bool) -> None:
    a, b = integers(3, 5, 6, dtype=dtype), integers(6, 7, dtype=dtype)
    c = integers(*((5, 7) if one else (3, 5, 7)), dtype="int32" if dtype == "int8" else dtype)
    reply = client.post("/v1/matmul", files=parts({"alpha": -1}, a=a, b=b, c=c), headers=NPY)
    assert reply.status_code == 200, reply.text
    np.testing.assert_array_equal(from_npy(reply.content), c - a.astype(c.dtype) @ b.astype(c.dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3"])
def test_types_that_numpy_lacks(client: httpx.Client, dtype: str) -> None:
    specs = ({"shape": [4, 4], "seed": seed, "distribution": "integers"} for seed in range(3))
    a, b, c = ({"random": spec} for spec in specs)
    found = [
        client.post("/v1/matmul", json={"a": a, "b": b, "dtype": dtype} | more, headers={"prefer": "wait=60"}).json()
        for more in ({"c": c, "beta": 2}, {}, {"c": c, "alpha": 0})
    ]
    both, product, added = (np.array(reply["c"]) for reply in found)
    assert found[0]["job"]["verification"]["passed"] and product.any() and added.any()
    np.testing.assert_allclose(both, product + 2 * added, rtol=2.0**-8)


def test_c_is_not_read_where_its_factor_is_0(client: httpx.Client) -> None:
    """Not even when it is gone. A product that is scaled alone has no C."""
    a, b = integers(6, 6), integers(6, 6)
    nan = np.full((6, 6), np.nan, np.float32)
    reply = client.post("/v1/matmul", files=parts({"beta": 0, "alpha": 0.5}, a=a, b=b, c=nan), headers=NPY)
    np.testing.assert_array_equal(from_npy(reply.content), a @ b / 2)
    scaled = client.post("/v1/matmul", files=parts({"alpha": 0.5}, a=a, b=b), headers=NPY)
    assert scaled.content == reply.content
    added = client.post("/v1/matmul", files=parts({}, a=a, b=b, c=nan), headers=NPY)
    assert np.isnan(from_npy(added.content)).all()


SEEDED = {"random": {"shape": [3, 4]}}, {"random": {"shape": [4, 2]}}


@pytest.mark.parametrize(
    ("fields", "status", "field", "words"),
    [
        ({"beta": 1.0}, 422, "beta", "beta is given without c; send c, which it multiplies, or leave"),
        ({"c": [[1, 2, 3]]}, 422, "c", "c is 1×3 but the product is 3×2: c must have its shape."),
        ({"c": {"random": {"shape": [3, 2], "dtype": "float64"}}}, 422, "c", "c is float64 but the product of float32"),
        ({"c": {"random": {"shape": [2, 3, 2]}}}, 422, "c", "c is 2×3×2 but the product is 3×2"),
        ({"c": {"matrix": "0" * 64}}, 404, "c", "no matrix"),
        ({"c": {"job": "job_" + "0" * 32}}, 404, "c", "no job"),
        ({"c": None, "beta": 1}, 422, "beta", "beta is given without c"),
        ({"c": "abc"}, 422, "c", "c must be a list of rows of numbers"),
        ({"alpha": "2"}, 422, "alpha", "alpha"),
        ({"gamma": 1}, 422, "gamma", "There is no field gamma"),
        ({"alpha": 0.5, "dtype": "int8"}, 422, "alpha", "alpha is 0.5, but products of int8 are of integers"),
    ],
)
def test_what_is_refused(quiet: httpx.Client, fields: dict[str, Any], status: int, field: str, words: str) -> None:
    spec = {"distribution": "integers"} if fields.get("dtype") == "int8" else {}
    a, b = ({"random": each["random"] | spec} for each in SEEDED)
    reply = quiet.post("/v1/matmul", json={"a": a, "b": b} | fields, headers=ASYNC)
    assert reply.status_code == status, reply.text
    assert reply.json()["field"] == field and words in reply.json()["detail"]


def test_another_part_or_tensor_is_refused(quiet: httpx.Client) -> None:
    one = np.ones((2, 2), np.float32)
    reply = quiet.post("/v1/matmul", files=parts({}, a=one, b=one, d=one), headers=ASYNC)
    assert (
        "the parts are a, b, c, bias, scale_a, scale_b and options" in problem(reply, 422, "invalid_request")["detail"]
    )
    sent = {"content-type": "application/x-safetensors"} | ASYNC
    known = dict.fromkeys(("a", "b", "c", "bias", "scale_a", "scale_b"), one)
    reply = quiet.post("/v1/matmul", content=save(known | {"zz": one}), headers=sent)
    refused = problem(reply, 422, "invalid_matrix")
    assert "must hold the tensors a, b, and may hold c, bias" in refused["detail"]
    assert refused["field"] == "zz" and "; it has 'zz', " in refused["detail"]


def test_a_key_is_bound_to_all_of_it(quiet: httpx.Client) -> None:
    one = [[1.0]]
    keyed = ASYNC | {"idempotency-key": "accumulates"}
    body = {"a": one, "b": one, "c": one}
    first = quiet.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"]
    assert quiet.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"] == first
    for other in ({"alpha": 2}, {"beta": 2}, {"c": [[2.0]]}):
        assert quiet.post("/v1/matmul", json=body | other, headers=keyed).status_code == 422


def test_a_retry_needs_c(api: Api, quiet: httpx.Client) -> None:
    big = stored(quiet, np.ones((30, 30), np.float32))
    seeded = {"random": {"shape": [30, 30]}}
    job_id = submit(quiet, a=seeded, b=seeded, c={"matrix": big})
    quiet.post(f"/v1/jobs/{job_id}/cancel")
    assert quiet.delete(f"/v1/matrices/{big}").status_code == 204
    assert problem(quiet.post(f"/v1/jobs/{job_id}/retry"), 409, "operand_missing")["field"] == "c"
