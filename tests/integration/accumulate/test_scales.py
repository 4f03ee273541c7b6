"""8-bit operands with block scales over HTTP, through the whole service; and what is refused."""

from __future__ import annotations

import json
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest

from jobs.formats.elements import Array
from matmul_client import Client, per_block_cast_to_fp8, per_token_cast_to_fp8
from tests.integration.accumulate.test_api import ASYNC, stored
from tests.integration.api.test_jobs import problem, submit
from tools.harness.api import from_npy, npy
from tools.stack import Stack

JSON = {"prefer": "wait=60"}
FP8 = "float8_e4m3"


def stands_for(values: Array, scales: Array, block: tuple[int, int]) -> Array:
    spread = scales.repeat(block[0], axis=-2).repeat(block[1], axis=-1)[..., : values.shape[-2], : values.shape[-1]]
    numbers: Array = values.astype(np.float64) * spread
    return numbers


@pytest.mark.parametrize("way", ["tensors", "stored", "batch"])
def test_quantized_here_and_multiplied_there(stack: Stack, way: str) -> None:
    """An activation of odd depth by a weight that lies along k, as DeepGEMM's; and a batch by one weight."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 30, 300) if way == "batch" else (150, 300)).astype(np.float32)
    w = rng.standard_normal((260, 300)).astype(np.float32) * 3
    (x8, of_x), (w8, of_w) = per_token_cast_to_fp8(x), per_block_cast_to_fp8(w)
    with Client(stack.url) as client:
        given: dict[str, Any] = {"scale_a": of_x, "scale_b": of_w, "transpose_b": True}
        b: Any = w8
        if way == "stored":
            b, given["scale_b"] = client.upload(w8), client.upload(of_w)
        job = client.submit(x8, b, **given)
        c, record = job.result(), job.status()
        short = client.matmul(x8, b, output_dtype="bfloat16", alpha=2.0, **given)
    true = stands_for(x8, of_x, (1, 128)) @ stands_for(w8, of_w, (128, 128)).T
    np.testing.assert_allclose(c, true, rtol=1e-5, atol=1e-3)
    assert (np.abs(c - x @ w.T) <= 0.13 * (np.abs(x) @ np.abs(w).T)).all()  # two operands of 4 significant bits
    assert record["kernel"] == "cpu_blas" and record["verification"]["passed"]
    assert record["request"]["scale_b"]["shape"] == [3, 3] and record["request"]["scale_a"]["dtype"] == "float32"
    assert short.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(short.astype(np.float64), 2 * true, rtol=2**-7, atol=1e-3)


def test_a_matrix_by_its_own_transpose_is_not_symmetric(stack: Stack) -> None:
    """Scales of both sides differ. The values are larger than what travels in a record, so they are stored once."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((130, 600)).astype(ml_dtypes.float8_e4m3fn)
    scales: dict[str, Any] = {name: rng.uniform(0.5, 2, (130, 5)).astype(np.float32) for name in ("scale_a", "scale_b")}
    with Client(stack.url) as client:
        job = client.submit(x, x, transpose_b=True, **scales)
        c, record = job.result(), job.status()
    assert record["request"]["a"] == record["request"]["b"] and "symmetric" not in record["why"]
    a, b = (stands_for(x, each, (1, 128)) for each in scales.values())
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-3)


def test_lists_and_seeds(client: httpx.Client) -> None:
    """In JSON scales are float32, whatever the operands are rounded to."""
    body = {"a": [[1, 2], [3, 4]], "b": [[1, 0], [0, 1]], "scale_a": [[0.1], [-2]], "scale_b": [[3.0]], "dtype": FP8}
    reply = client.post("/v1/matmul", json=body, headers=JSON).json()
    np.testing.assert_allclose(reply["c"], [[0.3, 0.6], [-18.0, -24.0]], rtol=1e-6)
    name = reply["job"]["request"]["scale_a"]["matrix"]
    assert client.get(f"/v1/matrices/{name}").status_code == 404  # it came with its job, and went with it
    seeds = {name: {"random": {"shape": shape, "seed": 3}} for name, shape in SEEDED.items()}
    reply = client.post("/v1/matmul", json=seeds | {"dtype": FP8}, headers=JSON).json()
    assert reply["job"]["verification"]["passed"] and reply["job"]["request"]["scale_b"]["source"] == "random"


SEEDED = {"a": [5, 200], "b": [200, 7], "scale_a": [5, 2], "scale_b": [2, 7]}


def test_a_scale_that_is_no_number_fails_the_job_in_a_sentence(client: httpx.Client) -> None:
    scales = stored(client, np.array([[np.nan]], np.float32))
    body = {"a": [[1]], "b": [[1]], "scale_a": [[1]], "scale_b": {"matrix": scales}, "dtype": FP8}
    found = problem(client.post("/v1/matmul", json=body, headers=JSON), 422, "operand_out_of_range")
    assert found["detail"] == "scale_b[0, 0] is nan; a scale must be 0, or of a magnitude from 2^-60 to 2^60."


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"scale_b": None}, "scale_b", "scale_a is given without scale_b; both operands have"),
        (
            {"scale_a": [[1, 1, 1]]},
            "scale_a",
            "scale_a is 1×3 but a is 5×200: it must be 5×2, one for each 1×128 block, or 1×2",
        ),
        ({"transpose_a": True, "a": {"random": {"shape": [200, 5]}}}, "scale_a", "a is 200×5: it must be 2×5, one"),
        (
            {"scale_b": [[1]]},
            "scale_b",
            "scale_b is 1×1 but b is 200×7: it must be 2×7, one for each 128×1 block, or 2×1",
        ),
        ({"dtype": "float32"}, "scale_a", "scale_a is for float8_e4m3 operands, and a is float32; leave it out."),
        (
            {"scale_a": {"random": {"shape": [5, 2], "dtype": "float64"}}},
            "scale_a",
            "scale_a is float64; scales must be",
        ),
        ({"scale_a": {"job": "JOB"}}, "scale_a", "scale_a cannot be the product of a job"),
        ({"tolerance": 0.1}, "tolerance", "Nothing is proven of a product with block scales; leave tolerance out."),
        ({"reproducible": True}, "reproducible", "with block scales; leave reproducible out."),
        ({"kernel": "cpu_exact"}, "kernel", "cpu_exact does not take operands with block scales"),
        ({"kernel": "hopper_fp8", "config": {"promote": 0}}, "config", "Block scales are for sums that are promoted"),
        (
            {"kernel": "hopper_fp8", "config": {"block_n": 192}, "scale_b": {"random": {"shape": [2, 1]}}},
            "config",
            "block_n=192 begin within a block of scales",
        ),
        ({"accuracy": "fp64"}, "accuracy", "No kernel multiplies float8_e4m3 operands to fp64"),
    ],
)
def test_what_is_refused(client: httpx.Client, fields: dict[str, Any], field: str, words: str) -> None:
    body = {name: {"random": {"shape": shape}} for name, shape in SEEDED.items()} | {"dtype": FP8}
    sent = body | fields
    if sent["scale_a"] == {"job": "JOB"}:
        made = client.post("/v1/matmul", json={"a": [[1.0]], "b": [[1.0]]}, headers=JSON).json()["job"]["id"]
        sent |= {"scale_a": {"job": made}}
    reply = client.post("/v1/matmul", json=sent, headers=ASYNC)
    assert reply.status_code == 422, reply.text
    assert reply.json()["field"] == field and words in reply.json()["detail"], reply.text


def test_v2_has_no_input_for_scales(client: httpx.Client) -> None:
    inputs = [{"name": name, "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]} for name in ("A", "B")]
    scale = {"name": "SCALE_A", "shape": [2, 1], "datatype": "FP32", "data": [1, 2]}
    refused = client.post("/v2/models/matmul/infer", json={"inputs": [*inputs, scale]})
    assert refused.status_code == 422 and "must be 'A', 'B' or 'C'" in refused.json()["error"]


def test_a_key_is_bound_to_scales_and_a_retry_needs_them(quiet: httpx.Client) -> None:
    one = [[1.0]]
    keyed = ASYNC | {"idempotency-key": "scales"}
    body = {"a": one, "b": one, "scale_a": one, "scale_b": one, "dtype": FP8}
    first = quiet.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"]
    assert quiet.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"] == first
    assert quiet.post("/v1/matmul", json=body | {"scale_b": [[2.0]]}, headers=keyed).status_code == 422
    scales = stored(quiet, np.ones((2, 7), np.float32))
    seeds = {name: {"random": {"shape": shape}} for name, shape in SEEDED.items()}
    job_id = submit(quiet, **seeds | {"scale_b": {"matrix": scales}}, dtype=FP8)
    quiet.post(f"/v1/jobs/{job_id}/cancel")
    assert quiet.delete(f"/v1/matrices/{scales}").status_code == 204
    assert problem(quiet.post(f"/v1/jobs/{job_id}/retry"), 409, "operand_missing")["field"] == "scale_b"


def test_npy_files_carry_scales(client: httpx.Client) -> None:
    """Beside stored operands."""
    ids = {name: stored_fp8(client, np.ones((3, 3))) for name in ("a", "b")}
    options = {name: {"matrix": each} for name, each in ids.items()}
    parts: dict[str, Any] = {"options": (None, json.dumps(options), "application/json")}
    for name, array in {"scale_a": np.full((3, 1), 2.0), "scale_b": np.full((1, 1), 5.0)}.items():
        parts[name] = (f"{name}.npy", npy(array.astype(np.float32)))
    reply = client.post("/v1/matmul", files=parts, headers={"accept": "application/x-npy", "prefer": "wait=60"})
    assert reply.status_code == 200, reply.text
    np.testing.assert_array_equal(from_npy(reply.content), np.full((3, 3), 30.0))


def stored_fp8(client: httpx.Client, numbers: Array) -> str:
    headers = {"content-type": "application/octet-stream", "x-matmul-dtype": FP8, "x-matmul-shape": "3,3"}
    data = numbers.astype(ml_dtypes.float8_e4m3fn).tobytes()
    reply = client.post("/v1/matrices", content=data, headers=headers)
    assert reply.status_code in (200, 201), reply.text
    return str(reply.json()["id"])
