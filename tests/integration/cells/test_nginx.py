"""Two cells behind nginx, each a Valkey and an API of its own: who answers what, and what a dead cell leaves of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.redis.embedded import EmbeddedServer, free_port
from service.cells.nginx import nginx_configuration
from service.cells.plan import Cell, CellPlan
from tests.integration.api.test_jobs import problem
from tests.support.nginx import needs_nginx
from tools.harness.api import Api, npy, running_api
from tools.nginx import running_nginx

NUMBERS = ("0a1", "0a2")
ASYNC = {"prefer": "respond-async"}


@dataclass
class Cells:
    url: str
    apis: dict[str, Api]
    servers: dict[str, EmbeddedServer]
    stops: dict[str, ExitStack]

    def kill(self, number: str) -> None:
        """Its Valkey and its API."""
        self.servers[number].kill()
        self.stops[number].close()


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    needs_nginx()
    apis, servers, stops = {}, {}, {}
    with ExitStack() as all_of_them:
        for number in NUMBERS:
            place = tmp_path / number
            place.mkdir()
            stops[number] = all_of_them.enter_context(ExitStack())
            servers[number] = EmbeddedServer(place / "redis", key_prefix="matmul:")
            servers[number].start()
            all_of_them.callback(servers[number].stop)
            api = running_api(servers[number], "matmul:", place, cell=number, record_matrix_bytes=16384)
            apis[number] = stops[number].enter_context(api)
        listed = tuple(Cell(cell=number, servers=(f"127.0.0.1:{api.settings.port}",)) for number, api in apis.items())
        port = free_port()
        plan = CellPlan(listen=f"127.0.0.1:{port}", cells=listed)
        all_of_them.enter_context(running_nginx(nginx_configuration(plan), port, tmp_path))
        yield Cells(f"http://127.0.0.1:{port}", apis, servers, stops)


def submit(client: httpx.Client, affinity: str, **body: Any) -> str:
    asked = body or {"a": {"random": {"shape": [4, 4]}}, "b": {"random": {"shape": [4, 4]}}}
    reply = client.post("/v1/matmul", json=asked, headers={**ASYNC, "x-matmul-affinity": affinity})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def cell_of(job: str) -> str:
    return job[4:7]


def test_requests_find_their_cell(cells: Cells) -> None:
    with httpx.Client(base_url=cells.url, timeout=10) as client:
        jobs = {f"work {i}": submit(client, f"work {i}") for i in range(16)}
        assert Counter(map(cell_of, jobs.values())).keys() == set(NUMBERS), "all went to one cell"
        for affinity, job in jobs.items():
            assert len(job) == 36 and cell_of(submit(client, affinity)) == cell_of(job)
            reply = client.get(f"/v1/jobs/{job}")
            assert reply.json()["id"] == job and reply.headers["x-matmul-cell"] == cell_of(job)
            other = cells.apis[next(iter({*NUMBERS} - {cell_of(job)}))]
            problem(httpx.get(f"{other.url}/v1/jobs/{job}"), 404, "job_not_found")
        for number in NUMBERS:
            listed = client.get("/v1/jobs?limit=100", headers={"x-matmul-cell": number}).json()["jobs"]
            assert listed and {cell_of(each["id"]) for each in listed} == {number}
        assert client.get("/metrics").status_code == 404


def test_matrices_are_where_their_callers_work_is(cells: Cells) -> None:
    with httpx.Client(base_url=cells.url, timeout=10) as client:
        for caller in ("ada", "bob", "eve", "dan"):
            headers = {"x-matmul-affinity": caller}
            body = npy(np.full((3, 3), len(caller), np.float32))
            put = client.post("/v1/matrices", content=body, headers={**headers, "content-type": "application/x-npy"})
            name = put.json()["id"]
            submit(client, caller, a={"matrix": name}, b={"matrix": name})
            assert (
                client.get(f"/v1/matrices/{name}", headers={**headers, "accept": "application/json"}).status_code == 200
            )


def test_a_dead_cell_leaves_the_others_untouched(cells: Cells) -> None:
    with httpx.Client(base_url=cells.url, timeout=10) as client:
        jobs = {affinity: submit(client, affinity) for affinity in map(str, range(16))}
        by_cell = {cell_of(job): (affinity, job) for affinity, job in jobs.items()}
        assert by_cell.keys() == set(NUMBERS)
        dead, alive = NUMBERS
        cells.kill(dead)
        for _ in range(5):
            affinity, job = by_cell[alive]
            assert client.get(f"/v1/jobs/{job}").status_code == 200
            assert cell_of(submit(client, affinity)) == alive
            reply = client.get(f"/v1/jobs/{by_cell[dead][1]}")
            assert "cell" in problem(reply, 503, "cell_unavailable")["detail"] and reply.headers["retry-after"]
            refused = client.post("/v1/matmul", json={}, headers={"x-matmul-affinity": by_cell[dead][0]})
            problem(refused, 503, "cell_unavailable")
