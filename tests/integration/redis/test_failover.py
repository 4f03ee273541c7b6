"""A primary that dies, and one that becomes a replica, under the whole service, which reaches them by TLS.

Three servers, a Sentinel, and one address that leads to whichever is the primary. A 202 waits for one replica.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from jobs.redis.acl import Role
from jobs.redis.embedded import EmbeddedServer
from tests.integration.api.test_events import events, read_events
from tests.soak.traffic import SHARES, Share, talk
from tests.support.replicas.certificates import Authority
from tests.support.replicas.endpoint import Endpoint, server_context
from tests.support.replicas.servers import Servers, demote, hand_over, let_promote, sentinel, until
from tools.harness.api import http_client
from tools.stack import Stack

REPLICAS, ACCEPTED = 2, 20


class ReplicatedStack(Stack):
    """Its processes reach Redis by one address alone, by TLS, and show a certificate of their own."""

    def __init__(self, directory: Path, servers: Servers, endpoint: Endpoint, authority: Authority) -> None:
        settings = {"cpu_threads": "1", "redis_replicas": "1", "redis_timeout_s": "5"}
        super().__init__(directory, settings=settings)
        self.redis, self._servers, self._endpoint, self._authority = servers.primary, servers, endpoint, authority

    def start_api(self) -> None:
        self._servers.start_replicas()
        super().start_api()

    def _spawn(self, name: str, role: Role, *command: str, **more: str) -> subprocess.Popen[bytes]:
        mine = self._authority.give(name)
        files = f"ssl_ca_certs={self._authority.file}&ssl_certfile={mine.certificate}&ssl_keyfile={mine.key}"
        there = urlsplit(self.redis.url_of(role))
        user = f"{there.username}:{there.password}"
        url = f"rediss://{user}@127.0.0.1:{self._endpoint.port}/0?{files}"
        return super()._spawn(name, role, *command, **more, MATMUL_REDIS_URL=url)


@dataclass
class Service:
    stack: ReplicatedStack
    servers: Servers
    endpoint: Endpoint
    directory: Path

    def lead_to(self, port: int) -> EmbeddedServer:
        self.endpoint.target = port
        return next(each for each in self.servers.all if each.port == port)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("failover")
    authority, servers = Authority(directory / "authority"), Servers(directory, REPLICAS)
    with ExitStack() as running:
        endpoint = running.enter_context(Endpoint(servers.primary.port, server_context(authority)))
        running.callback(servers.stop)
        stack = running.enter_context(ReplicatedStack(directory, servers, endpoint, authority))
        yield Service(stack, servers, endpoint, directory)


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with http_client(service.stack.url) as each:
        yield each


@contextmanager
def standstill(worker: subprocess.Popen[bytes]) -> Iterator[None]:
    """Of parent and child, as on a host that lost its way for a while."""
    os.killpg(worker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(worker.pid, signal.SIGCONT)


def product_of(number: int) -> dict[str, Any]:
    return {"a": [[number, 1], [2, 3]], "b": [[1, 0], [0, number]]}


def expected(number: int) -> list[list[float]]:
    return [[number, number], [2, 3 * number]]


def follow(client: httpx.Client, job: str, heard: list[str]) -> None:
    """One stream, to its end."""
    with client.stream("GET", f"/v1/jobs/{job}/events") as reply:
        for event in read_events(reply.iter_lines()):
            heard.append(event.event)


def promoted(client: Any, before: int) -> int:
    """The port of the one that Sentinel made the primary."""
    found: list[int] = []

    def is_another() -> bool:
        _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "service")
        found[:] = [int(port)]
        return found != [before]

    until(is_another)
    return found[0]


def test_a_primary_that_dies_takes_no_accepted_job_with_it(service: Service, client: httpx.Client) -> None:
    """Jobs wait, a caller waits for its product, another follows a job, and the worker misses all of it."""
    primary = service.servers.primary
    with sentinel(service.directory, service.servers) as watching, ThreadPoolExecutor(2) as pool:
        with standstill(service.stack.workers[0]):
            asked = {"prefer": "respond-async"}
            replies = [client.post("/v1/matmul", json=product_of(i), headers=asked) for i in range(ACCEPTED)]
            assert {reply.status_code for reply in replies} == {202}
            jobs = [reply.json()["job"]["id"] for reply in replies]
            waiting = pool.submit(client.post, "/v1/matmul", json=product_of(99), headers={"prefer": "wait=60"})
            heard: list[str] = []
            following = pool.submit(follow, client, jobs[-1], heard)
            until(lambda: heard and len(client.get("/v1/jobs").json()["jobs"]) == ACCEPTED + 1)
            primary.kill()
            let_promote(watching)
            service.lead_to(promoted(watching, primary.port))
        assert waiting.result().json()["c"] == expected(99), waiting.result().text
        following.result()
        assert heard[0] == "queued" and heard[-1] == "succeeded"
    for number, job in enumerate(jobs):
        assert client.get(f"/v1/jobs/{job}", headers={"prefer": "wait=60"}).json()["state"] == "succeeded"
        product = client.get(f"/v1/jobs/{job}/product", headers={"accept": "application/json"})
        assert product.json()["c"] == expected(number), product.text
        ends = Counter(event.event for event in events(client, job))
        assert ends["succeeded"] == 1, "a job ends once"


def test_who_is_connected_to_what_became_a_replica_turns_to_the_new_primary(service: Service) -> None:
    """While callers are on every path, the primary hands over to a replica and keeps all its connections."""
    before = service.lead_to(service.endpoint.target)
    if not service.servers.primary.running:  # it died in the test before
        service.servers.primary.start()
        demote(service.servers.primary, before)
    after = next(each for each in service.servers.all if each is not before)
    with ThreadPoolExecutor(1) as pool:
        share = Share(service.stack.api_port, ["a key"], 5, 7, 200, 4, time.monotonic() + 300)
        began: list[None] = []
        talking = pool.submit(talk, share, lambda: began.append(None))
        until(lambda: len(began) > 50)
        hand_over(before, after)
        service.lead_to(after.port)
        tally = talking.result()
    assert tally.wrong == []
    assert tally.conversations == Counter({path: 2 * share for path, share in SHARES.items()})
    with after.client() as root:
        names = {each["user"] for each in root.client_list()}
    assert {"matmul-api", "matmul-worker"} <= names
