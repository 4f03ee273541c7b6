"""Jobs as their spans and log lines tell them: one whose worker is killed, some of one launch, and one of a chain."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.otlp import Collector, Received, collecting
from tools.harness.api import http_client, until
from tools.stack import Stack

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
N, SMALL = 4000, 4  # a product that outlasts a 202 that waits for Redis
PHASES = ["check", "claim", "download", "end", "kernel", "upload"]


@dataclass
class Story:
    """What became of the jobs. `together` have one launch, `chained` takes the product of `killed`."""

    killed: str
    together: list[str]
    chained: str
    traces: dict[str, str]  # by job
    spans: Collector
    lines: list[dict[str, Any]]  # of all logs

    def attempts(self, job_id: str) -> list[Received]:
        return self.spans.of(self.traces[job_id], "attempt")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("traces")
    with collecting() as collector, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        patch.setitem(os.environ, "OTEL_BSP_SCHEDULE_DELAY", "50")
        settings = {"cpu_threads": "1", "redis_timeout_s": "5", "lease_s": "60"}
        settings |= {"log_format": "json", "log_level": "debug"}
        with Stack(directory, settings=settings) as stack, http_client(stack.url) as client:
            story = lived(stack, client, collector)
            until(lambda: all(collector.of(trace, "end") for trace in story.traces.values()))
            until(lambda: all(len(story.attempts(job)) == 1 + (job == story.killed) for job in story.traces))
        story.lines += [line for path in sorted(directory.glob("*.log")) for line in lines_of(path)]
        yield story


def lived(stack: Stack, client: httpx.Client, collector: Collector) -> Story:
    traces: dict[str, str] = {}

    def submit(body: dict[str, Any], **headers: str) -> str:
        reply = client.post("/v1/matmul", json=body, headers={"prefer": "respond-async", **headers})
        job_id: str = reply.json()["job"]["id"]
        traces[job_id] = reply.headers["traceresponse"].split("-")[1]
        return job_id

    large, small = {"random": {"shape": [N, N]}}, {"a": [[1, 2], [3, 4]], "b": [[1, 2], [3, 4]]}
    killed = submit({"a": large, "b": large}, traceparent=f"00-{TRACE}-{CALLER}-01", **{"x-request-id": "of-killed"})
    until(lambda: client.get(f"/v1/jobs/{killed}").json()["state"] == "running")
    child = psutil.Process(stack.workers[0].pid).children()[0]
    child.suspend()  # it shall not be done before it is killed, nor the small ones one by one
    together = [submit(small) for _ in range(SMALL)]
    chained = submit({"a": {"job": killed}, "b": {"random": {"shape": [N, 4]}}})
    child.kill()
    for job_id in traces:
        record = client.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=60"}).json()
        assert (record["state"], record["attempt"]) == ("succeeded", 2 if job_id == killed else 1), stack.logs()
    return Story(killed, together, chained, traces, collector, [])


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Celery's parent writes some of its own, which are no JSON."""
    return (json.loads(line) for line in path.read_text().splitlines() if line.startswith("{"))


def test_the_request_is_a_child_of_its_caller_s_span(story: Story) -> None:
    request = story.spans.one(TRACE, "POST /v1/matmul")
    assert (request.part, request.parent) == ("api", CALLER)
    assert request.attributes["http.response.status_code"] == 202
    assert story.traces[story.killed] == TRACE


def test_a_killed_attempt_has_a_span_and_the_next_is_linked_to_it(story: Story) -> None:
    """The killed process could not tell it: its parent did."""
    request = story.spans.one(TRACE, "POST /v1/matmul")
    first, second = story.attempts(story.killed)
    assert first.is_error and first.attributes["error.type"] == "worker_lost"
    assert not second.is_error and second.links == ((TRACE, first.id),)
    assert first.links == () and {first.parent, second.parent} == {request.id}
    assert [each.attributes["matmul.job.attempt"] for each in (first, second)] == [1, 2]
    assert story.spans.children(first) == [] and story.spans.children(second) == PHASES
    waits = story.spans.of(TRACE, "queue wait")
    assert [wait.parent for wait in waits] == [request.id] * 2
    assert waits[0].times_ns < first.times_ns < waits[1].times_ns < second.times_ns


def test_jobs_of_one_launch_have_a_span_each_linked_to_it(story: Story) -> None:
    launches = [span for span in story.spans.spans if span.name == "launch"]
    linked = [link for launch in launches for link in launch.links]
    attempts = [attempt for job_id in story.together for attempt in story.attempts(job_id)]
    assert len(attempts) == SMALL and launches, "some of them were computed together"
    members = [attempt for attempt in attempts if (attempt.trace, attempt.id) in linked]
    assert len(members) == len(linked) > 1
    for launch in launches:
        assert story.spans.children(launch) == sorted({*PHASES} - {"claim", "end"})
    for member in members:
        (launch_of_it,) = member.links
        assert launch_of_it in [(launch.trace, launch.id) for launch in launches]
        request = story.spans.one(member.trace, "POST /v1/matmul")
        assert (member.parent, request.parent) == (request.id, "")


def test_a_chained_job_is_linked_to_the_attempt_whose_product_it_takes(story: Story) -> None:
    (attempt,) = story.attempts(story.chained)
    assert attempt.links == ((TRACE, story.attempts(story.killed)[1].id),)


def test_log_lines_of_all_processes_say_which_request_they_are_about(story: Story) -> None:
    found = [line for line in story.lines if line.get("trace_id") == TRACE]
    assert {line["request_id"] for line in found} == {"of-killed"}
    loggers = {line["logger"] for line in found}
    assert {"service.middleware", "worker.process.ended_child", "worker.process.ends"} <= loggers
    for job_id, trace in story.traces.items():
        about = [line for line in story.lines if job_id in json.dumps(line) and line.get("method") != "GET"]
        assert len(about) >= (3 if job_id == story.killed else 1)
        for line in about:
            assert trace in (line.get("trace_id"), *line.get("trace_ids", ())), line
