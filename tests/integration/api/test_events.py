"""GET /v1/jobs/{id}/events: server-sent events that resume, also across a restart of the API."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.redis.embedded import EmbeddedServer
from service import changes
from service.http import streams
from tests.integration.api.test_jobs import PRODUCT, problem, submit
from tools.harness.api import Api, running_api


@dataclass
class Event:
    id: str
    event: str
    data: dict[str, Any]


def read_events(lines: Iterator[str]) -> Iterator[Event]:
    """Events out of a stream's lines; comments and `retry` are passed over."""
    fields: dict[str, str] = {}
    for line in lines:
        if line == "" and "event" in fields:
            yield Event(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


def events(client: httpx.Client, job_id: str, *, after: str | None = None, most: int = 100) -> list[Event]:
    """The stream's events, up to its end or to `most`."""
    headers = {"last-event-id": after} if after else {}
    found: list[Event] = []
    with client.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        for event in read_events(reply.iter_lines()):
            found.append(event)
            if len(found) == most:
                break
    return found


def test_the_whole_life_of_a_job(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(events, quiet, job_id)
        api.succeed(job_id, PRODUCT)
        told = following.result(60)
    assert [event.event for event in told] == ["queued", "running", "succeeded"]
    assert [event.data["state"] for event in told] == ["queued", "running", "succeeded"]
    assert [event.data["version"] for event in told] == [1, 2, 3]
    assert [event.id for event in told] == sorted(event.id for event in told)


def test_resuming_tells_the_rest_once(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    (first,) = events(quiet, job_id, most=1)
    api.succeed(job_id, PRODUCT)
    assert [event.event for event in events(quiet, job_id, after=first.id)] == ["running", "succeeded"]
    last = events(quiet, job_id)[-1]
    assert quiet.get(f"/v1/jobs/{job_id}/events", headers={"last-event-id": last.id}).status_code == 204


def test_a_retry_goes_on_in_the_same_stream(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.ledger.cancel(job_id)
    quiet.post(f"/v1/jobs/{job_id}/retry")
    assert [event.event for event in events(quiet, job_id, most=3)] == ["queued", "cancelled", "queued"]
    api.succeed(job_id, PRODUCT)
    assert [event.event for event in events(quiet, job_id)][-2:] == ["running", "succeeded"]


def test_many_readers_hear_the_same(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    with ThreadPoolExecutor(40) as pool:
        following = [pool.submit(events, quiet, job_id) for _ in range(40)]
        api.succeed(job_id, PRODUCT)
        for reader in following:
            assert [event.event for event in reader.result(60)] == ["queued", "running", "succeeded"]


def test_a_silent_stream_is_kept_open_by_comments(quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the watch looks again by itself before a comment is due, as it does."""
    assert changes.RECHECK_S < streams.PING_S
    monkeypatch.setattr(streams, "PING_S", 0.2)
    monkeypatch.setattr(changes, "RECHECK_S", 0.05)
    monkeypatch.setattr(changes, "POLL_S", 0.05)
    job_id = submit(quiet)
    with quiet.stream("GET", f"/v1/jobs/{job_id}/events") as reply:
        lines = reply.iter_lines()
        assert any(line.startswith("retry: ") for line in lines)
        assert any(line.startswith(":") for line in lines)


def test_whoever_has_heard_more_than_there_is_hears_the_end(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id from another life of the job store: the stream ends with the job, and is not held open for ever."""
    monkeypatch.setattr(streams, "PING_S", 0.05)
    job_id, future = submit(quiet), {"last-event-id": "18446744073709551615-18446744073709551615"}
    with quiet.stream("GET", f"/v1/jobs/{job_id}/events", headers=future) as reply:
        lines = reply.iter_lines()
        assert next(lines).startswith("retry: ")
        api.succeed(job_id, PRODUCT)
        after = [line for line, _ in zip(lines, range(2000), strict=False) if line]
    assert len(after) < 1000 and set(after) <= {": ping"}
    assert quiet.get(f"/v1/jobs/{job_id}/events", headers=future).status_code == 204


def old_client(server: httpx.URL, method: str, path: str) -> tuple[bytes, bytes]:
    """Head and body of what an HTTP/1.0 client receives until the connection ends."""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        connection.sendall(f"{method} {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    return head.lower(), body


def test_http_1_0_has_no_chunks(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    path = f"/v1/jobs/{job_id}/events"
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(old_client, quiet.base_url, "GET", path)
        api.succeed(job_id, PRODUCT)
        head, body = following.result(60)
    assert head.startswith(b"http/1.1 200 ") and b"connection: close" in head
    assert b"transfer-encoding" not in head and b"content-length" not in head
    assert body.startswith(b"retry: ")
    assert [event.event for event in read_events(iter(body.decode().split("\n")))] == ["queued", "running", "succeeded"]
    assert old_client(quiet.base_url, "HEAD", path)[1] == b""
    head, body = old_client(quiet.base_url, "GET", f"/v1/jobs/{job_id}")  # its length is known, and told
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["id"] == job_id


def test_head_names_no_length(api: Api, quiet: httpx.Client) -> None:
    """As GET names none; of a job that has ended neither."""
    waiting, ended = submit(quiet), submit(quiet)
    api.succeed(ended, PRODUCT)
    for job_id in (waiting, ended):
        reply = quiet.head(f"/v1/jobs/{job_id}/events")
        assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/event-stream")
        assert "content-length" not in reply.headers and not reply.content


def test_bad_ids(quiet: httpx.Client) -> None:
    problem(quiet.get("/v1/jobs/job_of_no_one/events"), 404, "job_not_found")
    job_id = submit(quiet)
    asked = quiet.get(f"/v1/jobs/{job_id}/events", headers={"last-event-id": "yesterday"})
    assert problem(asked, 422, "invalid_request")["field"] == "Last-Event-ID"


def test_it_resumes_across_a_restart_of_the_api(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    """And the stream of the one that stops ends, instead of hanging until it is killed."""
    with running_api(valkey, key_prefix, tmp_path) as first, first.client() as client:
        job_id = submit(client)
        told: list[Event] = []
        heard = threading.Event()

        def follow() -> None:
            with first.client() as reader, reader.stream("GET", f"/v1/jobs/{job_id}/events") as reply:
                for event in read_events(reply.iter_lines()):
                    told.append(event)
                    heard.set()

        following = threading.Thread(target=follow)
        following.start()
        assert heard.wait(60)
    following.join(60)  # it raises nothing: the stream came to its end
    assert not following.is_alive()
    with running_api(valkey, key_prefix, tmp_path) as second, second.client() as client:
        second.succeed(job_id, np.ones((3, 2), np.float32))
        assert [event.event for event in events(client, job_id, after=told[-1].id)] == ["running", "succeeded"]
