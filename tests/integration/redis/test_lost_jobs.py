"""A job whose record is gone, as after a failover to a replica that had not got it: nobody is left to wait for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from jobs.redis.client import connect
from service import changes
from service.http import streams
from tests.integration.api.test_events import read_events
from tests.integration.api.test_jobs import SEEDED, newer_than, newest, problem, submit
from tools.harness.api import Api


def lose(api: Api, job_id: str) -> None:
    with connect(api.settings) as client:
        assert client.delete(f"{api.settings.key_prefix}job:{job_id}")


@pytest.mark.parametrize(("wait_s", "looks_every_s"), [(60, 0.05), (4, 60.0)])
def test_a_caller_who_waits_is_told_to_send_it_again(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch, wait_s: int, looks_every_s: float
) -> None:
    """Where the wait ends before anyone looked, too: it gets no 202."""
    monkeypatch.setattr(changes, "RECHECK_S", looks_every_s)
    before = newest(api)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(quiet.post, "/v1/matmul", json=SEEDED, headers={"prefer": f"wait={wait_s}"})
        lose(api, newer_than(api, before))
        reply = waiting.result()
    assert "send it again" in problem(reply, 503, "store_unavailable")["detail"]
    assert reply.headers["retry-after"] == "1"


def test_a_stream_of_its_events_ends(api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING_S", 0.05)
    job_id = submit(quiet)
    with quiet.stream("GET", f"/v1/jobs/{job_id}/events") as reply:
        heard = read_events(reply.iter_lines())
        assert next(heard).event == "queued"
        lose(api, job_id)
        assert not list(heard)
