"""What /v2 tells of products: counted once each, in the step that ends them, in all API processes alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.errors import VerificationFailed, WorkerLost
from jobs.ledger.codec import job_error
from jobs.ledger.interface import Success
from jobs.ledger.totals import Served, served_of
from jobs.models import ProductInfo, new_id
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import Bench, outcome, redis_bench
from tools.harness.api import running_api

KERNEL = outcome().kernel


@pytest.fixture
def counted(valkey: EmbeddedServer, key_prefix: str) -> Iterator[tuple[Bench, Any]]:
    with redis_bench(valkey, key_prefix) as bench, valkey.client() as client:
        yield bench, lambda: served_of(client, key_prefix)


def test_a_product_counts_once(counted: tuple[Bench, Any]) -> None:
    bench, served = counted
    message = bench.submit()
    bench.clock.advance(0.002)
    assert bench.claim(message)
    bench.clock.advance(0.005)
    assert served() == {}
    assert bench.succeed(message)
    ns = {name: round(ms * 1e6) for name, ms in outcome().measured.model_dump().items()}
    once = Served(1, 1, 7_000_000, 2_000_000, ns["h2d_ms"], ns["kernel_ms"], ns["d2h_ms"])
    assert served() == {KERNEL: once}
    assert bench.succeed(message)  # its first answer was lost
    assert served() == {KERNEL: once}
    assert bench.succeed(bench.running())
    assert served()[KERNEL].products == 2 and served()[KERNEL].kernel_ns == 2 * once.kernel_ns
    assert not bench.ledger.succeed(message.job_id, 2, outcome())  # a late attempt
    assert served()[KERNEL].products == 2


def test_a_launch_may_make_several(counted: tuple[Bench, Any]) -> None:
    bench, served = counted
    shapes: list[tuple[int, ...]] = [(2, 2), (2, 2), (1, 2)]  # padded to one
    made = [ProductInfo(shape=shape, dtype="float32", bytes=4 * math.prod(shape)) for shape in shapes]
    outcomes = [outcome().model_copy(update={"batch": 3, "product": each}) for each in made]
    messages = [bench.running() for _ in range(3)]
    bench.ledger.cancel(messages[0].job_id)
    done = [Success(each.job_id, 1, its) for each, its in zip(messages, outcomes, strict=True)]
    bench.ledger.succeed_all(done)
    assert (served()[KERNEL].products, served()[KERNEL].launches) == (2, 1)


def test_failed_ones_count_for_the_kernel_asked_for(counted: tuple[Bench, Any]) -> None:
    bench, served = counted
    message = bench.submit(kernel=KERNEL)
    bench.claim(message)
    bench.clock.advance(0.004)
    bench.ledger.fail(message.job_id, 1, job_error(VerificationFailed), max_attempts=1)
    assert served() == {KERNEL: Served(failed=1, failed_ns=4_000_000)}
    lost = bench.running()
    bench.ledger.fail(lost.job_id, 1, job_error(WorkerLost), max_attempts=2)
    assert served().keys() == {KERNEL}  # it runs again
    bench.ledger.cancel(lost.job_id)
    benchmark = bench.submit_benchmark()
    bench.claim(benchmark)
    bench.ledger.fail(benchmark.job_id, 1, job_error(WorkerLost), max_attempts=1)
    assert served().keys() == {KERNEL}


def test_another_api_process_tells_the_same(valkey: EmbeddedServer, tmp_path: Path) -> None:
    prefix = f"{new_id('stats')}:"

    def told(client: httpx.Client, path: str) -> Any:
        return client.get(path).json()["model_stats"]

    with running_api(valkey, prefix, tmp_path) as first, first.client() as client:
        options = {"a": [[1]], "b": [[2]], "kernel": "cpu_blas"}
        job = client.post("/v1/matmul", json=options, headers={"prefer": "respond-async"}).json()["job"]["id"]
        first.succeed(job, np.array([[2.0]], np.float32))
        mine = told(client, "/v2/models/stats")
    with running_api(valkey, prefix, tmp_path) as second, second.client() as client:
        assert told(client, "/v2/models/stats") == mine
        (of_all,), (of_one,) = told(client, "/v2/models/matmul/stats"), told(client, "/v2/models/cpu_blas/stats")
        (of_other,) = told(client, "/v2/models/naive/versions/1/stats")
    assert of_all["inference_stats"] == of_one["inference_stats"]
    assert (of_all["inference_count"], of_all["execution_count"], of_other["inference_count"]) == (1, 1, 0)
    assert of_all["inference_stats"]["compute_infer"] == {"count": 1, "ns": 500_000}
    assert of_all["inference_stats"]["success"]["ns"] > of_all["inference_stats"]["queue"]["ns"] > 0
    assert of_all["inference_stats"]["cache_hit"] == {"count": 0, "ns": 0}
