"""What another version recorded, over HTTP and on the pages: shown as far as it is known, never a 500."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from analysis.plots.by_name import PLOTS
from jobs.redis.client import connect
from tests.integration.api.test_benchmark_results import done, new, results
from tests.integration.api.test_jobs import problem, submit
from tests.support.http.pages import get
from tests.support.ledger.other_versions import CHANGES, Change, Rows
from tools.harness.api import Api

PRODUCT = np.array([[11.0]], np.float32)
FORMS = [None, "csv", "html", "markdown"]


@pytest.fixture
def rows(api: Api) -> Iterator[Rows]:
    with connect(api.settings) as client:
        yield Rows(client, api.settings.key_prefix)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("end", [None, "succeeded", "failed"])
def test_a_job_of_another_version(api: Api, quiet: httpx.Client, rows: Rows, change: Change, end: str | None) -> None:
    good, other = submit(quiet), submit(quiet)
    if end == "succeeded":
        api.succeed(other, PRODUCT)
    rows.change(other, "request", change)
    if end == "failed":
        rows.client.hset(rows.key(other), mapping={"state": "failed", "finished": 1})
    record = quiet.get(f"/v1/jobs/{other}").raise_for_status().json()
    assert (record["id"], record["state"], record["request"]["accuracy"]) != (None, None, None)
    listed = quiet.get("/v1/jobs", params={"limit": 2}).raise_for_status().json()["jobs"]
    assert [job["id"] for job in listed] == [other, good]
    assert get(quiet, "/ui/jobs").text and get(quiet, f"/ui/jobs/{other}").text and get(quiet, "/").text
    reply = quiet.get(f"/v1/jobs/{other}/product", headers={"accept": "application/json"})
    assert reply.status_code == (200 if end == "succeeded" else 409), reply.text
    chained = {"a": {"job": other}, "b": [[1.0]]}
    assert quiet.post("/v1/matmul", json=chained, headers={"prefer": "wait=0"}).status_code in (202, 409, 422, 503)


def test_an_outcome_that_cannot_be_read_is_said(api: Api, quiet: httpx.Client, rows: Rows) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, PRODUCT)
    rows.set(job_id, "outcome", '{"product": 1}')
    assert quiet.get(f"/v1/jobs/{job_id}").json()["product"] is None
    problem(quiet.get(f"/v1/jobs/{job_id}/product"), 503, "record_unreadable")
    assert get(quiet, f"/ui/jobs/{job_id}").text


def test_a_state_that_is_not_known_fails_one_job_alone(api: Api, quiet: httpx.Client, rows: Rows) -> None:
    good, other = submit(quiet), submit(quiet)
    rows.set(other, "state", "paused")
    problem(quiet.get(f"/v1/jobs/{other}"), 503, "record_unreadable")
    assert quiet.get("/v1/jobs", params={"limit": 2}).json()["jobs"][0]["id"] == good
    assert get(quiet, "/ui/jobs").text
    metrics = quiet.get("/metrics").text
    assert "matmul_unreadable_jobs_total" in metrics and "matmul_unreadable_jobs_total 0.0" not in metrics
    rows.set(other, "state", "queued")


def renamed(record: dict[str, Any]) -> None:
    record |= {"kernel": "gone_kernel", "fans": 3}


@pytest.fixture
def benchmark(api: Api, quiet: httpx.Client, rows: Rows) -> str:
    """A finished one of a kernel that this version does not know."""
    job_id = done(api, quiet)
    rows.change(job_id, "request", lambda request: request.update(kernels=["gone_kernel"], floor=2))
    rows.change(job_id, "outcome", lambda outcome: outcome["summary"].update(floor=2))
    rows.change_findings(job_id, renamed)
    rows.change_findings(job_id, lambda found: found.update(rack=1), kind="attempt")
    return job_id


@pytest.mark.parametrize("form", FORMS)
def test_results_of_a_kernel_that_is_not_known(quiet: httpx.Client, benchmark: str, form: str | None) -> None:
    what = "report" if form in ("html", "markdown") else "results"
    asked = {} if form is None else {"format": form}
    reply = quiet.get(f"/v1/benchmarks/{benchmark}/{what}", params=asked)
    assert reply.status_code == 200 and "gone_kernel" in reply.text, reply.text


def test_pages_and_plots_of_a_kernel_that_is_not_known(api: Api, quiet: httpx.Client, benchmark: str) -> None:
    other = done(api, quiet)
    for plot in PLOTS:
        reply = quiet.get(f"/v1/benchmarks/{benchmark}/plots/{plot}")
        assert reply.status_code == 200 or problem(reply, 404, "not_found")  # it has not what some plots show
    pages = (f"/ui/jobs/{benchmark}", f"/ui/benchmarks/{benchmark}", "/ui/benchmarks", "/ui/jobs?kind=benchmark")
    for path in (*pages, f"/ui/compare?runs={benchmark},{other}", f"/ui/benchmarks/new?from={benchmark}"):
        reply = quiet.get(path, follow_redirects=True)
        assert reply.status_code in (200, 404, 422), (path, reply.text[-2000:])
    assert get(quiet, f"/ui/benchmarks/{benchmark}").text.count("gone_kernel")
    assert quiet.get(f"/v1/benchmarks/{benchmark}/results", params={"compare": other}).status_code == 200


def test_findings_that_cannot_be_read_are_left_out(api: Api, quiet: httpx.Client, rows: Rows, benchmark: str) -> None:
    rows.change_findings(benchmark, lambda found: found.update(stop_reason="bored", accuracy="fp4"))
    found = results(quiet, benchmark)["records"]
    assert [(record["stop_reason"], record["accuracy"], record["gflops"]) for record in found] == [
        (None, None, 10.0)
    ] * 3
    rows.change_findings(benchmark, lambda found: found.update(status="wobbly" if found["n"] == 64 else "ok"))
    rows.client.hset(f"{rows.key(benchmark)}:findings", "record:0:odd", "{")
    rows.set(benchmark, "version", "99")  # results are kept by the job's version
    assert [record["n"] for record in results(quiet, benchmark)["records"]] == [128, 256]
    assert get(quiet, f"/ui/benchmarks/{benchmark}").text


def test_a_benchmark_that_waits_is_given_back(api: Api, quiet: httpx.Client, rows: Rows) -> None:
    job_id = new(quiet)
    rows.change(job_id, "request", lambda request: request.update(kernels=["gone_kernel"]))
    assert api.ledger.claim(job_id, 1, worker="old", lease_s=6) is None
    assert quiet.get(f"/v1/jobs/{job_id}").json()["state"] == "queued"
