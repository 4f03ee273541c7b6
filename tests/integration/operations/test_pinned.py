"""Results that are pinned, exported and imported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest

from jobs.models import new_id
from jobs.redis.client import connect
from jobs.states import JobState
from service.api_process import body_memory
from tests.integration.api.test_benchmark_results import new
from tests.integration.api.test_jobs import problem
from tests.support.http.pages import get
from tools.harness.api import Api
from tools.harness.benchmarks import case_record, cases_of, find, finish

FIGURES = dict.fromkeys(("min", "q1", "median", "q3", "p95", "max", "mean", "stdev"), 2.0)


@pytest.fixture
def finished(api: Api, quiet: httpx.Client) -> str:
    job_id = new(quiet)
    job = api.claim(job_id)
    cases = cases_of(job)
    find(api, job, [case_record(case) for case in cases], len(cases))
    finish(api, job)
    return str(job_id)


@pytest.fixture
def exported(quiet: httpx.Client, finished: str) -> dict[str, Any]:
    reply = quiet.get(f"/v1/benchmarks/{finished}/export")
    assert reply.headers["content-disposition"].startswith("attachment;")
    return dict(reply.json())


def sent(client: httpx.Client, document: dict[str, Any]) -> httpx.Response:
    return client.post(
        "/v1/benchmarks/import", content=orjson.dumps(document), headers={"content-type": "application/json"}
    )


def test_what_is_pinned_does_not_expire(api: Api, quiet: httpx.Client, finished: str) -> None:
    before = api.stored_bytes()
    assert quiet.post(f"/v1/benchmarks/{finished}/pin").status_code == 200
    assert quiet.post(f"/v1/benchmarks/{finished}/pin").status_code == 200  # twice is once
    charged = api.stored_bytes() - before
    assert charged > 500
    assert [job["id"] for job in quiet.get("/v1/benchmarks/pinned").json()["jobs"]] == [finished]
    api.ledger.expire(job_ttl_s=-1, limit=100)
    assert quiet.get(f"/v1/jobs/{finished}").status_code == 200
    assert "Unpin" in get(quiet, f"/ui/jobs/{finished}").text
    assert api.ledger.counts()[JobState.SUCCEEDED] >= 1
    assert quiet.post("/ui/pinned", data={"what": "unpin", "job": finished}).status_code == 303
    assert api.stored_bytes() == before and not quiet.get("/v1/benchmarks/pinned").json()["jobs"]


def test_a_file_comes_back_as_it_went(api: Api, quiet: httpx.Client, finished: str, exported: dict[str, Any]) -> None:
    before = api.stored_bytes()
    reply = sent(quiet, exported)
    assert reply.status_code == 201
    copy = reply.json()["id"]
    assert copy != finished and reply.headers["location"] == f"/v1/jobs/{copy}"
    one, other = (quiet.get(f"/v1/benchmarks/{each}/results").json() for each in (finished, copy))
    assert one["records"] == other["records"]
    assert other["warnings"][0].startswith("Imported from a file on ")
    assert "Imported from a file" in get(quiet, f"/ui/benchmarks/{copy}").text
    own = dict.fromkeys(("job", "summary", "exported_at"))
    assert quiet.get(f"/v1/benchmarks/{copy}/export").json() | own == exported | own
    assert "a file" in get(quiet, "/ui/pinned").text
    assert quiet.delete(f"/v1/jobs/{copy}").status_code == 204
    assert api.stored_bytes() == before and not quiet.get("/v1/benchmarks/pinned").json()["jobs"]


def test_a_file_comes_back_though_a_clock_was_set_back(quiet: httpx.Client, exported: dict[str, Any]) -> None:
    """While it ran, or another on the way: the job's times are taken in their order."""
    ahead = datetime.now(UTC) + timedelta(hours=1)
    times = {"created_at": ahead, "started_at": ahead - timedelta(minutes=5), "finished_at": ahead}
    job = {**exported["job"], **{name: time.isoformat() for name, time in times.items()}}
    reply = sent(quiet, {**exported, "job": job})
    assert reply.status_code == 201, reply.text
    copy = quiet.get(f"/v1/jobs/{reply.json()['id']}").json()
    assert {datetime.fromisoformat(copy[name]) for name in times} == {ahead}
    assert quiet.delete(f"/v1/jobs/{copy['id']}").status_code == 204


def test_a_file_of_complex_products_comes_back(quiet: httpx.Client, exported: dict[str, Any]) -> None:
    """Each of their steps is eight operations."""
    record, *others = exported["records"]
    product = 2 * record["m"] * record["n"] * record["k"]
    assert record["flops"] == product
    of_complex = {**record, "dtype": "complex64", "flops": 4 * product, "gflops": 4 * record["gflops"]}
    copy = sent(quiet, {**exported, "records": [of_complex, *others]})
    assert copy.status_code == 201
    assert quiet.delete(f"/v1/jobs/{copy.json()['id']}").status_code == 204
    for wrong in ({**of_complex, "flops": product}, {**record, "flops": 4 * product}):
        document = problem(sent(quiet, {**exported, "records": [wrong, *others]}), 422, "invalid_request")
        assert "operations are not those of its extents, batch and element type" in document["detail"]


def test_a_repeated_import_is_one_job(api: Api, quiet: httpx.Client, exported: dict[str, Any]) -> None:
    keyed = {"idempotency-key": new_id("key"), "content-type": "application/json"}
    first, again = (quiet.post("/v1/benchmarks/import", json=exported, headers=keyed) for _ in range(2))
    copy = first.json()["id"]
    assert (again.status_code, again.json()["id"], again.headers["idempotent-replayed"]) == (201, copy, "true")
    problem(quiet.post("/v1/benchmarks/import", json={}, headers=keyed), 422, "idempotency_key_reused")
    keyed = {"idempotency-key": new_id("key")}
    assert quiet.post(f"/v1/benchmarks/{copy}/unpin", headers=keyed).status_code == 200
    again = quiet.post(f"/v1/benchmarks/{copy}/unpin", headers=keyed)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    problem(quiet.post(f"/v1/benchmarks/{copy}/pin", headers=keyed), 422, "idempotency_key_reused")
    assert quiet.delete(f"/v1/jobs/{copy}").status_code == 204


def test_a_file_that_is_none_is_refused_in_a_sentence(quiet: httpx.Client, exported: dict[str, Any]) -> None:
    record = exported["records"][0]
    wrong: list[dict[str, Any]] = [
        {},
        {**exported, "format": "else"},
        {**exported, "version": 2},
        {**exported, "more": 1},
        {**exported, "records": [*exported["records"], record]},
        {**exported, "records": [{**record, "gflops": "fast"}]},
        {**exported, "records": [{**record, "dtype": "float7"}]},
        {**exported, "samples": {"samples:9:nothing": {}}},
        {**exported, "job": {**exported["job"], "finished_at": "2999-01-01T00:00:00Z"}},
        {**exported, "job": {**exported["job"], "created_at": -1}},
        {**exported, "job": {**exported["job"], "created_at": "1815-12-10T00:00:00Z"}},
        {**exported, "spec": {**exported["spec"], "kernels": ["nope"]}},
    ]
    deep: Any = {}
    for _ in range(30):
        deep = {"in": deep}
    wrong.append(
        {**exported, "attempts": [{**exported["attempts"][0], "device": deep}]} if exported["attempts"] else {}
    )
    for document in wrong:
        reply = sent(quiet, document)
        assert reply.status_code in (400, 422), reply.text
        assert reply.json()["detail"].endswith(".")
    assert not quiet.get("/v1/benchmarks/pinned").json()["jobs"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ci95_lo_us": 5e-324}, "its times and speeds must be positive"),
        ({"cpu_launch_us": -1.0}, "a figure in it is negative"),
        ({"launch": {"resident_blocks": -1}}, "a figure in it is negative"),
        ({"gflops": 1e6}, "its speed is not that of its time"),
        ({"kernel_ms": 1e3, "gflops": None}, "its time is not the median of its statistics"),
        ({"time_us": FIGURES | {"q3": 1.0}}, "its quartiles are not in their order"),
        ({"ci95_lo_us": 1e9, "ci95_hi_us": 1e10}, "the interval of its median does not enclose it"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(
    quiet: httpx.Client, exported: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    """Reports and comparisons would divide by them, or draw one and print the other."""
    records = [exported["records"][0] | change, *exported["records"][1:]]
    assert why in problem(sent(quiet, {**exported, "records": records}), 422, "invalid_request")["detail"]


def test_records_do_not_contradict_their_samples_or_each_other(quiet: httpx.Client, exported: dict[str, Any]) -> None:
    record, *others = exported["records"]
    name = f"samples:0:{record['case']}"
    slower = {**exported["samples"], name: {"time_us": [1e6 * us for us in exported["samples"][name]["time_us"]]}}
    mean = {**record, "time_us": {**record["time_us"], "mean": 9 * record["time_us"]["max"]}}
    elsewhere = next(one for one in others if one["n"] != record["n"] or one["dtype"] != record["dtype"])
    for change, why in (
        ({"samples": slower}, "its time is not the median of its samples"),
        ({"records": [mean, *others]}, "its mean or its 95th percentile lies outside of its samples"),
        ({"records": [record, {**record, "case": "again"}, *others]}, "twice in one round, under two names"),
        ({"records": [{**record, "baseline": elsewhere["case"]}, *others]}, "its baseline is of another product"),
    ):
        document = problem(sent(quiet, {**exported, **change}), 422, "invalid_request")
        assert why in document["detail"] and document["field"] == "records"


def test_a_record_that_cannot_be_read_hides_no_other(api: Api, quiet: httpx.Client, exported: dict[str, Any]) -> None:
    """Of another version, or damaged: the list has the others, and it can still be unpinned."""
    good, bad = (sent(quiet, exported).json()["id"] for _ in range(2))
    with connect(api.settings) as client:
        client.hset(f"{api.settings.key_prefix}job:{bad}", "created", "-1")
    assert [job["id"] for job in quiet.get("/v1/benchmarks/pinned").json()["jobs"]] == [good]
    assert f"/ui/benchmarks/{good}" in quiet.get("/ui/pinned").text
    for copy in (good, bad):
        with connect(api.settings) as client:
            client.hset(f"{api.settings.key_prefix}job:{copy}", "created", "1")
        assert quiet.delete(f"/v1/jobs/{copy}").status_code == 204


@pytest.mark.parametrize(
    "device",
    [
        {"theoretical": "fast", "measured": 3},
        {"theoretical": {"gflops": "x", "memory_gb_s": [1]}, "measured": {"gflops": {"float32": "x"}}},
        {"compute_capability": "9.0", "multiprocessors": "many", "cores": -1, "max_clock_mhz": [], "l2_bytes": {}},
        {"compute_capability": [9], "name": 7, "uuid": {}, "device_class": "tpu", "memory_clock_mhz": True},
    ],
)
def test_a_device_that_no_worker_describes_is_refused(
    quiet: httpx.Client, exported: dict[str, Any], device: dict[str, Any]
) -> None:
    attempt = {"attempt": 1, "worker": "w", "started_at": "2026-01-01T00:00:00Z", "found": 0}
    document = problem(sent(quiet, {**exported, "attempts": [{**attempt, "device": device}]}), 422, "invalid_request")
    assert document["field"] == "attempts" and "attempt 1 says of its device" in document["detail"]
    wrong = {**attempt, "device": {}, "environment": {"versions": "1"}}
    assert problem(sent(quiet, {**exported, "attempts": [wrong]}), 422, "invalid_request")["field"] == "attempts"


def test_a_form_sends_the_file(quiet: httpx.Client, exported: dict[str, Any]) -> None:
    reply = quiet.post("/ui/pinned/import", files={"file": ("x.json", orjson.dumps(exported), "application/json")})
    assert reply.status_code == 303
    copy = reply.headers["location"].rpartition("/")[2]
    assert quiet.delete(f"/v1/jobs/{copy}").status_code == 204
    wrong = quiet.post("/ui/pinned/import", files={"file": ("x.json", b"{", "application/json")})
    assert wrong.status_code in (400, 422) and 'role="alert"' in wrong.text


def test_a_file_that_would_take_long_to_read_is_refused(
    api: Api, quiet: httpx.Client, exported: dict[str, Any]
) -> None:
    """Whatever is many in it: reading a file costs no more than reading another body."""
    summary = {**exported["summary"], "warnings": [""] * 1_000_000}
    document = problem(sent(quiet, {**exported, "summary": summary}), 422, "invalid_request")
    assert document["detail"] == "The file has more values than are read here: 1000000."
    most = 2 * api.settings.max_benchmark_cases
    record = exported["records"][0]
    several: list[tuple[str, Any]] = [
        ("records", [{**record, "case": f"c{number}"} for number in range(most + 1)]),
        ("samples", {f"samples:0:c{number}": {} for number in range(most + 1)}),
    ]
    for name, many in several:
        document = problem(sent(quiet, {**exported, name: many}), 422, "invalid_request")
        assert document["field"] == name and f"{most + 1} {name}; this server reads {most}" in document["detail"]


def test_a_file_counts_among_the_bodies_in_memory(
    quiet: httpx.Client, exported: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_memory, "KEPT_BYTES", 1 << 20)
    large = {**exported, "summary": {**exported["summary"], "warnings": ["w" * (2 << 20)]}}
    problem(sent(quiet, large), 503, "too_many_bodies")
    form = quiet.post("/ui/pinned/import", files={"file": ("x.json", orjson.dumps(large), "application/json")})
    assert form.status_code == 503 and 'role="alert"' in form.text


def test_so_many_may_be_pinned(api: Api, quiet: httpx.Client, exported: dict[str, Any]) -> None:
    limit = api.settings.max_pinned_per_key
    bounds: tuple[str | int, ...] = (limit, 1 << 40, 1 << 40)
    assert limit == quiet.get("/v1/benchmarks/pinned").json()["limit"]
    copy = sent(quiet, exported).json()["id"]
    assert api.ledger.scripts.run("pin", copy, "anonymous", 0, *bounds[1:]) == [b"pinned"]
    quiet.post(f"/v1/benchmarks/{copy}/unpin")
    assert api.ledger.scripts.run("pin", copy, "anonymous", 0, *bounds[1:]) == [b"too_many"]
    assert api.ledger.scripts.run("pin", copy, "anonymous", limit, 10, 10)[0] in (b"full", b"owner_full")
    assert quiet.delete(f"/v1/jobs/{copy}").status_code == 204


def test_only_what_succeeded_is_pinned_or_exported(quiet: httpx.Client) -> None:
    job_id = new(quiet)
    assert quiet.post(f"/v1/benchmarks/{job_id}/pin").status_code == 409
    assert quiet.get(f"/v1/benchmarks/{job_id}/export").status_code == 409
    assert quiet.post("/v1/benchmarks/job_0/pin").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "<b>nobody"},
        {"config": {"x": 10**17}},
        {"case": "c" * 100_000},
        {"m": -1, "flops": -5},
        {"gflops": 1e308, "kernel_ms": 1e-320},
        {"round": 10**9, "status": "ok", "time_us": None},
        {"kernel": "warp_tiled", "config": {"block_m": 1 << 24, "warp_n": 1 << 60}},
        {"launch": {"static_smem_bytes": 2**63}},
    ],
)
def test_whatever_a_file_says_its_pages_open(
    quiet: httpx.Client, exported: dict[str, Any], change: dict[str, Any]
) -> None:
    """Figures may be nonsense: they are another's word. No page of this service breaks of it."""
    records = [{**exported["records"][0], **change}, *exported["records"][1:]]
    reply = sent(quiet, {**exported, "records": records, "samples": {}})
    if reply.status_code != 201:
        assert reply.status_code == 422 and reply.json()["detail"].endswith(".")
        return
    copy = reply.json()["id"]
    results = f"/v1/benchmarks/{copy}"
    forms = ("results", "results?format=csv", "results?format=parquet", "report")
    for path in (f"/ui/benchmarks/{copy}", f"/ui/jobs/{copy}", *(f"{results}/{form}" for form in forms), "/ui/jobs"):
        assert quiet.get(path).status_code == 200, path
    assert quiet.delete(f"/v1/jobs/{copy}").status_code == 204
