"""An API server in this process, with no worker behind it but one that the caller plays."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
from pydantic import SecretStr

from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import DeviceInfo, WorkerInfo
from jobs.formats.elements import Array
from jobs.ledger.redis import RedisLedger
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import MatrixStore
from jobs.matrices.packed import pack
from jobs.models import ANONYMOUS, Job, Measured, Outcome, ProductInfo, Verification, product_id
from jobs.queue import bench_queue, make_ledger
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.settings import Settings
from jobs.states import JobState
from kernels.model.numerics import DTypeName
from service.server.addresses import bind
from service.server.main import make_server
from tools.harness.elements import dtype_name

START_TIMEOUT_S, END_TIMEOUT_S = 60.0, 240.0
FAKE_TTL_S = 300.0
KEPT_IDLE_S = 2.0
REDIS_TIMEOUT_S = 5.0  # for an answer of Redis: by default a request that a busy machine holds up may be refused
JSON = {"content-type": "application/json"}


def worker_info(worker_id: str = "played", *, kernels: tuple[str, ...] = ("cpu_blas",), **device: Any) -> WorkerInfo:
    """A live worker as its heartbeat tells it."""
    now = datetime.now(UTC)
    info = DeviceInfo(**{"name": "A CPU", "device_class": "cpu", **device})
    return WorkerInfo(
        id=worker_id,
        state="ready",
        device=info,
        queue=info.device_class,
        bench_queue=bench_queue(info.name),
        kernels=kernels,
        started_at=now,
        seen_at=now,
        lease_s=FAKE_TTL_S,
    )


def http_client(url: str, **headers: str) -> httpx.Client:
    """One that never sends on a connection which the server, as it was idle so long, may be about to close."""
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEPT_IDLE_S)
    return httpx.Client(
        base_url=url, timeout=60, headers=headers, limits=limits, verify=False
    )  # certificates take long


@dataclass
class Api:
    """The server, and what stands behind it. `worker` methods are what a worker would do."""

    url: str
    settings: Settings
    ledger: RedisLedger
    store: MatrixStore
    registry: WorkerRegistry

    def client(self, **headers: str) -> httpx.Client:
        return http_client(self.url, **headers)

    def claim(self, job_id: str) -> Job:
        """As a worker: takes the job."""
        attempt = self.ledger.get(job_id).record.attempt
        claimed = self.ledger.claim(job_id, attempt, worker="played", lease_s=60)
        assert claimed is not None
        return claimed.job

    def succeed(self, job_id: str, product: Array, *, dtype: DTypeName | None = None) -> None:
        """As a worker: computes it, with this product."""
        job, kind = self.claim(job_id), dtype or dtype_name(product)
        name = product_id(job_id, job.record.attempt)
        packed = pack(product.tobytes()) if job.product_in_record else None
        if packed is None:
            self._store(name, product, kind, job.owner)
        self._record(job, kind, product, packed)

    def _store(self, name: str, product: Array, kind: DTypeName, owner: str) -> None:
        with self.store.create(kind, product.shape, owner=owner, ttl_s=60, name=name) as writer:
            writer.write(product.tobytes())
            writer.commit()

    def _record(self, job: Job, kind: DTypeName, product: Array, packed: bytes | None) -> None:
        outcome = Outcome(
            kernel="cpu_blas",
            config={},
            why="cpu_blas was asked for.",
            device="A CPU",
            product=ProductInfo(shape=product.shape, dtype=kind, bytes=product.nbytes),
            measured=Measured(h2d_ms=0.0, kernel_ms=0.5, d2h_ms=0.0),
            gflops=1.0,
            verification=Verification(method="freivalds", residual=1e-8, threshold=1e-6, passed=True),
        )
        assert self.ledger.succeed(job.id, job.record.attempt, outcome, packed)

    def stored_bytes(self, owner: str = ANONYMOUS) -> int:
        return self.store.used_bytes(owner=owner)


@contextmanager
def running_api(server: EmbeddedServer, key_prefix: str, directory: Path, **settings: Any) -> Iterator[Api]:
    """Starts it with a played CPU worker on record; stops it at the end. All matrices are stored, unless `settings`
    say otherwise."""
    asked = Settings(
        redis_url=SecretStr(server.url),
        key_prefix=key_prefix,
        store_dir=directory / "matrices",
        port=free_port(),
        **{"sweeper": False, "record_matrix_bytes": 0, "redis_timeout_s": REDIS_TIMEOUT_S, **settings},
    )
    client = connect(asked)
    registry = WorkerRegistry(client, prefix=key_prefix)
    registry.beat(worker_info(), FAKE_TTL_S)
    api = Api(
        url=f"http://127.0.0.1:{asked.port}",
        settings=asked,
        ledger=make_ledger(asked, client),
        store=make_matrix_store(asked, client),
        registry=registry,
    )
    http_server = make_server(asked, bind(asked))
    thread = Thread(target=http_server.run)
    thread.start()
    try:
        until(lambda: http_server.listening or not thread.is_alive(), START_TIMEOUT_S)
        assert thread.is_alive(), "the server did not start"
        yield api
    finally:
        http_server.should_exit = True
        thread.join()
        client.close()


def ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """The record of a job at its end; fails where that takes longer than any job of a test on a busy machine."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while True:
        reply = client.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=10"}).raise_for_status()
        record: dict[str, Any] = reply.json()
        if JobState(record["state"]).is_terminal:
            return record
        assert time.monotonic() < deadline, record


def until(condition: Any, timeout_s: float = 60.0) -> None:
    """Returns once the condition holds; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)


def npy(array: Array) -> bytes:
    """The array as an .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def from_npy(data: bytes) -> Array:
    loaded: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return loaded
