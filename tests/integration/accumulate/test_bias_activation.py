"""A bias, an activation and an output type over HTTP, through the whole service; and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import save

from jobs.formats.elements import Array
from kernels.model.activations import ACTIVATION_NAMES, ActivationName
from tests.integration.accumulate.test_api import ASYNC, NPY, integers, parts, stored
from tests.integration.api.test_jobs import problem, submit
from tools.harness.api import from_npy

JSON = {"prefer": "wait=60"}


def exact(activation: ActivationName | None, x: float) -> float:
    match activation:
        case "relu":
            return max(x, 0.0)
        case "gelu":
            return 0.5 * x * math.erfc(-x / math.sqrt(2.0))
        case "gelu_tanh":
            return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
        case "silu":
            return x / (1.0 + math.exp(-x))
    return x


def of_all(activation: ActivationName | None, x: Array) -> Array:
    values = [exact(activation, each) for each in x.astype(np.float64).reshape(-1).tolist()]
    return np.array(values).reshape(x.shape)


@pytest.mark.parametrize("way", ["nested", "flat", "files", "tensors", "ids", "random"])
def test_every_way_in(client: httpx.Client, way: str) -> None:
    """The smallest case, and one whose matrices are all in the store."""
    n = 8 if way in ("nested", "flat") else 200
    a, b, c, bias = integers(n, 9), integers(9, n + 1), integers(n, n + 1), integers(1, n + 1)
    options: dict[str, Any] = {"activation": "relu", "alpha": 0.5, "beta": 2.0}
    if way == "tensors":
        body = save({"a": a, "b": b, "c": c, "bias": bias}, metadata={"options": json.dumps(options)})
        headers = NPY | {"content-type": "application/x-safetensors"}
        reply = client.post("/v1/matmul", content=body, headers=headers)
    elif way in ("nested", "flat"):
        given = bias.tolist() if way == "nested" else bias[0].tolist()
        lists = {"a": a.tolist(), "b": b.tolist(), "c": c.tolist(), "bias": given}
        reply = client.post("/v1/matmul", json=lists | options, headers=NPY)
    elif way == "files":
        reply = client.post("/v1/matmul", files=parts(options, a=a, b=b, c=c, bias=bias), headers=NPY)
    else:
        named: dict[str, Any] = {"matrix": stored(client, bias)}
        if way == "random":
            named = {"random": {"shape": [1, n + 1], "seed": 5, "distribution": "integers"}}
            one = {"a": {"random": {"shape": [1, 1]}}, "b": {"random": {"shape": [1, n + 1]}}, "alpha": 0, "c": named}
            bias = from_npy(client.post("/v1/matmul", json=one, headers=NPY).content)
        reply = client.post("/v1/matmul", files=parts(options | {"bias": named}, a=a, b=b, c=c), headers=NPY)
    assert reply.status_code == 200, reply.text
    np.testing.assert_array_equal(from_npy(reply.content), np.maximum(0.5 * (a @ b) + 2 * c + bias, 0))
    record = client.get(reply.headers["location"]).json()
    assert record["request"]["bias"]["shape"] == [1, n + 1] and record["request"]["activation"] == "relu"
    assert record["verification"]["passed"]


@pytest.mark.parametrize("activation", [None, *ACTIVATION_NAMES])
def test_activations_and_output_types(client: httpx.Client, activation: ActivationName | None) -> None:
    """Of 16-bit operands the sum is not rounded to 16 bits before it is delivered as float32; shorter types are rounded
    once."""
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((3, 5, 40), (40, 7)))
    bias = rng.standard_normal((5, 1)).astype(np.float32)
    options = {"output_dtype": "float32", "activation": activation}
    reply = client.post("/v1/matmul", files=parts(options, a=a, b=b, bias=bias), headers=NPY)
    assert reply.status_code == 200, reply.text
    found, total = from_npy(reply.content), a.astype(np.float64) @ b.astype(np.float64) + bias
    assert found.dtype == np.float32 and found.shape == (3, 5, 7)
    np.testing.assert_allclose(found, of_all(activation, total), rtol=1e-5, atol=1e-5)
    options = {"output_dtype": "float16", "activation": activation}
    wide = parts(options, a=a.astype(np.float32), b=b.astype(np.float32), bias=bias)
    short = from_npy(client.post("/v1/matmul", files=wide, headers=NPY).content)
    assert short.dtype == np.float16
    np.testing.assert_array_max_ulp(short, found.astype(np.float16), 1)


def test_a_chain_takes_what_is_delivered(client: httpx.Client) -> None:
    """Two layers of a network in 16 bits, the second from the first one's product."""
    rng = np.random.default_rng(8)
    x, one, two = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 20), (20, 30), (30, 4)))
    of = {name: {"matrix": stored(client, each)} for name, each in {"x": x, "one": one}.items()}
    short = stored(client, two.astype(np.float16))
    first = submit(client, a=of["x"], b=of["one"], activation="silu", output_dtype="float16")
    body = {"a": {"job": first}, "b": {"matrix": short}, "output_dtype": "float32"}
    reply = client.post("/v1/matmul", json=body, headers=JSON).json()
    assert reply["job"]["product"]["dtype"] == "float32" and reply["job"]["request"]["a"]["dtype"] == "float16"
    hidden = of_all("silu", (x.astype(np.float64) @ one)).astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(reply["c"], hidden @ two.astype(np.float16), rtol=2e-2, atol=2e-2)


def test_integers_have_a_bias(client: httpx.Client) -> None:
    body = {"a": [[1, 2], [3, 4]], "b": [[5], [6]], "bias": [[2147483647], [1]], "dtype": "int32"}
    assert client.post("/v1/matmul", json=body, headers=JSON).json()["c"] == [[17 + 2**31 - 1 - 2**32], [40]]


SEEDED = {"random": {"shape": [3, 4]}}, {"random": {"shape": [4, 2]}}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"bias": [1, 2, 3]}, "bias", "bias is 1×3 but the product is 3×2: bias must be 1×2, to be added to every row"),
        ({"bias": {"random": {"shape": [1, 1, 2]}}}, "bias", "bias is 1×1×2 but"),
        ({"bias": {"random": {"shape": [1, 2], "dtype": "float64"}}}, "bias", "bias is float64 but the product of"),
        ({"bias": {"job": "JOB"}}, "bias", "bias cannot be the product of a job; fetch that, and send it."),
        ({"bias": {"matrix": "PRODUCT"}}, "bias", "bias cannot be the product of a job"),
        ({"bias": "abc"}, "bias", "bias must be a list of rows of numbers"),
        ({"activation": "tanh"}, "activation", "activation must be 'relu', 'gelu', 'gelu_tanh' or 'silu'."),
        ({"activation": "relu", "dtype": "int8"}, "activation", "products of int8 operands are not of real floats"),
        ({"activation": "relu", "dtype": "complex64"}, "activation", "products of complex64 operands are not of real"),
        ({"bias": {"random": {"shape": [1, 2]}}, "dtype": "complex64"}, "bias", "A bias is for real products"),
        (
            {"output_dtype": "float64"},
            "output_dtype",
            "product of float32 operands may be float32, float16 or bfloat16.",
        ),
        ({"output_dtype": "float32", "dtype": "int8"}, "output_dtype", "the product of int8 operands is int32."),
        (
            {"output_dtype": "bfloat16", "dtype": "float16"},
            "output_dtype",
            "float16 operands may be float16 or float32.",
        ),
        ({"tolerance": 1e-3, "activation": "relu"}, "tolerance", "Nothing is proven of a float32 product with an act"),
        (
            {"reproducible": True, "output_dtype": "float16"},
            "reproducible",
            "with the type float16; leave reproducible",
        ),
        ({"reproducible": True, "bias": [1, 2]}, "bias", "Nothing is proven of a product with a bias; add it as c"),
        (
            {"dtype": "float16", "output_dtype": "float32", "kernel": "hopper_fp16"},
            "kernel",
            "nor 16-bit ones with output_dtype float32, which are multiplied as float32",
        ),
    ],
)
def test_what_is_refused(client: httpx.Client, fields: dict[str, Any], field: str, words: str) -> None:
    spec = {"distribution": "integers"} if fields.get("dtype") == "int8" else {}
    a, b = ({"random": each["random"] | spec} for each in SEEDED)
    made = client.post("/v1/matmul", json={"a": [[1.0]], "b": [[1.0, 2.0]]}, headers=JSON).json()["job"]
    product = "c_" + made["id"].removeprefix("job_") + "_1"
    sent = json.loads(json.dumps(fields).replace("JOB", made["id"]).replace("PRODUCT", product))
    reply = client.post("/v1/matmul", json={"a": a, "b": b} | sent, headers=ASYNC)
    assert reply.status_code == 422, reply.text
    assert reply.json()["field"] == field and words in reply.json()["detail"]


def test_parameters_of_v2(client: httpx.Client) -> None:
    inputs = [{"name": name, "shape": [2, 2], "datatype": "FP32", "data": [1, -2, 3, 4]} for name in "AB"]
    asked = {"inputs": inputs, "parameters": {"activation": "relu", "output_dtype": "float16", "alpha": -1}}
    (output,) = client.post("/v2/models/matmul/infer", json=asked).json()["outputs"]
    assert (output["datatype"], output["data"]) == ("FP16", [5.0, 10.0, 0.0, 0.0])
    bias = {"name": "BIAS", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    refused = client.post("/v2/models/matmul/infer", json={"inputs": [*inputs, bias]})
    assert refused.status_code == 422 and "must be 'A', 'B' or 'C'" in refused.json()["error"]


def test_a_key_is_bound_to_all_of_it(quiet: httpx.Client) -> None:
    """A bias is no C, though their elements are the same."""
    one = [[1.0]]
    keyed = ASYNC | {"idempotency-key": "finishes"}
    body = {"a": one, "b": one, "bias": one}
    first = quiet.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"]
    assert quiet.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"] == first
    for other in ({"activation": "relu"}, {"output_dtype": "float16"}, {"bias": [[2.0]]}, {"bias": None, "c": one}):
        assert quiet.post("/v1/matmul", json=body | other, headers=keyed).status_code == 422


def test_a_retry_needs_the_bias(quiet: httpx.Client) -> None:
    row, seeded = stored(quiet, np.ones((1, 30), np.float32)), {"random": {"shape": [30, 30]}}
    job_id = submit(quiet, a=seeded, b=seeded, bias={"matrix": row})
    quiet.post(f"/v1/jobs/{job_id}/cancel")
    assert quiet.delete(f"/v1/matrices/{row}").status_code == 204
    assert problem(quiet.post(f"/v1/jobs/{job_id}/retry"), 409, "operand_missing")["field"] == "bias"


def test_a_bias_that_came_with_its_job_goes_with_it(client: httpx.Client) -> None:
    reply = client.post("/v1/matmul", json={"a": [[1, 2]], "b": [[3], [4]], "bias": [-20]}, headers=JSON).json()
    assert reply["c"] == [[-9]] and reply["job"]["request"]["bias"]["source"] == "inline"
    name = reply["job"]["request"]["bias"]["matrix"]
    assert client.get(f"/v1/matrices/{name}").status_code == 404
