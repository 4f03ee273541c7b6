"""How much memory an embedded Redis may take."""

from __future__ import annotations

from pathlib import Path

from jobs.redis.embedded import EmbeddedServer
from jobs.redis.memory import MIN_BYTES, SHARE, machine_bytes, memory_options
from jobs.redis.persistence import memory_of
from jobs.settings import GIB, Settings


def test_redis_memory_is_a_share_of_the_machine_or_the_setting() -> None:
    assert memory_options(Settings(redis_bytes=GIB)) == (f"maxmemory {GIB}",)
    assert memory_options(Settings()) == (f"maxmemory {max(machine_bytes() // SHARE, MIN_BYTES)}",)


def test_a_container_has_the_memory_that_it_is_given(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    whole = machine_bytes(limit)
    for text, bytes_ in (("max\n", whole), (f"{MIN_BYTES}\n", MIN_BYTES), (f"{2 * whole}\n", whole)):
        limit.write_text(text)
        assert machine_bytes(limit) == bytes_


def test_the_server_keeps_to_it_and_evicts_nothing(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, options=memory_options(Settings(redis_bytes=GIB)))
    server.start()
    try:
        with server.client() as client:
            assert memory_of(client).limit_bytes == GIB
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    finally:
        server.stop()
