"""Ledgers for tests: both kinds, on a clock that the test moves; and jobs to put into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from pydantic import SecretStr

from jobs.benchmarks.spec import BenchmarkSpec
from jobs.ledger.interface import JobFilter, Ledger
from jobs.ledger.limits import NO_LIMITS, Limits
from jobs.ledger.messages import JobMessage
from jobs.ledger.redis import RedisLedger
from jobs.matrices.index import Bounds
from jobs.models import ANONYMOUS, Job, MatmulRequest, Measured, NewJob, Outcome, ProductInfo, Verification, new_id
from jobs.queue import make_celery, message_format
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.scripts import SERVER_CLOCK
from jobs.requests.job_matrices import JobMatrices
from jobs.requests.operands import OperandRef, RandomSpec
from jobs.settings import Settings
from jobs.states import TERMINAL, JobState
from tests.support.ledger.memory_ledger import MemoryLedger

START_US = 1_790_000_000_000_000  # a round number: Lua would write it as 1.79e+15
BOUNDS = Bounds(all_bytes=4000, owner_bytes=3000)
CLOCK_KEY = "test-clock"
CLOCK_LUA = f"{{0, redis.call('GET', prefix .. '{CLOCK_KEY}')}}"


@dataclass
class Clock:
    """A clock that stands still but for `advance`."""

    now_us: int = START_US
    client: redis.Redis | None = None  # where a RedisLedger's scripts read it
    prefix: str = ""

    def __post_init__(self) -> None:
        self.advance(0)

    def __call__(self) -> int:
        return self.now_us

    def advance(self, seconds: float) -> None:
        self.now_us += round(seconds * 1e6)
        if self.client is not None:
            self.client.set(f"{self.prefix}{CLOCK_KEY}", self.now_us)


@dataclass
class Bench:
    """A ledger under test."""

    ledger: Ledger
    clock: Clock

    def submit(self, owner: str = ANONYMOUS, *, kernel: str = "auto", timeout_s: float = 600.0) -> JobMessage:
        """Records a job, with no limit in the way."""
        job = new_job(owner, kernel=kernel, timeout_s=timeout_s)
        _, message = self.ledger.submit(job, max_queued=10**6, max_queued_per_owner=10**6)
        assert message is not None
        return message

    def submit_benchmark(self) -> JobMessage:
        spec = BenchmarkSpec(title="Two sizes", kernels=("cpu_blas",), shapes=(16, 32))
        job = NewJob(kind="benchmark", owner=ANONYMOUS, queue="bench-a-cpu", timeout_s=600.0, request=spec)
        _, message = self.ledger.submit(job, max_queued=10**6, max_queued_per_owner=10**6)
        assert message is not None
        return message

    def running(self, owner: str = ANONYMOUS, *, lease_s: float = 6.0, timeout_s: float = 600.0) -> JobMessage:
        """Records a job and claims it."""
        message = self.submit(owner, timeout_s=timeout_s)
        assert self.claim(message, lease_s=lease_s)
        return message

    def claim(self, message: JobMessage, *, lease_s: float = 6.0) -> bool:
        job_id, attempt = message.job_id, message.attempt
        return self.ledger.claim(job_id, attempt, worker="worker", lease_s=lease_s) is not None

    def succeed(self, message: JobMessage) -> bool:
        return self.ledger.succeed(message.job_id, message.attempt, outcome())

    def state(self, job_id: str) -> str:
        return self.ledger.get(job_id).record.state.value

    def events(self, job_id: str) -> list[str]:
        return [event.event for event in self.ledger.events(job_id)]

    def all_jobs(self, where: JobFilter, *, limit: int) -> list[Job]:
        """Every page of a listing."""
        jobs: list[Job] = []
        cursor: str | None = None
        while True:
            page = self.ledger.list(where, limit=limit, cursor=cursor)
            jobs += page.jobs
            if (cursor := page.cursor) is None:
                return jobs


def memory_bench() -> Bench:
    clock = Clock()
    return Bench(MemoryLedger(clock=clock, bounds=BOUNDS), clock)


@contextmanager
def redis_bench(server: EmbeddedServer, prefix: str) -> Iterator[Bench]:
    with connect(settings_for(server, prefix)) as client:
        yield Bench(redis_ledger(client, prefix, clock=CLOCK_LUA), Clock(client=client, prefix=prefix))


def redis_ledger(
    client: redis.Redis,
    prefix: str,
    *,
    bounds: Bounds = BOUNDS,
    clock: str = SERVER_CLOCK,
    max_ended: Limits = NO_LIMITS,
) -> RedisLedger:
    """On a server whose address does not matter to its messages."""
    with make_celery(Settings(key_prefix=prefix)) as app:
        messages = message_format(app)
    ledger = RedisLedger(client, prefix=prefix, messages=messages, bounds=bounds, clock=clock, max_ended=max_ended)
    ledger.scripts.load_functions()
    return ledger


def settings_for(server: EmbeddedServer, prefix: str) -> Settings:
    """With more patience for an answer than by default: a busy machine may hold one up."""
    return Settings(redis_url=SecretStr(server.url), key_prefix=prefix, redis_timeout_s=5.0)


def new_job(
    owner: str = ANONYMOUS,
    *,
    kernel: str = "auto",
    timeout_s: float = 600.0,
    queue: str = "cpu",
    matrices: JobMatrices | None = None,
    batch: str = "",
    a: str | None = None,
    b: str | None = None,
    c: str | None = None,
    side: int = 8,
) -> NewJob:
    """`a`, `b` and `c`: jobs whose products are the operands; without, A and B are random, and there is no C. `side`:
    rows and columns of random ones."""
    operands = (operand_of(a, side), operand_of(b, side), operand_of(c) if c else None)
    beta = 1.0 if c else 0.0
    request = MatmulRequest(a=operands[0], b=operands[1], c=operands[2], beta=beta, kernel=kernel, accuracy="fp32")
    return NewJob(
        id=new_id("job"),
        owner=owner,
        queue=queue,
        timeout_s=timeout_s,
        request=request,
        matrices=matrices or JobMatrices(),
        batch=batch,
    )


def operand_of(job_id: str | None, side: int = 8) -> OperandRef:
    if job_id is not None:
        return OperandRef(source="job", job=job_id, dtype="float32", shape=(8, 8))
    spec = RandomSpec(shape=(side, side), dtype="float32")
    return OperandRef(source="random", random=spec, dtype="float32", shape=(side, side))


def outcome(kernel: str = "cpu_blas", device: str = "A CPU") -> Outcome:
    return Outcome(
        kernel=kernel,
        config={},
        why=f"{kernel} was asked for.",
        device=device,
        product=ProductInfo(shape=(8, 8), dtype="float32", bytes=256),
        measured=Measured(h2d_ms=0.25, kernel_ms=0.5, d2h_ms=0.125),
        gflops=0.002,
        verification=Verification(method="freivalds", residual=1e-8, threshold=1e-6, passed=True),
    )


def _decoded(fields: Any) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}


def assert_books_agree(client: redis.Redis, prefix: str) -> int:
    """Every job is in just the indexes that its state asks for, and no index names another; how many jobs there are."""

    def members(name: str) -> set[str]:
        found: Any = client.zrange(f"{prefix}{name}", 0, -1)
        return {member.decode() for member in found}

    jobs: dict[str, dict[str, str]] = {}
    for key in client.scan_iter(f"{prefix}job:*", count=1000, _type="hash"):
        if not key.endswith(b":matrices"):
            job = _decoded(client.hgetall(key))
            jobs[job["id"]] = job
    owners = {job["owner"] for job in jobs.values()}

    def expected(*states: str, owner: str | None = None) -> set[str]:
        return {job["id"] for job in jobs.values() if job["state"] in states and owner in (None, job["owner"])}

    states = [state.value for state in JobState]
    indexed = [state for state in states if state != "running"]
    for name, states_of in {"all": states, **{state: [state] for state in indexed}}.items():
        for owner in owners:
            assert members(f"jobs:{name}:{owner}") == expected(*states_of, owner=owner), (name, owner)
    held = {field: int(value) for field, value in _decoded(client.hgetall(f"{prefix}matrices:bytes")).items()}
    sizes = {id: int(job.get("held", 0)) for id, job in jobs.items()}
    charged = {f"of:{owner}": sum(sizes[id] for id in jobs if jobs[id]["owner"] == owner) for owner in owners}
    assert held == {name: size for name, size in {"all": sum(sizes.values()), **charged}.items() if size}
    kept = {key.decode().split(":")[-2] for key in client.scan_iter(f"{prefix}job:*:matrices")}
    assert kept <= {id for id, size in sizes.items() if size}
    assert members("packed") == {id for id in expected(*(state.value for state in TERMINAL)) if sizes[id]}
    assert members("leases") == expected("running")
    counts = _decoded(client.hgetall(f"{prefix}counts"))
    for name, state in {"waiting": "queued", "failed": "failed", "cancelled": "cancelled"}.items():
        assert int(counts.get(name, 0)) == len(expected(state)), name
    for owner in owners:
        assert members(f"finished:{owner}") == expected(*(state.value for state in TERMINAL), owner=owner)
    assert members("finished") == expected(*(state.value for state in TERMINAL))
    assert members("dead") <= expected("failed")
    waiting = {id for id in jobs if jobs[id].get("waits") == "1"}
    assert waiting <= expected("queued")
    for queue in {job["queue"] for job in jobs.values()}:
        assert members(f"queued:{queue}") == {id for id in expected("queued") - waiting if jobs[id]["queue"] == queue}
    awaited = {(jobs[id][f"{n}_job"], id) for id in waiting for n in "abc" if f"{n}_job" in jobs[id]}
    awaited -= {(jobs[id][f"{n}_job"], id) for id in waiting for n in "abc" if f"{n}_attempt" in jobs[id]}
    assert awaited == {(id, each) for id in jobs for each in members(f"job:{id}:dependents")}
    assert {id for id, _ in awaited} <= expected("queued", "running") and not members("unsettled")
    return len(jobs)
