"""Redis' disk full: what was answered with 202 is still there after a crash, or it was not answered so."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from jobs.redis.embedded import EmbeddedServer
from tests.integration.api.test_jobs import ASYNC, SEEDED, problem, submit
from tools.harness.api import Api, running_api, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is mounted, which takes root")

PAGE = 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory)], check=True)
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.fixture
def own_server(small_disk: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(small_disk / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def api(own_server: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[Api]:
    with running_api(own_server, key_prefix, tmp_path, record_matrix_bytes=1024, default_wait_s=0.05) as running:
        yield running


def fill(disk: Path) -> Path:
    """Leaves room for a change or two."""
    ballast = disk / "ballast"
    with open(ballast, "wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(PAGE)):
            pass
    os.truncate(ballast, ballast.stat().st_size - PAGE)
    return ballast


def crash(server: EmbeddedServer, ballast: Path) -> None:
    server.kill()
    ballast.unlink()
    server.start()


def accepted_until_refused(client: httpx.Client, path: str, **request: object) -> list[str]:
    """Ids of the jobs that were answered with 202."""
    accepted = []
    while (reply := client.post(path, **request)).status_code == 202:  # type: ignore[arg-type]
        accepted.append(reply.json()["job"]["id"])
    assert "disk" in problem(reply, 503, "store_unavailable")["detail"]
    return accepted


def assert_all_there(client: httpx.Client, jobs: list[str]) -> None:
    until(lambda: client.get("/v1/jobs").status_code == 200)
    assert [client.get(f"/v1/jobs/{job_id}").status_code for job_id in jobs] == [200] * len(jobs)


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("/v1/matmul", {"json": SEEDED, "headers": ASYNC}),
        ("/v1/matmul", {"json": SEEDED}),
        ("/v1/benchmarks", {"json": {"preset": "quick"}}),
    ],
)
def test_what_was_accepted_outlives_a_crash(
    api: Api, quiet: httpx.Client, own_server: EmbeddedServer, small_disk: Path, path: str, request_: dict[str, object]
) -> None:
    ballast = fill(small_disk)
    accepted = accepted_until_refused(quiet, path, **request_)
    crash(own_server, ballast)
    assert_all_there(quiet, accepted)


def test_a_retry_and_a_cancel_too(api: Api, quiet: httpx.Client, own_server: EmbeddedServer, small_disk: Path) -> None:
    jobs = [submit(quiet) for _ in range(30)]
    ballast = fill(small_disk)
    cancelled = []
    for job_id in jobs:
        if quiet.post(f"/v1/jobs/{job_id}/cancel").status_code == 202:
            cancelled.append(job_id)
    assert 0 < len(cancelled) < len(jobs)
    crash(own_server, ballast)
    assert_all_there(quiet, jobs)
    assert {quiet.get(f"/v1/jobs/{job_id}").json()["state"] for job_id in cancelled} == {"cancelled"}
    ballast = fill(small_disk)
    retried = [job_id for job_id in cancelled if quiet.post(f"/v1/jobs/{job_id}/retry").status_code == 202]
    crash(own_server, ballast)
    assert_all_there(quiet, jobs)
    assert {quiet.get(f"/v1/jobs/{job_id}").json()["state"] for job_id in retried} <= {"queued"}


def test_the_probe_tells(api: Api, quiet: httpx.Client, small_disk: Path) -> None:
    assert quiet.get("/readyz").status_code == 200
    ballast = fill(small_disk)
    accepted = accepted_until_refused(quiet, "/v1/matmul", json=SEEDED, headers=ASYNC)
    assert [quiet.get(f"/v1/jobs/{job_id}").status_code for job_id in accepted] == [200] * len(accepted)  # at once
    assert "disk" in problem(quiet.get("/readyz"), 503, "store_unavailable")["detail"]
    assert "matmul_redis_aof_ok 0.0" in quiet.get("/metrics").text
    ballast.unlink()
    until(lambda: quiet.get("/readyz").status_code == 200)
    until(lambda: "matmul_redis_aof_ok 1.0" in quiet.get("/metrics").text)
