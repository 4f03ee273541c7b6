"""Several API processes on one address: all work, one that dies is missed by no one, and none is left at the end."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import numpy as np
import psutil
import pytest

from jobs.models import new_id
from tests.support.local import Local, alive, children_of, eventually
from tools.harness.api import http_client, npy
from tools.stack import Stack

PROCESSES = 2
CLIENTS, PRODUCTS = 6, 12  # of each
TIMEOUT_S = 60.0
# The process stops and sends its callers home; the request whose connection broke still holds the key.
ASK_AGAIN = (202, 409)
COUNT = re.compile(r'^matmul_http_requests_total{.*route="/v1/matmul".*} (\S+)$', re.MULTILINE)


def members_of(keeper: subprocess.Popen[Any] | None) -> list[psutil.Process]:
    """The API processes that a process keeps running, oldest first."""
    assert keeper is not None
    return children_of(keeper.pid, "service.server.member")


def connections_of(process: psutil.Process, port: int) -> int:
    return sum(each.laddr.port == port and each.status == "ESTABLISHED" for each in process.net_connections("tcp"))


def multiply(client: httpx.Client, a: np.ndarray, b: np.ndarray) -> None:
    """Asks until it is answered, as a client would whose connection broke; under one key, so that it is one job."""
    files = {"a": ("a", npy(a), "application/x-npy"), "b": ("b", npy(b), "application/x-npy")}
    headers = {"accept": "application/octet-stream", "idempotency-key": new_id("key")}
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            reply = client.post("/v1/matmul", files=files, headers=headers)
            if reply.status_code not in ASK_AGAIN:
                break
    assert reply.status_code == 200, reply.text
    np.testing.assert_array_equal(np.frombuffer(reply.content, np.int32).reshape(a.shape[0], b.shape[1]), a @ b)


def one_client(client: httpx.Client, seed: int, half_way: Event, go_on: Event) -> None:
    random = np.random.default_rng(seed)
    for index in range(PRODUCTS):
        if index == PRODUCTS // 2:
            half_way.set()
            go_on.wait(TIMEOUT_S)
        a, b = (random.integers(-9, 9, (9 + seed, 9 + seed), dtype=np.int32) for _ in range(2))
        multiply(client, a, b)


def products_while(clients: Sequence[httpx.Client], fault: Callable[[], None]) -> None:
    """All clients' products; in the middle of each one's, `fault`."""
    half_way, go_on = [Event() for _ in clients], Event()
    with ThreadPoolExecutor(len(clients)) as pool:
        done = [
            pool.submit(one_client, client, seed, event, go_on)
            for seed, (client, event) in enumerate(zip(clients, half_way, strict=True))
        ]
        for event in half_way:
            event.wait(TIMEOUT_S)
        fault()
        go_on.set()
        for each in done:
            each.result()


@contextmanager
def clients_of(url: str, members: Sequence[psutil.Process]) -> Iterator[list[httpx.Client]]:
    """CLIENTS with a connection each, and more where that takes them to reach every process."""
    port, clients = httpx.URL(url).port, list[httpx.Client]()
    assert port is not None
    with ExitStack() as stack:

        def all_reached() -> bool:
            clients.append(stack.enter_context(http_client(url)))
            clients[-1].get("/livez")
            return len(clients) >= CLIENTS and all(connections_of(each, port) for each in members)

        eventually(all_reached)
        yield clients


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("processes")
    settings = {"cpu_threads": "1", "api_processes": str(PROCESSES), "unix_socket": str(directory / "api.sock")}
    with Stack(directory, settings=settings) as running:
        yield running


@pytest.fixture
def stack(shared: Stack) -> Stack:
    """With all of its API processes, whatever the test before did to them."""
    assert shared.api is not None
    if shared.api.poll() is not None:
        shared.start_api()
    eventually(lambda: len(members_of(shared.api)) == PROCESSES)
    shared.wait_until_ready()
    return shared


def unix_socket_of(stack: Stack) -> str:
    return stack.environment["MATMUL_UNIX_SOCKET"]


@pytest.mark.parametrize("end", [psutil.Process.kill, psutil.Process.terminate], ids=["killed", "stopped"])
def test_one_that_ends_is_missed_by_no_one(stack: Stack, end: Callable[[psutil.Process], None]) -> None:
    before = members_of(stack.api)
    assert len(before) == PROCESSES

    with clients_of(stack.url, before) as clients:
        products_while(clients, lambda: end(before[0]))
    eventually(lambda: alive(before) == before[1:])
    eventually(lambda: len(members_of(stack.api)) == PROCESSES)


def is_replaced(ended: psutil.Process, stack: Stack) -> bool:
    return not alive([ended]) and len(members_of(stack.api)) == PROCESSES


def test_what_they_count_is_added_up_and_never_falls(stack: Stack) -> None:
    def counted() -> float:
        with http_client(stack.url) as client:
            return sum(map(float, COUNT.findall(client.get("/metrics").text)))

    before = counted()
    with clients_of(stack.url, members_of(stack.api)) as clients:
        products_while(clients, lambda: None)
    after = before + len(clients) * PRODUCTS
    eventually(lambda: counted() >= after)  # a request is counted once its reply was sent
    assert {counted() for _ in range(4)} == {after}
    for each in members_of(stack.api):
        each.kill()
        eventually(partial(is_replaced, each, stack))
    assert {counted() for _ in range(4)} == {after}


def test_they_answer_on_a_unix_socket_too(stack: Stack) -> None:
    transport = httpx.HTTPTransport(uds=unix_socket_of(stack))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        multiply(client, np.eye(3, dtype=np.int32), np.eye(3, dtype=np.int32))
        assert client.get("/livez", headers={"host": "elsewhere"}).status_code == 403


def job_ids(client: httpx.Client) -> set[str]:
    return {job["id"] for job in client.get("/v1/jobs").json()["jobs"]}


def test_asked_to_stop_they_send_what_is_under_way_and_all_end(stack: Stack) -> None:
    assert stack.api is not None
    family = psutil.Process(stack.api.pid).children(recursive=True)
    random = {"random": {"shape": [700, 700], "seed": 1}}
    with ThreadPoolExecutor(4) as pool, http_client(stack.url) as client:
        before = job_ids(client)
        asked = [pool.submit(client.post, "/v1/matmul", json={"a": random, "b": random}) for _ in range(4)]
        eventually(lambda: len(job_ids(client) - before) == len(asked))  # a connection not accepted yet would be reset
        stack.api.terminate()
        assert {each.result().status_code for each in asked} <= {200, 202}
    assert stack.api.wait(90) == 0
    eventually(lambda: not alive(family))
    assert not Path(unix_socket_of(stack)).exists()
    with pytest.raises(httpx.ConnectError), http_client(stack.url) as client:
        client.get("/livez")


def test_they_do_not_outlive_who_keeps_them(stack: Stack) -> None:
    assert stack.api is not None
    family = psutil.Process(stack.api.pid).children(recursive=True)
    stack.api.kill()
    eventually(lambda: not alive(family))


def test_make_run_keeps_them_too(tmp_path: Path) -> None:
    with Local(tmp_path, api_processes=str(PROCESSES)) as local:
        first, second = members_of(local.process)
        with clients_of(local.url, [first, second]) as clients:
            products_while(clients, first.kill)
        assert alive([second])
        eventually(lambda: len(members_of(local.process)) == PROCESSES)
        assert "api-1    | ended unexpectedly" in local.output
        family = local.family()
        assert local.interrupt() == 0, local.output
        eventually(lambda: not alive(family))
