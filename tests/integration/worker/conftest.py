"""Fixtures for tests of workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.redis.embedded import EmbeddedServer
from tests.support.workers.workers import WorkerBench


@pytest.fixture
def bench(valkey: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    """No worker is started: the tests are it."""
    bench = WorkerBench(valkey, tmp_path)
    yield bench
    bench.client.close()
