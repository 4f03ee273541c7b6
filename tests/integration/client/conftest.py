"""Fixtures that the tests of the client and of its command share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jobs.redis.embedded import EmbeddedServer
from matmul_client import Client
from matmul_client.handles import Benchmark
from tools.harness.api import Api, running_api
from tools.stack import Stack

TIMING = {"rounds": 1, "warmup_ms": 1, "min_samples": 3, "max_samples": 3, "min_time_s": 0.001}
SMALL: dict[str, Any] = {"kernels": ["cpu_blas"], "shapes": [16, 32], "timing": TIMING}


@pytest.fixture
def mm(stack: Stack) -> Iterator[Client]:
    with Client(stack.url) as client:
        yield client


@pytest.fixture(scope="package")
def measured(stack: Stack) -> Iterator[Benchmark]:
    """A benchmark that was started here; it need not have ended."""
    with Client(stack.url) as client:
        yield client.benchmark(**SMALL)


@pytest.fixture(scope="package")
def idle(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API whose jobs wait: no worker is there. One may wait at a time."""
    with running_api(valkey, "idle-client:", tmp_path_factory.mktemp("idle"), max_queued_jobs_per_key=1) as api:
        yield api


def waiting(api: Api) -> int:
    with Client(api.url) as mm:
        return len(mm.jobs(state="queued"))
