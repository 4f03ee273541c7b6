"""The cost of a cell for its Redis: of workers that only run (renewals of leases, heartbeats, reading them), and of a
job from its submission to its end.

    python -m benchmarks.measure.scale.beats [--workers 256] [--out benchmarks/results/scale_beats.json]

Processor time of Redis for each call, from its own statistics before and after many calls, with as many running jobs
and live workers as a cell has; and the time that an API process takes to read the register of workers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis
from pydantic import SecretStr

from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.interface import Ledger
from jobs.models import ANONYMOUS, MatmulRequest, Measured, NewJob, Outcome, ProductInfo, Verification
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.operands import OperandRef, RandomSpec
from jobs.settings import Settings
from kernels.catalog import KERNEL_NAMES
from tools.harness.api import worker_info
from worker.cpu.environment import dated_environment

CALLS = 20_000
BEAT_S = 1.0  # as in worker/process/heartbeat.py
READ_EVERY_S = 0.4  # as in service/api_process/live_workers.py


def server_s(client: redis.Redis) -> float:
    """Processor time that the server has used."""
    info = client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def cost_us(client: redis.Redis, call: Callable[[int], object], calls: int) -> float:
    """Microseconds of the server's processor for each call."""
    for i in range(calls // 20):
        call(i)
    before = server_s(client)
    for i in range(calls):
        call(i)
    return (server_s(client) - before) / calls * 1e6


def new_job() -> NewJob:
    random = RandomSpec(shape=(64, 64), dtype="float32")
    operand = OperandRef(source="random", dtype="float32", shape=(64, 64), random=random)
    request = MatmulRequest(a=operand, b=operand, accuracy="fp32")
    return NewJob(owner=ANONYMOUS, queue="gpu", timeout_s=600.0, request=request)


def outcome() -> Outcome:
    return Outcome(
        kernel="cpu_blas",
        config={},
        why="cpu_blas was asked for.",
        device="A CPU",
        product=ProductInfo(shape=(64, 64), dtype="float32", bytes=16384),
        measured=Measured(h2d_ms=0.1, kernel_ms=0.5, d2h_ms=0.1),
        gflops=1.0,
        verification=Verification(method="freivalds", residual=1e-8, threshold=1e-6, passed=True),
    )


def lives(client: redis.Redis, ledger: Ledger, count: int) -> dict[str, float]:
    """The cost of each step of a job's life, one after the other, without the broker's part."""
    jobs = [new_job() for _ in range(count + count // 20)]
    done = outcome()

    def cost(call: Callable[[str], object]) -> float:
        names = iter([job.id for job in jobs])
        return cost_us(client, lambda _: call(next(names)), count)

    known = {job.id: job for job in jobs}
    return {
        "submit": cost(lambda name: ledger.submit(known[name], max_queued=10**6, max_queued_per_owner=10**6)),
        "claim": cost(lambda name: ledger.claim(name, 1, worker="one", lease_s=600.0)),
        "succeed": cost(lambda name: ledger.succeed(name, 1, done, None)),
        "get": cost(lambda name: ledger.get(name, owner=ANONYMOUS)),
    }


def running_jobs(ledger: Ledger, count: int) -> list[str]:
    """Jobs that are each claimed by a worker."""
    names = []
    for i in range(count):
        job = new_job()
        ledger.submit(job, max_queued=10**6, max_queued_per_owner=10**6)
        assert ledger.claim(job.id, 1, worker=f"worker-{i}", lease_s=600.0) is not None
        names.append(job.id)
    return names


def measured(workers: int, calls: int) -> dict[str, Any]:
    with TemporaryDirectory(prefix="matmul-redis-") as directory:
        server = EmbeddedServer(Path(directory))
        server.start()
        settings = Settings(redis_url=SecretStr(server.url), key_prefix="m:{000}:")
        try:
            with connect(settings, timeout_s=30.0) as client:
                return _measured(client, settings, workers, calls)
        finally:
            server.stop()


def _measured(client: redis.Redis, settings: Settings, workers: int, calls: int) -> dict[str, Any]:
    ledger, registry = make_ledger(settings, client), WorkerRegistry(client, prefix=settings.key_prefix)
    steps = lives(client, ledger, max(100, calls // 10))
    jobs = running_jobs(ledger, workers)
    infos = [
        worker_info(f"host-{i // 8}/gpu:{i % 8}/1", kernels=KERNEL_NAMES, device_class="gpu") for i in range(workers)
    ]
    renew_us = cost_us(client, lambda i: ledger.renew(jobs[i % workers], 1, lease_s=600.0), calls)
    beat_us = cost_us(client, lambda i: registry.beat(infos[i % workers], 3600.0), calls)
    reads = max(1, calls // 200)
    read_us = cost_us(client, lambda _: registry.live(), reads)
    begun = time.process_time()
    for _ in range(reads):
        assert len(registry.live()) == workers
    api_read_ms = (time.process_time() - begun) / reads * 1e3
    return {
        "workers": workers,
        "calls": calls,
        "renew_us": renew_us,
        "beat_us": beat_us,
        "read_us": read_us,
        "api_read_ms": api_read_ms,
        "steps_us": steps,
        "beat_s": BEAT_S,
        "read_every_s": READ_EVERY_S,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--out", type=Path, help="where the record is written")
    chosen = parser.parse_args()
    record = {"environment": dated_environment("redis")} | measured(chosen.workers, chosen.calls)
    text = json.dumps(record, indent=1)
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
