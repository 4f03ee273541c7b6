"""`make run` as its user meets it: starts, keeps running, stops, knows its jobs at the next start, leaves nothing."""

from __future__ import annotations

import re
import socket
import subprocess
import urllib.error
from pathlib import Path

import psutil
import pytest
import redis

from tests.support.local import COMMAND, Local, alive, children_of, eventually

PRODUCT = re.compile(
    r"^Product: .* float32 by \S+ on .+: kernel [\d.]+ ms, [\d.]+ GFLOPS; verified: residual \S+ ≤ \S+$", re.MULTILINE
)


def workers_of(local: Local) -> list[psutil.Process]:
    """The workers that the launcher started, without their own children."""
    return children_of(local.process.pid, "worker")


def refusal(local: Local) -> str:
    """What a start says that cannot succeed."""
    done = subprocess.run(COMMAND, env=local.environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def refused_by_redis(local: Local) -> list[object]:
    """What API or workers asked of Redis and may not: each has a user of its own."""
    with redis.Redis.from_url(local.redis_url()) as root:
        users = {client["user"] for client in root.client_list()}
        assert {"matmul-api", "matmul-worker"} <= users
        return list(root.acl_log())


def test_runs_stops_and_remembers(tmp_path: Path) -> None:
    with Local(tmp_path) as local:
        assert PRODUCT.search(local.output), local.output
        assert local.url in local.output
        assert "is in use by a running `make run`" in refusal(local)
        (job,) = local.get("/v1/jobs")["jobs"]
        assert not refused_by_redis(local)
        family = local.family()
        assert local.interrupt() == 0, local.output
        eventually(lambda: not alive(family))

    with Local(tmp_path) as again:
        assert again.get(f"/v1/jobs/{job['id']}") == job
        assert len(again.get("/v1/jobs")["jobs"]) == 2  # that one, and the first product of this start


def test_an_address_others_reach_gets_a_key_and_kills_are_survived(tmp_path: Path) -> None:
    with Local(tmp_path, host="0.0.0.0") as local:
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            local.get("/v1/jobs")
        refused.value.close()
        key = {"Authorization": f"Bearer {local.api_key}"}
        assert len(local.get("/v1/jobs", **key)["jobs"]) == 1

        (worker,) = workers_of(local)
        its_family = worker.children(recursive=True)
        assert its_family  # a worker computes in a child
        started_at = local.get("/v1/devices", **key)["devices"][0]["started_at"]
        worker.kill()
        eventually(lambda: not alive(its_family))
        eventually(
            lambda: started_at not in [each["started_at"] for each in local.get("/v1/devices", **key)["devices"]]
        )
        eventually(lambda: local.get("/v1/devices", **key)["devices"])

        family = local.family()
        local.process.kill()
        eventually(lambda: not alive(family))


def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    local = Local(tmp_path)
    with socket.create_server(("127.0.0.1", local.port)):
        assert f"port {local.port} cannot be used" in refusal(local)
