"""/v1/jobs: records, waiting, listing, products, cancel, retry, delete. The test plays the worker."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.ledger.interface import JobFilter
from jobs.matrices.index import MIN_CHARGE_BYTES
from jobs.models import JobError
from jobs.states import JobState
from tests.support.prompt import within
from tools.harness.api import Api, from_npy, npy, until

ASYNC = {"prefer": "respond-async"}
SEEDED = {"a": {"random": {"shape": [3, 4]}}, "b": {"random": {"shape": [4, 2]}}}
PRODUCT = np.arange(6, dtype=np.float32).reshape(3, 2)


def submit(quiet: httpx.Client, **changes: Any) -> str:
    """A queued job's id."""
    reply = quiet.post("/v1/matmul", json=SEEDED | changes, headers=ASYNC)
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def fail(api: Api, job_id: str, error: str = "worker_lost") -> None:
    attempt = api.claim(job_id).record.attempt
    api.ledger.fail(job_id, attempt, JobError(type=error, detail="It went wrong."))


def problem(reply: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The problem document, checked."""
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json"), reply.text
    document: dict[str, Any] = reply.json()
    assert document["type"] == f"/problems/{kind}"
    assert document["status"] == status
    assert document["request_id"] == reply.headers["x-request-id"]
    assert {"title", "detail", "instance"} <= document.keys()
    return document


# ---- waiting ----
def test_async_answers_at_once(api: Api, quiet: httpx.Client) -> None:
    reply = quiet.post("/v1/matmul", json=SEEDED, headers=ASYNC)
    assert reply.status_code == 202
    assert reply.headers["preference-applied"] == "respond-async"
    assert int(reply.headers["retry-after"]) >= 1
    record = reply.json()["job"]
    assert reply.headers["location"] == f"/v1/jobs/{record['id']}"
    assert (record["state"], record["attempt"], record["progress"]) == (
        "queued",
        1,
        {"done": 0, "total": 1, "current": None, "eta_s": None},
    )
    assert quiet.get(reply.headers["location"]).json() == record


def test_past_the_wait_it_is_202(quiet: httpx.Client) -> None:
    def waits() -> None:
        started = time.monotonic()
        reply = quiet.post("/v1/matmul", json=SEEDED, headers={"prefer": "wait=1"})
        assert time.monotonic() - started >= 1.0
        assert (reply.status_code, reply.headers["preference-applied"]) == (202, "wait=1")

    within(3.0, waits)


def newest(api: Api) -> str | None:
    """Id of the newest job."""
    return next((job.id for job in api.ledger.list(JobFilter(), limit=1).jobs), None)


def newer_than(api: Api, last: str | None) -> str:
    """Id of the first job made after that one."""
    until(lambda: newest(api) != last)
    return str(newest(api))


def test_waiting_ends_with_the_job(api: Api, quiet: httpx.Client) -> None:
    with ThreadPoolExecutor(1) as pool:
        job_id = submit(quiet)
        waiting = pool.submit(quiet.get, f"/v1/jobs/{job_id}", headers={"prefer": "wait=20"})
        api.claim(job_id)
        api.ledger.cancel(job_id)
        reply = waiting.result(60)
    assert reply.json()["state"] == "cancelled"
    assert reply.headers["preference-applied"] == "wait=20"


def test_waiting_ends_with_any_change_of_what_is_known(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    etag = quiet.get(f"/v1/jobs/{job_id}").headers["etag"]
    known = {"if-none-match": etag, "prefer": "wait=20"}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(quiet.get, f"/v1/jobs/{job_id}", headers=known)
        api.claim(job_id)
        reply = waiting.result(60)
    assert (reply.status_code, reply.json()["state"]) == (200, "running")
    assert reply.headers["etag"] != etag


def test_an_unchanged_record_is_304(quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    first = quiet.get(f"/v1/jobs/{job_id}")
    assert first.headers["cache-control"] == "no-cache"
    assert not first.headers["etag"].startswith("W/")
    for headers in ({}, {"prefer": "wait=1"}):
        again = quiet.get(f"/v1/jobs/{job_id}", headers={"if-none-match": first.headers["etag"], **headers})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("operand_missing", 409),
        ("worker_lost", 500),
        ("verification_failed", 500),
        ("time_limit_exceeded", 504),
        ("out_of_device_memory", 507),
        ("no_room_for_product", 507),
        ("never_heard_of", 500),
    ],
)
def test_a_waited_job_that_fails_is_a_problem(api: Api, quiet: httpx.Client, error: str, status: int) -> None:
    last = newest(api)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(quiet.post, "/v1/matmul", json=SEEDED)
        job_id = newer_than(api, last)
        fail(api, job_id, error)
        reply = waiting.result(60)
    document = problem(reply, status, error if error != "never_heard_of" else "job_failed")
    assert document["detail"] == "It went wrong."
    assert (document["job"], reply.headers["location"]) == (job_id, f"/v1/jobs/{job_id}")


def test_a_waited_job_that_is_cancelled_is_409(api: Api, quiet: httpx.Client) -> None:
    last = newest(api)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(quiet.post, "/v1/matmul", json=SEEDED)
        job_id = newer_than(api, last)
        api.ledger.cancel(job_id)
        problem(waiting.result(60), 409, "job_cancelled")


# ---- listing ----
def test_pages_lead_through_all_jobs_newest_first(api: Api, quiet: httpx.Client) -> None:
    made = [submit(quiet) for _ in range(5)]
    seen: list[str] = []
    path = "/v1/jobs?state=queued&limit=2"
    while path:
        page = quiet.get(path)
        seen += [job["id"] for job in page.json()["jobs"]]
        assert ("next" in page.links) == (page.json()["next"] is not None)
        path = page.links["next"]["url"] if "next" in page.links else ""
    assert len(seen) == len(set(seen))
    assert seen[:5] == made[::-1]
    for job_id in seen:
        api.ledger.cancel(job_id)


def test_filters(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet, kernel="cpu_blas")
    fail(api, job_id, "device_fault")

    def ids(**params: str) -> list[str]:
        return [job["id"] for job in quiet.get("/v1/jobs", params=params).json()["jobs"]]

    for params in ({"state": "failed"}, {"kernel": "cpu_blas"}, {"q": job_id[8:20]}, {"q": "device_fault"}):
        assert job_id in ids(**params)
    for params in ({"state": "queued"}, {"kernel": "naive"}, {"q": "nothing has this"}):
        assert job_id not in ids(**params)
    assert job_id in ids(kind="matmul", state="failed", kernel="cpu_blas", q="device")


# ---- cancel, retry, delete ----
def test_cancel(api: Api, quiet: httpx.Client) -> None:
    queued, running = submit(quiet), submit(quiet)
    api.claim(running)
    for job_id in (queued, running):
        first = quiet.post(f"/v1/jobs/{job_id}/cancel")
        assert (first.status_code, first.json()["state"]) == (202, "cancelled")
        second = quiet.post(f"/v1/jobs/{job_id}/cancel")
        assert (second.status_code, second.json()["state"]) == (200, "cancelled")
    done = submit(quiet)
    api.succeed(done, PRODUCT)
    assert "succeeded" in problem(quiet.post(f"/v1/jobs/{done}/cancel"), 409, "wrong_state")["detail"]


def test_retry(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    problem(quiet.post(f"/v1/jobs/{job_id}/retry"), 409, "wrong_state")
    fail(api, job_id)
    reply = quiet.post(f"/v1/jobs/{job_id}/retry")
    assert (reply.status_code, reply.headers["location"]) == (202, f"/v1/jobs/{job_id}")
    record = reply.json()["job"]
    assert (record["state"], record["attempt"], record["error"]) == ("queued", 2, None)
    api.succeed(job_id, PRODUCT)
    problem(quiet.post(f"/v1/jobs/{job_id}/retry"), 409, "wrong_state")


def test_a_cancelled_job_with_inline_operands_can_be_retried(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet, a=[[1, 2]], b=[[3], [4]])
    quiet.post(f"/v1/jobs/{job_id}/cancel")
    assert quiet.post(f"/v1/jobs/{job_id}/retry").status_code == 202
    operand = api.ledger.get(job_id).record.operands[0]
    assert operand.matrix is not None
    np.testing.assert_array_equal(api.store.load(operand.matrix, operand.dtype, operand.shape), [[1, 2]])


def test_a_retry_without_its_operands_is_refused(api: Api, quiet: httpx.Client) -> None:
    stored = quiet.post("/v1/matrices", content=npy(PRODUCT), headers={"content-type": "application/x-npy"})
    matrix_id = stored.json()["id"]
    job_id = submit(quiet, a={"matrix": matrix_id}, b={"random": {"shape": [2, 2]}})
    quiet.post(f"/v1/jobs/{job_id}/cancel")
    quiet.delete(f"/v1/matrices/{matrix_id}")
    assert problem(quiet.post(f"/v1/jobs/{job_id}/retry"), 409, "operand_missing")["field"] == "a"
    assert api.ledger.get(job_id).record.state is JobState.CANCELLED


def test_delete(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet, a=[[1, 2]], b=[[3], [4]])
    problem(quiet.delete(f"/v1/jobs/{job_id}"), 409, "wrong_state")
    before = api.stored_bytes()
    api.succeed(job_id, PRODUCT)
    assert quiet.delete(f"/v1/jobs/{job_id}").status_code == 204
    problem(quiet.get(f"/v1/jobs/{job_id}"), 404, "job_not_found")
    problem(quiet.delete(f"/v1/jobs/{job_id}"), 404, "job_not_found")
    assert api.stored_bytes() == before - 2 * MIN_CHARGE_BYTES  # the operands went, and the product


# ---- products ----
def test_product_before_and_after(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    assert "queued" in problem(quiet.get(f"/v1/jobs/{job_id}/product"), 409, "wrong_state")["detail"]
    api.succeed(job_id, PRODUCT)
    reply = quiet.get(f"/v1/jobs/{job_id}/product")
    assert reply.headers["content-type"] == "application/x-npy"
    np.testing.assert_array_equal(from_npy(reply.content), PRODUCT)
    in_json = quiet.get(f"/v1/jobs/{job_id}/product", headers={"accept": "application/json"}).json()
    assert (in_json["job"]["id"], in_json["c"]) == (job_id, PRODUCT.tolist())


def test_product_in_parts(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, PRODUCT)
    path = f"/v1/jobs/{job_id}/product"
    whole = quiet.get(path)
    etag = whole.headers["etag"]
    for asked, part in {"0-9": whole.content[:10], "120-139": whole.content[120:140], "-7": whole.content[-7:]}.items():
        reply = quiet.get(path, headers={"range": f"bytes={asked}"})
        assert (reply.status_code, reply.content) == (206, part)
        assert reply.headers["content-range"].endswith(f"/{len(whole.content)}")
    past = quiet.get(path, headers={"range": "bytes=99999-"})
    problem(past, 416, "range_not_satisfiable")
    assert past.headers["content-range"] == f"bytes */{len(whole.content)}"
    assert quiet.get(path, headers={"range": "bytes=0-9", "if-range": etag}).status_code == 206
    assert quiet.get(path, headers={"range": "bytes=0-9", "if-range": '"other"'}).status_code == 200
    assert quiet.get(path, headers={"range": "bytes=0-1,3-4"}).status_code == 200
    assert quiet.get(path, headers={"if-none-match": etag}).status_code == 304
    head = quiet.head(path)
    assert (head.content, head.headers["content-length"]) == (b"", str(len(whole.content)))
    assert head.headers["accept-ranges"] == "bytes"


def test_large_product_in_parts(api: Api, quiet: httpx.Client) -> None:
    """Over the borders between what is read at a time."""
    large = np.arange(3_000_000, dtype=np.float64).reshape(1500, 2000)
    job_id = submit(quiet)
    api.succeed(job_id, large)
    octets = {"accept": "application/octet-stream"}
    whole = quiet.get(f"/v1/jobs/{job_id}/product", headers=octets).content
    assert whole == large.tobytes()
    border = (4 << 20) - 5
    for first, last in ((0, len(whole) - 1), (border, border + 9), (border, len(whole) - 2)):
        reply = quiet.get(f"/v1/jobs/{job_id}/product", headers=octets | {"range": f"bytes={first}-{last}"})
        assert reply.content == whole[first : last + 1]


def test_an_expired_product_is_410(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, PRODUCT)
    api.store.delete(job_id.replace("job_", "c_") + "_1", owner="anonymous")
    for accept in ("application/x-npy", "application/json"):
        problem(quiet.get(f"/v1/jobs/{job_id}/product", headers={"accept": accept}), 410, "product_expired")


def test_bfloat16_product_has_no_npy(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet, dtype="bfloat16")
    api.succeed(job_id, np.zeros((3, 2), "<u2"), dtype="bfloat16")
    path = f"/v1/jobs/{job_id}/product"
    assert quiet.get(path).headers["content-type"] == "application/x-safetensors"
    offered = problem(quiet.get(path, headers={"accept": "application/x-npy"}), 406, "not_acceptable")["offers"]
    assert "application/x-safetensors" in offered
    assert "application/x-npy" not in offered
