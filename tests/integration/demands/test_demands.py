"""`tolerance` and `reproducible` over HTTP: a real worker chooses, and its record says what is proven."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import save

from jobs.formats.elements import Array
from tests.support.exact import correctly_rounded
from tools.harness.api import from_npy, npy

RNG = np.random.default_rng(5)
A = RNG.standard_normal((9, 40)).astype(np.float32)
B = RNG.standard_normal((40, 7)).astype(np.float32)
OPERANDS = {"a": A.tolist(), "b": B.tolist(), "dtype": "float32"}
NPY = {"accept": "application/x-npy"}


def multiplied(client: httpx.Client, **options: Any) -> dict[str, Any]:
    reply = client.post("/v1/matmul", json=OPERANDS | options)
    assert reply.status_code == 200, reply.text
    record: dict[str, Any] = reply.json()["job"]
    return record


@pytest.mark.parametrize(
    ("tolerance", "kernel", "bound"),
    [(1e-4, "cpu_blas", 40 * 2.0**-24), (1e-7, "cpu_float64", 2.0**-24), (2.0**-24, "cpu_exact", 2.0**-24)],
)
def test_the_cheapest_kernel_that_is_proven(client: httpx.Client, tolerance: float, kernel: str, bound: float) -> None:
    record = multiplied(client, tolerance=tolerance)
    assert (record["kernel"], record["error_bound"]["kind"]) == (kernel, "componentwise")
    assert record["error_bound"]["value"] == pytest.approx(bound, rel=1e-4)
    assert bound <= record["error_bound"]["value"] <= tolerance
    assert client.get(f"/v1/jobs/{record['id']}").json() == record


def test_what_operands_are_like_decides(client: httpx.Client) -> None:
    """With terms that underflow, or sums that might overflow, float32's bound does not hold."""
    tiny = multiplied(client, tolerance=1e-4, a=(A * np.float32(2.0**-120)).tolist())
    assert (tiny["kernel"], tiny["request"]["tolerance"]) == ("cpu_float64", 1e-4)
    huge = multiplied(client, tolerance=1e-4, a=(A * np.float32(2.0**124)).tolist())
    assert huge["kernel"] == "cpu_float64" and huge["error_bound"]["value"] < 1e-7
    norms = multiplied(client, tolerance=1e-4, tolerance_kind="normwise", a=np.where(A > 2, A * 1e-30, A).tolist())
    assert (norms["kernel"], norms["error_bound"]["kind"]) == ("cpu_blas", "normwise")


def refused(reply: httpx.Response, status: int = 422) -> tuple[str, str]:
    assert reply.status_code == status, reply.text
    return reply.json()["field"], reply.json()["detail"]


def test_what_cannot_be_met_is_refused_with_the_best_there_is(client: httpx.Client) -> None:
    field, detail = refused(client.post("/v1/matmul", json=OPERANDS | {"tolerance": 1e-9}))
    assert field == "tolerance"
    assert detail == (
        "No kernel of the catalogue is proven to multiply these float32 operands, with k = 40, within a componentwise "
        "tolerance of 1e-09; the best proven bound is 5.96e-08, of cpu_exact."
    )
    named = client.post("/v1/matmul", json=OPERANDS | {"tolerance": 1e-7, "kernel": "cpu_blas"})
    assert "2.38e-06, of cpu_blas" in refused(named)[1]
    assert refused(client.post("/v1/matmul", json=OPERANDS | {"reproducible": True, "kernel": "cpu_blas"}))[0] == (
        "reproducible"
    )


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tolerance": 1e-6, "accuracy": "fp32"}, "tolerance"),
        ({"tolerance_kind": "normwise"}, "tolerance_kind"),
        ({"tolerance": -1e-6}, "tolerance"),
        ({"tolerance": 1e-6, "tolerance_kind": "mixed"}, "tolerance_kind"),
        ({"reproducible": "yes"}, "reproducible"),
    ],
)
def test_contradictions_name_their_field(client: httpx.Client, options: dict[str, Any], field: str) -> None:
    assert refused(client.post("/v1/matmul", json=OPERANDS | options))[0] == field


def files(a: Array, b: Array, **options: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {"a": ("a.npy", npy(a)), "b": ("b.npy", npy(b))}
    return parts | {"options": (None, json.dumps(options), "application/json")}


def test_reproducible_products_are_correctly_rounded_every_way_in(client: httpx.Client) -> None:
    want = correctly_rounded(A, B, "float32").tobytes()
    by_files = client.post("/v1/matmul", files=files(A, B, reproducible=True), headers=NPY)
    body = save({"a": A, "b": B}, metadata={"options": json.dumps({"reproducible": True})})
    tensors = client.post("/v1/matmul", content=body, headers=NPY | {"content-type": "application/x-safetensors"})
    turned = client.post(
        "/v1/matmul",
        files=files(A.T.copy(), B.T.copy(), reproducible=True, transpose_a=True, transpose_b=True),
        headers=NPY,
    )
    batched = client.post("/v1/matmul", files=files(np.stack([A, A]), B, reproducible=True), headers=NPY)
    for reply in (by_files, tensors, turned):
        assert from_npy(reply.content).tobytes() == want
    assert [each.tobytes() for each in from_npy(batched.content)] == [want, want]
    record = client.get(by_files.headers["location"]).json()
    assert record["error_bound"] == {"kind": "componentwise", "value": 2.0**-24}
    assert "same bits on every device" in record["why"]


def test_integers_are_reproducible_by_any_kernel(client: httpx.Client) -> None:
    record = multiplied(client, a=[[1, 2]], b=[[3], [4]], dtype="int8", reproducible=True, tolerance=0)
    assert (record["kernel"], record["error_bound"]) == ("cpu_blas", {"kind": "componentwise", "value": 0.0})


@pytest.mark.parametrize(
    ("options", "kernel", "bound", "otherwise"),
    [
        ({}, "cpu_blas", None, None),
        ({"tolerance": 1e-4}, "cpu_blas", 40 * 2.0**-24, "cpu_float64"),
        ({"tolerance": 1e-7}, "cpu_float64", 2.0**-24, None),
        ({"reproducible": True}, "cpu_exact", 2.0**-24, None),
    ],
)
def test_a_dry_run_says_which_kernel_and_bound_and_makes_no_job(
    client: httpx.Client, options: dict[str, Any], kernel: str, bound: float | None, otherwise: str | None
) -> None:
    before = client.get("/v1/jobs").json()["jobs"]
    path = "/v1/matmul?dry_run=true"
    for reply in (client.post(path, json=OPERANDS | options), client.post(path, files=files(A, B, **options))):
        assert reply.status_code == 200, reply.text
        told = reply.json()
        assert (told["kernel"], told["otherwise"]) == (kernel, otherwise)
        assert (told["error_bound"] or {}).get("value") == (bound and pytest.approx(bound, rel=1e-4))
    assert client.get("/v1/jobs").json()["jobs"] == before
    assert refused(client.post("/v1/matmul?dry_run=1", json=OPERANDS | {"tolerance": 1e-9}))[0] == "tolerance"


def test_a_sum_has_its_own_roundings_in_the_bound(client: httpx.Client) -> None:
    added = {"c": np.ones((9, 7)).tolist(), "alpha": 0.5, "beta": 2}
    record = multiplied(client, tolerance=1e-4, **added)
    assert 41 * 2.0**-24 < record["error_bound"]["value"] < 41.1 * 2.0**-24
    assert multiplied(client, tolerance=2.5e-7, **added)["kernel"] == "cpu_float64"


def test_parameters_of_the_inference_protocol(client: httpx.Client) -> None:
    tensors = [
        {"name": name, "shape": list(each.shape), "datatype": "FP32", "data": each.tolist()}
        for name, each in (("A", A), ("B", B))
    ]
    asked = {"inputs": tensors, "parameters": {"tolerance": 1e-7, "reproducible": True}}
    reply = client.post("/v2/models/matmul/infer", json=asked)
    assert reply.status_code == 200, reply.text
    got = np.array(reply.json()["outputs"][0]["data"], np.float32).reshape(9, 7)
    assert got.tobytes() == correctly_rounded(A, B, "float32").tobytes()
