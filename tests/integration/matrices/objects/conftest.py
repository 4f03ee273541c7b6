from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.redis.embedded import EmbeddedServer
from tests.integration.matrices.objects.hosts import Hosts
from tests.support.objects import ObjectServer


@pytest.fixture
def host(valkey: EmbeddedServer, objects: ObjectServer, key_prefix: str, tmp_path: Path) -> Iterator[Hosts]:
    hosts = Hosts(valkey, objects, key_prefix, tmp_path)
    yield hosts
    for bench in hosts.made:
        bench.client.close()
