"""Fixtures that need real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs.models import new_id
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from tests.support.interned import noted, noted_in
from tests.support.ledger.ledgers import Bench, memory_bench, redis_bench
from tests.support.objects import ObjectServer, start_moto
from tests.support.servers import DURABLE
from tests.support.stores import MakeStores, StoreBench, StoreKind, make_bench, store_settings
from tools.harness.api import Api, http_client, running_api
from tools.stack import Stack


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The test server of object stores is slow: two types stand for all, as elements are bytes to a store, and what is
    about chunks, or the books alone, runs with the others."""
    spared = [item for item in items if _is_spared(item.nodeid, getattr(item, "callspec", None))]
    if spared:
        config.hook.pytest_deselected(items=spared)
        items[:] = [item for item in items if item not in spared]


def _is_spared(name: str, callspec: Any) -> bool:
    params = callspec.params if callspec is not None else {}
    if params.get("make_stores") != "objects":
        return False
    elsewhere = "test_needs.py" in name or "may_lie_in_two_chunks" in name
    return elsewhere or params.get("dtype", "float32") not in ("float32", "bfloat16")


@pytest.fixture(params=["memory", "redis"])
def bench(request: pytest.FixtureRequest, key_prefix: str) -> Iterator[Bench]:
    """Each ledger in turn: what stands on one must not see which it is."""
    if request.param == "memory":
        yield memory_bench()
    else:
        with redis_bench(request.getfixturevalue("valkey"), key_prefix) as bench:
            yield bench


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """An object store for the whole session; tests keep apart by what their keys begin with."""
    server = start_moto(tmp_path_factory.mktemp("objects"))
    yield server
    server.stop()


@pytest.fixture(scope="module", params=["file", "slots", "redis"])
def served(
    request: pytest.FixtureRequest, valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, StoreBench]]:
    """An API on each kind of store, and a look behind it."""
    kind: StoreKind = request.param
    with running_api(valkey, f"{new_id('api')}:", tmp_path_factory.mktemp("api"), **store_settings(kind)) as api:
        client = connect(api.settings)
        yield api, StoreBench(kind, api.settings, client, api.store)
        client.close()


@pytest.fixture(params=["file", "slots", "redis", "objects"])
def make_stores(
    request: pytest.FixtureRequest, valkey: EmbeddedServer, key_prefix: str, tmp_path: Path
) -> Iterator[MakeStores]:
    """Makes a matrix store of each kind in turn, with settings of the test's."""
    kind: StoreKind = request.param
    made: list[StoreBench] = []

    objects: ObjectServer | None = request.getfixturevalue("objects") if kind == "objects" else None

    def make(*, url: str = valkey.url, **settings: object) -> StoreBench:
        if objects is not None:
            settings = objects.settings(key_prefix) | settings
        made.append(make_bench(kind, url, key_prefix, tmp_path, **settings))
        return made[-1]

    yield make
    for bench in made:
        bench.client.close()


@pytest.fixture
def stores(make_stores: MakeStores) -> StoreBench:
    """Each matrix store in turn, on the settings' defaults."""
    return make_stores()


@pytest.fixture(scope="session")
def interned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes of `stack` note the names that they intern; they should not."""
    return tmp_path_factory.mktemp("interned") / "names"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, interned: Path) -> Iterator[Stack]:
    """The whole service as processes: Valkey, API, a CPU worker. No test may kill any of them."""
    settings = {"cpu_threads": "1", "redis_timeout_s": "5"}
    with ExitStack() as running:
        with noted_in(interned):
            stack = running.enter_context(Stack(tmp_path_factory.mktemp("stack"), settings=settings))
        yield stack
        with stack.redis.client() as root:
            assert not root.acl_log(), "API or worker asked Redis for what their users may not (jobs/redis/acl.py)"
        assert not noted(interned), "API or worker grow with each of these names (jobs/disk.py, path_of)"


@pytest.fixture
def client(stack: Stack) -> Iterator[httpx.Client]:
    """An HTTP client of the whole service."""
    with http_client(stack.url) as each:
        yield each


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API whose jobs wait until the test plays the worker."""
    with running_api(valkey, f"{new_id('api')}:", tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture
def quiet(api: Api) -> Iterator[httpx.Client]:
    """An HTTP client of that API."""
    with api.client() as each:
        yield each


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that the test may stop, kill and fill."""
    server = EmbeddedServer(tmp_path / "redis", options=DURABLE)
    server.start()
    yield server
    server.stop()
