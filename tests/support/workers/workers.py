"""Real workers on a real Valkey, and what a service does for them: submit, sweep."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import psutil

from jobs.benchmarks.spec import BenchmarkSpec
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import WorkerInfo
from jobs.formats.elements import Array
from jobs.ledger.submission import BESIDE
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import MatrixStore
from jobs.matrices.packed import DIGEST_BYTES, PackedMatrix, pack
from jobs.models import ANONYMOUS, Job, MatmulRequest, NewJob, new_id, product_id
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from jobs.requests.operands import OperandRef
from jobs.settings import Settings
from jobs.states import JobState
from jobs.sweeper.sweeper import Sweeper
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName
from service.submit.product import batch_of

START_TIMEOUT_S = 240.0
END_TIMEOUT_S = 180.0
LOOK_EVERY_S = 0.02  # each look takes a millisecond from what is waited for, where all share two cores


def until(condition: Callable[[], object], *, timeout_s: float, what: str) -> None:
    """Waits for the condition. Raises TimeoutError that says `what` did not happen."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen in {timeout_s:g} s")
        time.sleep(LOOK_EVERY_S)


def is_dead(process: psutil.Process) -> bool:
    """Also before its parent has seen it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # its parent saw it between the two questions
        return True


@dataclass
class WorkerBench:
    """One worker process at a time, and a service's side of the ledger. `module` is what is run."""

    server: EmbeddedServer
    directory: Path
    module: str = "worker"
    device: str = "cpu"
    overrides: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        own = {
            "redis_url": self.server.url,
            "key_prefix": f"{new_id('test')}:",
            "store_dir": str(self.directory / "matrices"),
            "kernel_cache_dir": os.environ.get("MATMUL_KERNEL_CACHE_DIR", str(self.directory / "kernels")),
            "device": self.device,
            "lease_s": "3.0",
            "heartbeat_s": "0.2",
            "sweep_s": "0.1",
            "sweep_grace_s": "1.0",
            "max_attempts": "2",
            "cpu_threads": "1",
        } | self.overrides
        self.environment = os.environ | {f"MATMUL_{name.upper()}": value for name, value in own.items()}
        self.settings = Settings.model_validate(own)
        self.client = connect(self.settings, timeout_s=5.0)
        self.ledger = make_ledger(self.settings, self.client)
        self.store: MatrixStore = make_matrix_store(self.settings, self.client)
        self.registry = WorkerRegistry(self.client, prefix=self.settings.key_prefix)

    # ---- the worker ----
    def spawn(self) -> None:
        with open(self.directory / "worker.log", "ab") as log:
            command = [sys.executable, "-m", self.module, "--device", self.device]
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def start(self) -> None:
        """Returns once the worker says that it is there."""
        self.spawn()
        try:
            until(self._live_or_dead, timeout_s=START_TIMEOUT_S, what="the first heartbeat")
        except TimeoutError as error:
            error.add_note(self.log())
            raise

    def _live_or_dead(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"the worker ended with {self.process.returncode}:\n{self.log()}")
        return bool(self.live())

    def live(self) -> list[WorkerInfo]:
        return list(self.registry.live())

    def child(self) -> psutil.Process:
        """The process that computes."""
        assert self.process is not None
        found: list[psutil.Process] = []

        def look() -> bool:
            assert self.process is not None
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(self.process.pid).children()
                found[:] = [each for each in children if not is_dead(each)]
            return bool(found)

        until(look, timeout_s=END_TIMEOUT_S, what="the start of a child")
        return found[0]

    def log(self) -> str:
        return (self.directory / "worker.log").read_text(errors="replace")[-6000:]

    def stop(self) -> None:
        """SIGKILL; the child dies with its parent, maybe a moment later, and must take no job in that moment."""
        if self.process is not None:
            children: list[psutil.Process] = []
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(self.process.pid).children()
            self.process.kill()
            self.process.wait()
            until(lambda: all(map(is_dead, children)), timeout_s=END_TIMEOUT_S, what="the end of its child")

    @contextmanager
    def sweeping(self) -> Iterator[None]:
        """A sweeper, as every API process has one."""
        stop = Event()
        client = connect(self.settings)
        sweeper = Sweeper(
            self.ledger,
            client,
            self.settings,
            sweep_matrices=lambda: self.store.sweep(),
        )
        thread = Thread(target=sweeper.run_forever, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            client.close()

    # ---- jobs ----
    def submit(
        self,
        a: Array | OperandRef,
        b: Array | OperandRef,
        dtype: DTypeName = "float32",
        *,
        inline: bool = True,
        timeout_s: float = 60.0,
        accuracy: AccuracyName | None = None,
        in_record: bool = False,
        together: bool = False,
        **options: Any,
    ) -> str:
        """Stores the operands and records the job; its id. `options` are MatmulRequest's.

        `in_record`: the operands and the product travel in the job's record instead. `together`: with others of its
        kind in one launch, as small stored ones go.

        `accuracy` is the element type's own, unless another is asked for.
        """
        if in_record:
            refs = [OperandRef(source="inline", dtype=dtype, shape=x.shape) for x in (a, b)]
        else:
            refs = [x if isinstance(x, OperandRef) else self.operand(x, dtype, inline=inline) for x in (a, b)]
        request = MatmulRequest(a=refs[0], b=refs[1], accuracy=accuracy or DTYPES[dtype].accuracy, **options)
        queue = "cpu" if self.device == "cpu" else "gpu"
        batch = batch_of(request, timeout_s) if together else BESIDE
        job = NewJob(owner=ANONYMOUS, queue=queue, timeout_s=timeout_s, request=request, batch=batch)
        if in_record:
            job = _in_record(job, request, a, b)
        self.ledger.submit(job, max_queued=1000, max_queued_per_owner=1000)
        return job.id

    def submit_benchmark(self, *, timeout_s: float = 60.0, **spec: Any) -> str:
        """Records a benchmark for the model of the live worker; the job's id."""
        request = BenchmarkSpec.model_validate(spec)
        until(self.live, timeout_s=START_TIMEOUT_S, what="a heartbeat")  # the test before may have killed its child
        queue = self.live()[0].bench_queue
        job = NewJob(kind="benchmark", owner=ANONYMOUS, queue=queue, timeout_s=timeout_s, request=request)
        self.ledger.submit(job, max_queued=1000, max_queued_per_owner=1000)
        return job.id

    def measured(self, job_id: str) -> dict[str, bytes]:
        """The records and samples kept so far, by name."""
        kept = self.ledger.findings(job_id)
        return {name: text for name, text in kept.items() if name.startswith(("record:", "samples:"))}

    def operand(self, elements: Array, dtype: DTypeName, *, inline: bool = True) -> OperandRef:
        name = new_id("op") if inline else None
        with self.store.create(dtype, elements.shape, owner=ANONYMOUS, ttl_s=600.0, name=name) as writer:
            writer.write(elements.tobytes())
            info = writer.commit()
        return OperandRef(source="inline" if inline else "matrix", matrix=info.id, dtype=dtype, shape=elements.shape)

    def of_depth(self, k: int, *, timeout_s: float = 60.0, **options: Any) -> str:
        """A small job of ones, told apart by its depth."""
        a, b = np.ones((3, k), np.float32), np.ones((k, 4), np.float32)
        return self.submit(a, b, timeout_s=timeout_s, **options)

    def until_state(self, job_id: str, *states: JobState, timeout_s: float = END_TIMEOUT_S) -> Job:
        try:
            until(lambda: self.ledger.get(job_id).record.state in states, timeout_s=timeout_s, what=f"{states}")
        except TimeoutError as error:
            error.add_note(f"{self.ledger.get(job_id)}\n{self.log()}")
            raise
        return self.ledger.get(job_id)

    def ended(self, job_id: str, *, timeout_s: float = END_TIMEOUT_S) -> Job:
        """The job, once it is at its end."""
        ends = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
        return self.until_state(job_id, *ends, timeout_s=timeout_s)

    def product(self, job: Job) -> Array:
        info = job.record.product
        assert info is not None, job.record.error
        if job.product_in_record:
            packed = self.ledger.get(job.id, with_product=True).packed_product
            assert packed is not None
            return PackedMatrix(packed).elements(info.dtype, info.shape)
        return self.store.load(product_id(job.id, job.record.attempt), info.dtype, info.shape)

    def still_works(self) -> None:
        """The next job is right."""
        job = self.ended(self.of_depth(5))
        np.testing.assert_array_equal(self.product(job), np.full((3, 4), 5.0, np.float32))


def _in_record(job: NewJob, request: MatmulRequest, a: Array | OperandRef, b: Array | OperandRef) -> NewJob:
    assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    room = request.problem.product_bytes + DIGEST_BYTES
    matrices = JobMatrices(a=pack(a.tobytes()), b=pack(b.tobytes()), product_bytes=room, ttl_s=60.0)
    batch = batch_of(request, job.timeout_s)
    return job.model_copy(update={"matrices": matrices, "batch": batch})


@contextmanager
def running_worker(server: EmbeddedServer, directory: Path, **options: Any) -> Iterator[WorkerBench]:
    """A worker that serves, with a sweeper beside it; no process is left behind."""
    bench = WorkerBench(server, directory, **options)
    try:
        bench.start()
        with bench.sweeping():
            yield bench
    finally:
        bench.stop()
        bench.client.close()
