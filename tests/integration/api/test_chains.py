"""Operands by job, over HTTP: with a played worker, and through the whole service."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from safetensors.numpy import load

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.integration.api.test_jobs import ASYNC, PRODUCT, fail, problem, submit
from tools.harness.api import Api, from_npy, npy, running_api
from tools.stack import Stack

B = {"random": {"shape": [2, 5]}}
WAIT = {"prefer": "wait=60"}


@pytest.fixture(params=[0, 1024])
def api(request: pytest.FixtureRequest, valkey: EmbeddedServer, tmp_path: Path) -> Iterator[Api]:
    """With products in the store, and in the record."""
    with running_api(valkey, f"{new_id('chains')}:", tmp_path, record_matrix_bytes=request.param) as running:
        yield running


def chained(client: httpx.Client, first: str, **changes: Any) -> str:
    return submit(client, a={"job": first}, b=B, **changes)


def record_of(client: httpx.Client, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
    return found


def test_the_record_names_the_job_and_says_what_it_waits_for(api: Api, quiet: httpx.Client) -> None:
    first = submit(quiet)
    second = chained(quiet, first)
    record = record_of(quiet, second)
    operand = record["request"]["a"]
    assert (operand["source"], operand["job"], operand["shape"], operand["dtype"]) == ("job", first, [3, 2], "float32")
    assert (record["state"], record["queue_position"], operand["matrix"]) == ("queued", None, None)
    assert record["progress"]["current"] == f"waits for {first}"
    listed = quiet.get("/v1/jobs", params={"state": "queued"}).json()["jobs"]
    assert {job["id"] for job in listed} == {first, second}
    assert f"waits for {first}" in quiet.get(f"/ui/jobs/{second}").text
    api.succeed(first, PRODUCT)
    record = record_of(quiet, second)
    is_stored = not api.settings.record_matrix_bytes
    assert (record["queue_position"], record["progress"]["current"]) == (1, None)
    assert record["request"]["a"]["matrix"] == (f"c_{first.removeprefix('job_')}_1" if is_stored else None)
    claimed = api.ledger.claim(second, 1, worker="played", lease_s=60)
    assert claimed is not None
    if not is_stored:
        assert claimed.a is not None
        np.testing.assert_array_equal(claimed.a.elements("float32", (3, 2)), PRODUCT)


@pytest.mark.parametrize("ended", [False, True])
def test_it_is_validated_at_once(api: Api, quiet: httpx.Client, ended: bool) -> None:
    first = submit(quiet)
    if ended:
        api.succeed(first, PRODUCT)
    for body, sentence in (
        ({"a": {"job": first}, "b": {"random": {"shape": [3, 2]}}}, "a is 3×2 but b is 3×2"),
        (
            {"a": {"job": first}, "b": {"random": {"shape": [2, 5], "dtype": "float64"}}},
            "a is float32 but b is float64",
        ),
        ({"a": {"job": first, "more": 1}, "b": B}, "There is no field a.more"),
        ({"a": {"job": 7}, "b": B}, "a.job"),
    ):
        reply = quiet.post("/v1/matmul", json=body, headers=ASYNC)
        assert reply.status_code == 422 and sentence in reply.json()["detail"], reply.text
    second = submit(quiet, a={"job": first}, b={"random": {"shape": [3, 9]}}, transpose_a=True)
    third = submit(quiet, a={"job": second}, b={"job": second}, transpose_b=True)
    assert record_of(quiet, third)["request"]["b"]["shape"] == [2, 9]


def test_the_product_of_a_batch_of_bytes_is_one_of_whole_words(quiet: httpx.Client) -> None:
    spec = {"dtype": "int8", "distribution": "integers"}
    first = submit(quiet, a={"random": {"shape": [4, 3, 2], **spec}}, b={"random": {"shape": [2, 6], **spec}})
    second = submit(
        quiet, a={"job": first}, b={"random": {"shape": [6, 2], "dtype": "int32", "distribution": "integers"}}
    )
    operand = record_of(quiet, second)["request"]["a"]
    assert (operand["shape"], operand["dtype"]) == ([4, 3, 6], "int32")


def test_what_is_no_product_is_refused(api: Api, quiet: httpx.Client) -> None:
    body = {"a": {"job": "job_" + "0" * 32}, "b": B}
    assert problem(quiet.post("/v1/matmul", json=body, headers=ASYNC), 404, "job_not_found")["field"] == "a"
    spec = {"kernels": ["cpu_blas"], "shapes": [16]}
    benchmark = quiet.post("/v1/benchmarks", json=spec).json()["job"]["id"]
    reply = quiet.post("/v1/matmul", json=body | {"a": {"job": benchmark}}, headers=ASYNC)
    assert "is a benchmark, which has no product" in problem(reply, 422, "invalid_request")["detail"]
    cancelled, failed = submit(quiet), submit(quiet)
    quiet.post(f"/v1/jobs/{cancelled}/cancel")
    fail(api, failed)
    for job, end in ((cancelled, "was cancelled"), (failed, "failed")):
        reply = quiet.post("/v1/matmul", json={"a": B, "b": {"job": job}, "transpose_a": True}, headers=ASYNC)
        document = problem(reply, 409, "operand_failed")
        assert f"{job}, which {end};" in document["detail"] and document["field"] == "b"


def test_a_product_that_is_kept_no_longer_is_gone(api: Api, quiet: httpx.Client) -> None:
    first = submit(quiet)
    api.succeed(first, PRODUCT)
    second = chained(quiet, first)
    assert quiet.delete(f"/v1/matrices/c_{first.removeprefix('job_')}_1").status_code == 204
    reply = quiet.post("/v1/matmul", json={"a": {"job": first}, "b": B}, headers=ASYNC)
    assert problem(reply, 410, "product_expired")["field"] == "a"
    quiet.post(f"/v1/jobs/{second}/cancel")
    again = quiet.post(f"/v1/jobs/{second}/retry")
    if api.settings.record_matrix_bytes:  # it has its own copy
        assert again.status_code == 202
    else:
        assert problem(again, 409, "operand_missing")["field"] == "a"


def test_a_caller_who_waits_learns_why_there_is_no_product(api: Api, quiet: httpx.Client) -> None:
    first = submit(quiet)
    second = chained(quiet, first)
    quiet.post(f"/v1/jobs/{first}/cancel")
    record = record_of(quiet, second)
    assert (record["state"], record["error"]["type"]) == ("failed", "operand_failed")
    assert problem(quiet.post(f"/v1/jobs/{second}/retry"), 409, "operand_failed")["field"] == "a"
    assert quiet.post(f"/v1/jobs/{first}/retry").status_code == 202
    reply = quiet.post(f"/v1/jobs/{second}/retry")
    assert reply.status_code == 202 and reply.json()["job"]["progress"]["current"] == f"waits for {first}"
    api.succeed(first, PRODUCT)
    assert record_of(quiet, second)["queue_position"] == 1


@pytest.mark.parametrize("api", [0], indirect=True)
def test_in_options_and_once_for_a_key(api: Api, quiet: httpx.Client) -> None:
    first = submit(quiet)
    options = orjson.dumps({"b": {"job": first}})
    files: dict[str, Any] = {
        "options": (None, options, "application/json"),
        "a": ("a", npy(np.ones((4, 3), np.float32))),
    }
    headers = ASYNC | {"idempotency-key": "once"}
    replies = [quiet.post("/v1/matmul", files=files, headers=headers) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [202, 202], replies[0].text
    assert replies[0].json()["job"]["id"] == replies[1].json()["job"]["id"]
    assert replies[0].json()["job"]["request"]["b"]["job"] == first


# ---- the whole service ----
@pytest.mark.parametrize("n", [8, 300])
def test_a_chain_of_five_of_which_the_last_is_waited_for(client: httpx.Client, n: int) -> None:
    rng = np.random.default_rng(n)
    matrices = [rng.integers(-2, 3, (n, n)).astype(np.float64) for _ in range(6)]
    stored = [
        client.post("/v1/matrices", content=npy(each), headers={"content-type": "application/x-npy"})
        for each in matrices
    ]
    ids = [reply.json()["id"] for reply in stored]
    last: dict[str, str] = {"matrix": ids[0]}
    for matrix in ids[1:-1]:
        last = {"job": submit(client, a=last, b={"matrix": matrix})}
    headers = WAIT | {"accept": "application/x-safetensors"}
    reply = client.post("/v1/matmul", json={"a": last, "b": {"matrix": ids[-1]}}, headers=headers)
    assert reply.status_code == 200, reply.text
    np.testing.assert_array_equal(load(reply.content)["c"], np.linalg.multi_dot(matrices))


@contextmanager
def paused(stack: Stack) -> Iterator[None]:
    """The worker takes no job meanwhile."""
    os.killpg(stack.workers[0].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(stack.workers[0].pid, signal.SIGCONT)


def test_a_chain_whose_first_fails(stack: Stack, client: httpx.Client) -> None:
    with paused(stack):
        stored = client.post("/v1/matrices", json={"random": {"shape": [3, 3], "seed": 77}}).json()["id"]
        jobs = [submit(client, a={"matrix": stored}, b={"matrix": stored})]
        for _ in range(4):
            jobs.append(submit(client, a={"job": jobs[-1]}, b={"random": {"shape": [3, 3]}}))
        for file in Path(stack.environment["MATMUL_STORE_DIR"]).glob(f"{stored}*"):
            file.unlink()
    last = client.get(f"/v1/jobs/{jobs[-1]}", headers=WAIT).json()
    assert last["error"]["type"] == "operand_failed" and f"product of {jobs[-2]}," in last["error"]["detail"]
    errors = [record_of(client, job)["error"]["type"] for job in jobs]
    assert errors == ["operand_missing"] + ["operand_failed"] * 4


def test_a_chain_that_is_cancelled_in_the_middle(stack: Stack, client: httpx.Client) -> None:
    seeded = {"random": {"shape": [300, 300], "distribution": "integers"}}
    with paused(stack):
        first = submit(client, a=seeded, b=seeded)
        second = submit(client, a={"job": first}, b=seeded)
        third = submit(client, a={"job": second}, b=seeded)
        assert client.post(f"/v1/jobs/{second}/cancel").status_code == 202
    assert client.get(f"/v1/jobs/{first}", headers=WAIT).json()["state"] == "succeeded"
    assert [record_of(client, job)["state"] for job in (second, third)] == ["cancelled", "failed"]
    product = client.get(f"/v1/jobs/{first}/product", headers={"accept": "application/x-npy"})
    assert from_npy(product.content).shape == (300, 300)
