"""Grouped products over HTTP, through the whole service; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from jobs.formats.elements import Array
from matmul_client import Client
from matmul_client.cli.commands import matmul
from tests.integration.accumulate.test_api import ASYNC, stored
from tools.harness.api import from_npy, npy
from tools.stack import Stack

JSON = {"prefer": "wait=60"}
SIZES = (3, 0, 5, 1)


def by_groups(a: Array, b: Array, sizes: tuple[int, ...] = SIZES) -> Array:
    parts = np.split(a.astype(np.float64), np.cumsum(sizes)[:-1])
    return np.concatenate([part @ matrix.astype(np.float64) for part, matrix in zip(parts, b, strict=True)])


def operands(dtype: Any = np.float32, k: int = 20, n: int = 6) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-8, 8, (sum(SIZES), k)), rng.integers(-8, 8, (len(SIZES), k, n))
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128, ml_dtypes.bfloat16], ids=str)
def test_each_row_has_its_own_matrix(stack: Stack, dtype: Any) -> None:
    """Arrays and stored matrices; B also as it lies along k. The record says what was multiplied."""
    a, b = operands(dtype, k=7)
    with Client(stack.url) as client:
        job = client.submit(a, b, group_sizes=SIZES)
        c, record = job.result(), job.status()
        weights = client.upload(np.ascontiguousarray(b.swapaxes(1, 2)))
        again = client.matmul(a, weights.T, group_sizes=np.array(SIZES))
    expected = by_groups(a, b) if dtype != np.complex128 else by_groups(a.real, b.real)
    np.testing.assert_array_equal(c.astype(np.complex128), expected.astype(c.dtype).astype(np.complex128))
    np.testing.assert_array_equal(again, c)
    assert record["request"]["group_sizes"] == [*SIZES] and record["product"]["shape"] == [9, 6]
    assert record["verification"]["passed"] and record["batch"] == 1
    if dtype == np.float32:
        assert record["why"] == "auto: cpu_blas is the first kernel here that takes group_sizes."


def test_lists_seeds_files_and_jobs(client: httpx.Client) -> None:
    body: dict[str, Any] = {"a": [[1, 2], [3, 4], [5, 6]], "b": [[[1], [1]], [[10], [0]]], "group_sizes": [1, 2]}
    reply = client.post("/v1/matmul", json=body, headers=JSON).json()
    assert reply["c"] == [[3.0], [30.0], [50.0]]
    seeds = {"a": {"random": {"shape": [9, 300]}}, "b": {"random": {"shape": [4, 300, 200]}}, "group_sizes": SIZES}
    job = client.post("/v1/matmul", json=seeds, headers=JSON).json()["job"]
    assert job["verification"]["passed"] and job["gflops"] > 0
    page = client.get(f"/ui/jobs/{job['id']}")
    assert page.status_code == 200 and "group_sizes" in page.text and "/ui/multiply?" not in page.text
    chained = {"a": {"job": job["id"]}, "b": {"random": {"shape": [2, 200, 3]}}, "group_sizes": [0, 9]}
    assert client.post("/v1/matmul", json=chained, headers=JSON).json()["job"]["verification"]["passed"]
    a, b = operands()
    parts = {"options": (None, json.dumps({"group_sizes": SIZES, "b": {"matrix": stored(client, b)}}))}
    files: dict[str, Any] = parts | {"a": ("a.npy", npy(a))}
    reply = client.post("/v1/matmul", files=files, headers={"accept": "application/x-npy", "prefer": "wait=60"})
    np.testing.assert_array_equal(from_npy(reply.content), by_groups(a, b))


def test_the_command(stack: Stack, tmp_path: Path) -> None:
    a, b = operands()
    for name, array in {"a": a, "b": b}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [str(tmp_path / f"{name}.npy") for name in "abc"]
    asked = ["multiply", *files[:2], "--group-sizes", "3,0,5,1", "-o", files[2]]
    done = CliRunner().invoke(matmul, asked, env={"MATMUL_URL": stack.url})
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load(files[2]), by_groups(a, b))
    refused = CliRunner().invoke(matmul, [*asked[:3], "--group-sizes", "3,x"], env={"MATMUL_URL": stack.url})
    assert refused.exit_code == 2 and "3,x is not a list of whole numbers, such as 3,0,5." in refused.output


def test_jobs_with_other_groups_are_other_jobs(client: httpx.Client) -> None:
    keyed = ASYNC | {"idempotency-key": "groups"}
    body: dict[str, Any] = {"a": [[1.0], [2.0]], "b": [[[1.0]], [[3.0]]], "group_sizes": [1, 1]}
    first = client.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"]
    assert client.post("/v1/matmul", json=body, headers=keyed).json()["job"]["id"] == first
    assert client.post("/v1/matmul", json=body | {"group_sizes": [2, 0]}, headers=keyed).status_code == 422


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"group_sizes": [1, 2]}, "group_sizes", "group_sizes add up to 3 but a has 4 rows; each row of a must be"),
        ({"group_sizes": [4]}, "group_sizes", "group_sizes has 1 numbers but b has 2 matrices; there must be one for"),
        ({"group_sizes": [5, -1]}, "group_sizes.1", "greater than or equal to 0"),
        ({"group_sizes": [1] * 1025}, "group_sizes", "has 1025 groups, and there may be 1024; send several requests."),
        ({"b": {"random": {"shape": [5, 3]}}}, "b", "b is 5×3, but with group_sizes it is a batch of matrices"),
        ({"a": {"random": {"shape": [2, 4, 5]}}}, "a", "a is 2×4×5, but with group_sizes it has rows and columns"),
        ({"b": {"random": {"shape": [2, 6, 3]}}}, "b", "a's columns must equal b's rows"),
        ({"a": {"random": {"shape": [0, 5]}}, "group_sizes": [0, 0]}, "a", ""),
        ({"transpose_a": True}, "transpose_a", "A product with group_sizes has no transpose_a; leave one of them out."),
        ({"alpha": 2}, "alpha", "has no alpha"),
        ({"activation": "relu"}, "activation", "has no activation"),
        ({"reproducible": True}, "reproducible", "has no reproducible"),
        ({"c": {"random": {"shape": [4, 3]}}}, "c", "has no c"),
        ({"bias": {"random": {"shape": [1, 3]}}}, "bias", "has no bias"),
        ({"kernel": "naive"}, "kernel", "naive does not take group_sizes for float32; take another kernel"),
    ],
)
def test_what_is_refused(client: httpx.Client, fields: dict[str, Any], field: str, words: str) -> None:
    body = {"a": {"random": {"shape": [4, 5]}}, "b": {"random": {"shape": [2, 5, 3]}}, "group_sizes": [1, 3]}
    reply = client.post("/v1/matmul", json=body | fields, headers=ASYNC)
    assert reply.status_code == 422, reply.text
    assert reply.json()["field"].startswith(field) and words in reply.json()["detail"], reply.text


def test_a_dry_run_says_which_kernel(client: httpx.Client) -> None:
    body = {"a": {"random": {"shape": [4, 5]}}, "b": {"random": {"shape": [2, 5, 3]}}, "group_sizes": [1, 3]}
    told = client.post("/v1/matmul?dry_run=true", json=body).json()
    assert told["kernel"] == "cpu_blas" and "group_sizes" in told["why"]
