"""Results, reports, plots and comparisons over HTTP. The test plays the worker."""

from __future__ import annotations

import csv
import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from jobs.models import JobError
from jobs.redis.embedded import EmbeddedServer
from service.benchmarks import replies as benchmarks_replies
from service.keys import make_key
from tests.integration.api.test_events import read_events
from tests.integration.api.test_jobs import problem, submit
from tools.harness.api import Api, running_api
from tools.harness.benchmarks import case_record, cases_of, find, finish, measure

SPEC: dict[str, Any] = {"title": "Three sizes", "kernels": ["cpu_blas"], "shapes": [64, 128, 256]}
PEPPER = "a pepper of more than sixteen bytes"
PLOTS = "/v1/benchmarks/{}/plots/{}"


def new(client: httpx.Client, **changes: Any) -> str:
    """A queued benchmark's id."""
    reply = client.post("/v1/benchmarks", json=SPEC | changes)
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def done(api: Api, client: httpx.Client, *, gflops: float = 10.0, **changes: Any) -> str:
    """A finished benchmark's id."""
    job = measure(api, new(client, **changes), gflops=gflops)
    finish(api, job)
    return job.id


@pytest.fixture(scope="module")
def finished(api: Api) -> str:
    with api.client() as client:
        return done(api, client)


def results(client: httpx.Client, job_id: str) -> dict[str, Any]:
    reply = client.get(f"/v1/benchmarks/{job_id}/results")
    assert reply.status_code == 200, reply.text
    read: dict[str, Any] = reply.json()
    return read


# ---- results ----
def test_results_of_a_finished_benchmark(api: Api, quiet: httpx.Client, finished: str) -> None:
    found = results(quiet, finished)
    assert (found["complete"], found["job"]["id"], found["job"]["state"]) == (True, finished, "succeeded")
    assert [record["n"] for record in found["records"]] == [64, 128, 256]
    assert [record["gflops"] for record in found["records"]] == pytest.approx([10.0] * 3)
    assert found["spec"] == quiet.get(f"/v1/jobs/{finished}").json()["request"]
    assert found["device"]["name"] == "A CPU"
    assert quiet.get(f"/v1/jobs/{finished}").json()["benchmark"]["cases"] == 3


def test_they_are_there_before_during_and_after(api: Api, quiet: httpx.Client) -> None:
    job_id = new(quiet)
    assert (results(quiet, job_id)["complete"], results(quiet, job_id)["records"]) == (False, [])
    job = measure(api, job_id, upto=1)
    assert [record["n"] for record in results(quiet, job_id)["records"]] == [64]
    progress = quiet.get(f"/v1/jobs/{job_id}").json()["progress"]
    assert (progress["done"], progress["total"]) == (1, 3)
    assert quiet.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    kept = results(quiet, job_id)
    assert (kept["complete"], len(kept["records"]), kept["job"]["state"]) == (False, 1, "cancelled")
    assert kept["warnings"]
    assert quiet.post(f"/v1/jobs/{job_id}/retry").status_code == 202
    again = api.claim(job_id)
    assert again.record.attempt == job.record.attempt + 1
    find(api, again, [case_record(case, attempt=2) for case in cases_of(again)[1:]], 3)
    finish(api, again)
    assert (results(quiet, job_id)["complete"], len(results(quiet, job_id)["records"])) == (True, 3)
    assert quiet.delete(f"/v1/jobs/{job_id}").status_code == 204
    problem(quiet.get(f"/v1/benchmarks/{job_id}/results"), 404, "job_not_found")


def test_a_failed_benchmark_keeps_what_it_found(api: Api, quiet: httpx.Client) -> None:
    job = measure(api, new(quiet), upto=2)
    api.ledger.fail(job.id, job.record.attempt, JobError(type="device_fault", detail="It broke."))
    found = results(quiet, job.id)
    assert (found["complete"], len(found["records"]), found["job"]["state"]) == (False, 2, "failed")


def test_forms_of_results(quiet: httpx.Client, finished: str) -> None:
    path = f"/v1/benchmarks/{finished}/results"
    by_query = quiet.get(path, params={"format": "csv"})
    by_accept = quiet.get(path, headers={"accept": "text/csv"})
    assert by_query.content == by_accept.content
    assert by_query.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(by_query.text)))
    assert [row["n"] for row in rows] == ["64", "128", "256"]
    problem(quiet.get(path, headers={"accept": "image/png"}), 406, "not_acceptable")
    problem(quiet.get(path, params={"format": "xml"}), 422, "invalid_request")


def test_parquet_without_pyarrow(quiet: httpx.Client, finished: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    reply = quiet.get(f"/v1/benchmarks/{finished}/results?format=parquet")
    assert "parquet" in problem(reply, 501, "extra_missing")["detail"]


def test_parquet(quiet: httpx.Client, finished: str) -> None:
    reply = quiet.get(f"/v1/benchmarks/{finished}/results?format=parquet")
    assert (reply.status_code, reply.headers["content-type"]) == (200, benchmarks_replies.PARQUET)
    assert reply.content[:4] == b"PAR1"


def test_an_etag_stands_for_the_version_and_the_form(api: Api, quiet: httpx.Client) -> None:
    job_id = new(quiet)
    job = measure(api, job_id, upto=1)
    path = f"/v1/benchmarks/{job_id}/results"
    etag = quiet.get(path).headers["etag"]
    same = quiet.get(path, headers={"if-none-match": etag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    assert quiet.get(path, headers={"if-none-match": etag}, params={"format": "csv"}).status_code == 200
    find(api, job, [case_record(case) for case in cases_of(job)[1:2]], 3)
    news = quiet.get(path, headers={"if-none-match": etag})
    assert (news.status_code, len(news.json()["records"])) == (200, 2)


def test_progress_events_carry_what_was_found(api: Api, quiet: httpx.Client, finished: str) -> None:
    with quiet.stream("GET", f"/v1/jobs/{finished}/events") as reply:
        events = list(read_events(reply.iter_lines()))
    assert [event.event for event in events] == ["queued", "running", *["progress"] * 3, "succeeded"]
    assert events[2].data["found"]["gflops"] == 10.0
    assert events[2].data["progress"]["done"] == 1


# ---- reports and plots ----
def test_a_report_is_one_page_without_scripts(quiet: httpx.Client, finished: str) -> None:
    page = quiet.get(f"/v1/benchmarks/{finished}/report", headers={"accept": "text/html,*/*;q=0.1"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "style-src 'unsafe-inline'" in policy
    assert "script-src" not in policy
    assert "Three sizes" in page.text
    assert "<script" not in page.text
    text = quiet.get(f"/v1/benchmarks/{finished}/report?format=markdown")
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.text.startswith("# ")


def test_plots(quiet: httpx.Client, finished: str) -> None:
    svg = quiet.get(PLOTS.format(finished, "gflops"))
    assert (svg.status_code, svg.headers["content-type"]) == (200, "image/svg+xml")
    assert b"<svg" in svg.content
    assert "style-src 'unsafe-inline'" in svg.headers["content-security-policy"]
    png = quiet.get(PLOTS.format(finished, "gflops"), headers={"accept": "image/png"})
    assert png.content.startswith(b"\x89PNG")
    for name in ("nope", "%0D%0Anope", "gfl%C3%B6ps"):
        unknown = quiet.get(PLOTS.format(finished, name), headers={"if-none-match": "*"})
        assert "there are: gflops" in problem(unknown, 404, "not_found")["detail"]
    empty = problem(quiet.get(PLOTS.format(finished, "speedup")), 404, "not_found")
    assert "gflops" in empty["detail"]


def test_drawing_needs_matplotlib(api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = quiet.get(PLOTS.format(done(api, quiet), "gflops"))
    assert "report" in problem(refused, 501, "extra_missing")["detail"]


def test_many_readers_make_it_once(api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    form = benchmarks_replies.RESULTS["csv"]

    def make(results: Any) -> bytes:
        made.append(results)
        return form.make(results)

    monkeypatch.setitem(benchmarks_replies.RESULTS, "csv", benchmarks_replies.ResultFormat(form.media_type, make))
    path = f"/v1/benchmarks/{done(api, quiet)}/results?format=csv"
    with ThreadPoolExecutor(12) as pool:
        bodies = set(pool.map(lambda _: quiet.get(path).content, range(24)))
    assert (len(bodies), len(made)) == (1, 1)


# ---- comparison ----
def test_two_runs_compared(api: Api, quiet: httpx.Client, finished: str) -> None:
    faster = done(api, quiet, gflops=20.0, shapes=[64, 128, 512])
    reply = quiet.get(f"/v1/benchmarks/{faster}/results", params={"compare": finished})
    assert reply.status_code == 200, reply.text
    told = reply.json()
    assert (told["before"], told["after"], told["complete"]) == (finished, faster, True)
    assert told["counts"] == {"faster": 2, "slower": 0, "same": 0, "ambiguous": 0, "not comparable": 0, "unusable": 0}
    assert [(case["n"], case["verdict"], case["ratio"]) for case in told["cases"]] == [
        (64, "faster", pytest.approx(2.0)),
        (128, "faster", pytest.approx(2.0)),
    ]
    assert [case["n"] for case in told["only_before"]] == [256]
    assert [case["n"] for case in told["only_after"]] == [512]
    known = {"if-none-match": reply.headers["etag"]}
    assert quiet.get(str(reply.url), headers=known).status_code == 304
    refused = quiet.get(f"/v1/benchmarks/{faster}/results", params={"compare": finished, "format": "csv"})
    problem(refused, 422, "invalid_request")


def test_what_cannot_be_compared(quiet: httpx.Client, finished: str) -> None:
    path = f"/v1/benchmarks/{finished}/results"
    assert problem(quiet.get(path, params={"compare": "job_none"}), 404, "job_not_found")["field"] == "compare"
    assert problem(quiet.get(path, params={"compare": submit(quiet)}), 404, "not_found")["field"] == "compare"


# ---- what is not there ----
@pytest.mark.parametrize("part", ["results", "report", "plots/gflops"])
def test_a_product_is_no_benchmark(quiet: httpx.Client, part: str) -> None:
    job_id = submit(quiet)
    refused = problem(quiet.get(f"/v1/benchmarks/{job_id}/{part}"), 404, "not_found")
    assert f"/v1/jobs/{job_id}/product" in refused["detail"]
    problem(quiet.get(f"/v1/benchmarks/job_none/{part}"), 404, "job_not_found")


def test_a_benchmark_is_its_owners_alone(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    owner, other = (make_key(name, PEPPER.encode()) for name in ("owner", "other"))
    keys = {"api_keys": SecretStr(f"{owner.line} {other.line}"), "api_key_pepper": SecretStr(PEPPER)}
    with running_api(valkey, key_prefix, tmp_path, auth="on", **keys) as guarded:
        mine, theirs = (guarded.client(**{"x-api-key": key.key}) for key in (owner, other))
        with mine, theirs, guarded.client() as nobody:
            job_id = done(guarded, mine)
            for part in ("results", "report", "plots/gflops", f"results?compare={job_id}"):
                path = f"/v1/benchmarks/{job_id}/{part}"
                assert mine.get(path).status_code == 200
                problem(theirs.get(path), 404, "job_not_found")
                problem(nobody.get(path), 401, "unauthenticated")
            other_id = done(guarded, theirs)
            problem(mine.get(f"/v1/benchmarks/{job_id}/results?compare={other_id}"), 404, "job_not_found")
            problem(nobody.post("/v1/benchmarks", json=SPEC), 401, "unauthenticated")


def test_head_has_no_body(quiet: httpx.Client, finished: str) -> None:
    reply = quiet.head(f"/v1/benchmarks/{finished}/results")
    assert (reply.status_code, reply.content, bool(reply.headers["etag"])) == (200, b"", True)


def test_json_is_one_document(quiet: httpx.Client, finished: str) -> None:
    text = quiet.get(f"/v1/benchmarks/{finished}/results").content
    assert json.loads(text)["schema_version"] == 1
