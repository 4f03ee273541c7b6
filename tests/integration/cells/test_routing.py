"""To which of two cells nginx sends a request. Each is a server that says its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Literal

import httpx
import pytest

from jobs.redis.embedded import free_port
from service.cells.nginx import nginx_configuration
from service.cells.plan import Cell, CellPlan
from tests.integration.api.test_jobs import problem
from tests.support.nginx import needs_nginx
from tools.nginx import running_nginx

NUMBERS = FIRST, SECOND = ("0a1", "0a2")
NAMES = [f"{i}" for i in range(16)]
Ask = Callable[..., str]


@contextmanager
def routing(directory: Path, new_work: Literal["affinity", "least_connections"]) -> Iterator[Ask]:
    needs_nginx()
    ports = {number: free_port() for number in NUMBERS}
    cells = tuple(Cell(cell=number, servers=(f"127.0.0.1:{port}",)) for number, port in ports.items())
    port = free_port()
    plan = CellPlan(listen=f"127.0.0.1:{port}", cells=cells, new_work=new_work)
    said = "".join(f'server {{ listen 127.0.0.1:{at}; return 200 "{number}"; }}\n' for number, at in ports.items())
    with (
        running_nginx(nginx_configuration(plan) + said, port, directory),
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):

        def ask(path: str = "/v1/limits", **headers: str) -> str:
            reply = client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            assert reply.headers.get("x-matmul-cell") in (reply.text, None)
            return str(reply.headers.get("x-matmul-cell", "any"))

        yield ask


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with routing(tmp_path_factory.mktemp("nginx"), "affinity") as ask:
        yield ask


@pytest.mark.parametrize(
    "path",
    ["v1/jobs/job_", "v1/benchmarks/job_", "v1/matrices/c_", "v1/uploads/up_", "ui/jobs/job_", "ui/benchmarks/job_"],
)
def test_an_id_names_its_cell_whatever_else_is_said(ask: Ask, path: str) -> None:
    for number, other in permutations(NUMBERS):
        assert ask(f"/{path}{number}{'0' * 29}", x_matmul_cell=other, cookie=f"matmul_cell={other}") == number


def test_a_name_within_another_path_is_no_id(ask: Ask) -> None:
    for number, other in permutations(NUMBERS):
        assert ask(f"/v1/matrices/x/v1/jobs/job_{number}", x_matmul_cell=other) == other


def test_what_requests_have_in_common(ask: Ask) -> None:
    said = {name: ask(x_matmul_affinity=name) for name in NAMES}
    assert set(said.values()) == set(NUMBERS)
    assert {name: ask(x_api_key=name) for name in NAMES} == said
    assert {name: ask(authorization=f"bearer {name}") for name in NAMES} == said
    assert len({ask() for _ in range(8)}) == 1, "by the address"


def test_what_comes_first(ask: Ask) -> None:
    """A header with a cell, a cookie, an affinity, a token, a key."""
    mine = {ask(x_matmul_affinity=name): name for name in NAMES}
    more = {"x_api_key": mine[FIRST]}
    assert ask(**more) == FIRST
    more["authorization"] = f"Bearer {mine[SECOND]}"
    assert ask(**more) == SECOND
    more["x_matmul_affinity"] = mine[FIRST]
    assert ask(**more) == FIRST
    more["cookie"] = f"matmul_cell={SECOND}"
    assert ask(**more) == SECOND
    more["x_matmul_cell"] = FIRST
    assert ask(**more) == FIRST
    assert ask(x_matmul_cell="fff", x_matmul_affinity=mine[SECOND]) == SECOND, "there is no such cell"


def test_forty_cells_with_many_hosts_each(tmp_path: Path) -> None:
    """nginx keeps what it knows of each host in memory of a given size."""
    needs_nginx()
    port = free_port()
    servers = tuple(f"127.0.{i}.1:8000" for i in range(64))
    cells = tuple(Cell(cell=f"{i:03x}", servers=servers) for i in range(40))
    plan = CellPlan(listen=f"127.0.0.1:{port}", cells=cells, new_work="least_connections")
    with running_nginx(nginx_configuration(plan), port, tmp_path):
        assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 404


def test_a_refusal_for_a_dead_cell_is_whole_and_ends_its_connection(tmp_path: Path) -> None:
    """Also of a request whose body is still on its way, which nginx reads no further."""
    needs_nginx()
    port = free_port()
    cells = (Cell(cell=FIRST, servers=(f"127.0.0.1:{free_port()}",)),)
    plan = CellPlan(listen=f"127.0.0.1:{port}", cells=cells)
    with (
        running_nginx(nginx_configuration(plan), port, tmp_path),
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        for method, body in (("GET", b""), ("POST", b"small"), ("POST", bytes(1 << 20)), ("DELETE", b"")) * 3:
            reply = client.request(method, "/v1/matmul", content=body)
            assert "cell" in problem(reply, 503, "cell_unavailable")["detail"] and reply.headers["retry-after"]
            assert (reply.headers["x-matmul-cell"], reply.headers["connection"]) == (FIRST, "close")


def test_least_connections_is_for_what_belongs_to_nothing(tmp_path: Path) -> None:
    with routing(tmp_path, "least_connections") as ask:
        assert {ask() for _ in range(16)} == {"any"}
        assert len({ask(x_matmul_affinity="one") for _ in range(8)}) == 1
        assert ask(x_matmul_cell=SECOND) == SECOND
