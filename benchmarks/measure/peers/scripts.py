"""The cost of the ledger's scripts for one product in Valkey: microseconds and commands inside, by script, using only
the service's ledger. The product is a small one, in its job's record; with `--stored` its matrices are in the store,
and with `--referenced` its operands are two matrices there that all jobs refer to.

    python -m benchmarks.measure.peers.scripts --jobs 2000
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import redis
from pydantic import SecretStr

from benchmarks.measure.peers.server_time import SCRIPTS
from jobs.ledger.interface import Success
from jobs.ledger.limits import Beside, Limits
from jobs.ledger.submission import BESIDE
from jobs.matrices.index import Bounds, Claim, MatrixIndex
from jobs.matrices.packed import pack
from jobs.models import ANONYMOUS, MatmulRequest, Measured, NewJob, Outcome, ProductInfo, Verification, new_id
from jobs.queue import broker_prefix, make_ledger
from jobs.redis.acl import ROLES, Role
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.line import ScriptLine
from jobs.requests.job_matrices import JobMatrices, StoredOperand
from jobs.requests.operands import OperandRef
from jobs.settings import DAY_S, Settings

N, STORED_N, QUEUE, WORKER = 16, 256, "cpu", "bench/cpu/1"
MAX_BATCH, NO_LIMIT, NO_BOUND = 64, 10**5, 10**12
TOGETHER = Beside(3, 16, 1024)  # as a GPU's worker claims products of stored operands


def arguments_of_scripts() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=16, help="jobs of a launch, in the second half")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--stored", action="store_true", help="products whose matrices are in the store")
    kinds.add_argument("--referenced", action="store_true", help="products of the same two matrices in the store")
    return parser


def in_record() -> NewJob:
    matrix = pack(np.random.default_rng().standard_normal((N, N), np.float32).tobytes())
    operand = OperandRef(source="inline", dtype="float32", shape=(N, N))
    return _new_job(operand, operand, JobMatrices(a=matrix, b=matrix, product_bytes=len(matrix), ttl_s=DAY_S))


def in_store() -> NewJob:
    shape = (STORED_N, STORED_N)
    operands = tuple(StoredOperand(id=new_id("op"), dtype="float32", shape=shape) for _ in range(2))
    a, b = (OperandRef(source="inline", matrix=each.id, dtype="float32", shape=shape) for each in operands)
    return _new_job(a, b, JobMatrices(stored=operands, ttl_s=DAY_S, used_ttl_s=DAY_S))


def referring(server: EmbeddedServer) -> Callable[[], NewJob]:
    """Stores two matrices. Returns what makes jobs that refer to them."""
    shape, settings = (STORED_N, STORED_N), _settings(server, "api")
    with connect(settings) as client:
        index = MatrixIndex(client, settings.key_prefix, Bounds(NO_BOUND, NO_BOUND))
        ids = [new_id("m") for _ in range(2)]
        for each in ids:
            index.claim(Claim(each, each, "float32", shape, ANONYMOUS, DAY_S))
    a, b = (OperandRef(source="matrix", matrix=each, dtype="float32", shape=shape) for each in ids)
    held = JobMatrices(ttl_s=DAY_S, used_ttl_s=DAY_S)
    return lambda: _new_job(a, b, held).model_copy(update={"batch": BESIDE})


def _settings(server: EmbeddedServer, role: Role) -> Settings:
    """With time for a server whose instructions are counted."""
    return Settings(redis_url=SecretStr(server.url_of(role)), redis_timeout_s=5.0)


def _new_job(a: OperandRef, b: OperandRef, matrices: JobMatrices) -> NewJob:
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    return NewJob(
        owner=ANONYMOUS,
        queue=QUEUE,
        timeout_s=600.0,
        request=MatmulRequest(a=a, b=b, kernel="auto", accuracy="fp32"),
        matrices=matrices,
        reply_to="0123456789abcdef",
        batch=f"float32:{m}x{n}x{k}:e8cb48e0e16c63fc",
    )


def success(job: NewJob, batch: int) -> Success:
    """Of a launch of so many products."""
    n, stored = (N, False) if job.matrices.a else (STORED_N, True)
    outcome = Outcome(
        kernel="cpu_blas",
        config={},
        why="auto: cpu_blas is the first of 1 kernels that take float32 to fp32 here, in order of preference.",
        device="A CPU",
        product=ProductInfo(shape=(n, n), dtype="float32", bytes=n * n * 4),
        measured=Measured(h2d_ms=0.0, kernel_ms=0.04130200068175327, d2h_ms=0.0),
        gflops=0.1983439025901505,
        verification=Verification(
            method="freivalds", residual=9.440812915426572e-8, threshold=7.094371744536212e-7, passed=True
        ),
        batch=batch,
    )
    return Success(job.id, 1, outcome, job.matrices.a, (ANONYMOUS, DAY_S) if stored else None)


class Scripts:
    """The ledger as the API and a worker use it, each with its own user of Redis. `make_job`: one of the kind."""

    def __init__(
        self, server: EmbeddedServer, clients: dict[Role, redis.Redis], make_job: Callable[[], NewJob]
    ) -> None:
        self._make_job = make_job
        self._server, self._admin = server, server.client()
        of = {role: _settings(server, role) for role in ROLES}
        self._api, self._worker = (make_ledger(of[role], clients[role]) for role in ROLES)
        self._api.scripts.load_functions()
        self._loop = asyncio.new_event_loop()
        self._line = ScriptLine(of["api"], self._api.scripts)
        self._list, self._messages = broker_prefix(of["worker"]) + QUEUE, clients["worker"]

    def run(self, batch: int) -> Iterator[tuple[str, Callable[[], object]]]:
        """The named steps of this many products that are computed in one launch."""
        jobs = [self._make_job() for _ in range(batch)]
        yield "submit", lambda: self._loop.run_until_complete(self._submitted(jobs))
        yield "brpop", lambda: self._messages.brpop([self._list], timeout=1)
        about: dict[str, Any] = {"worker": WORKER, "lease_s": 6.0, "max_jobs": MAX_BATCH, "beside": TOGETHER}
        yield "claim", lambda: self._worker.claim_batch(jobs[0].id, 1, **about)
        done = [success(job, batch) for job in jobs]
        yield "succeed", lambda: self._worker.succeed_all(done)

    async def _submitted(self, jobs: Sequence[NewJob]) -> None:
        """All at the same time, as by an API process; where it stores matrices one after another, as by its threads."""
        limits = {"max_queued": NO_LIMIT, "max_queued_per_owner": NO_LIMIT}
        if jobs[0].matrices.stored:
            for job in jobs:
                self._api.record(job, Limits(NO_LIMIT, NO_LIMIT))
            return
        await asyncio.gather(*(self._api.submit_on(self._line, job, **limits) for job in jobs))

    def reset_counts(self) -> None:
        self._admin.config_resetstat()

    def counts(self) -> dict[str, Any]:
        """By command, since `reset_counts`."""
        counted: Any = self._admin.info("commandstats")
        return dict(counted)

    @property
    def server_pid(self) -> int:
        return self._server.pid

    def cost(self, launches: int, batch: int) -> dict[str, dict[str, float]]:
        """By step, for each product: microseconds, and commands inside scripts."""
        costs: dict[str, Counter[str]] = defaultdict(Counter)
        for _ in range(launches):
            for name, step in self.run(batch):
                self.reset_counts()
                step()
                for command, stats in self.counts().items():
                    if command.removeprefix("cmdstat_") in (*SCRIPTS, "brpop"):
                        costs[name]["us"] += stats["usec"]
                    elif not command.startswith(("cmdstat_config", "cmdstat_info")):
                        costs[name]["calls"] += stats["calls"]
        jobs = launches * batch
        return {name: {what: value / jobs for what, value in cost.items()} for name, cost in costs.items()}

    def in_a_row(self, launches: int, batch: int) -> float:
        """Microseconds of scripts for each product, with nothing between the steps."""
        self.reset_counts()
        for _ in range(launches):
            for _, step in self.run(batch):
                step()
        commands = self.counts()
        us = sum(float(commands.get(f"cmdstat_{name}", {}).get("usec", 0)) for name in SCRIPTS)
        return us / launches / batch


@contextmanager
def started(asked: argparse.Namespace) -> Iterator[Scripts]:
    """`asked`: of what kind of job."""
    with TemporaryDirectory() as name:
        server = EmbeddedServer(Path(name))
        server.start()
        try:
            clients = {role: connect(_settings(server, role)) for role in ROLES}
            make_job = referring(server) if asked.referenced else in_store if asked.stored else in_record
            yield Scripts(server, clients, make_job)
        finally:
            server.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    asked = arguments_of_scripts().parse_args(arguments)
    with started(asked) as scripts:
        for batch in (1, asked.batch):
            launches = max(1, asked.jobs // batch)
            scripts.in_a_row(max(1, launches // 10), batch)  # warm-up
            cost = scripts.cost(launches, batch)
            print(f"batches of {batch}: {scripts.in_a_row(launches, batch):.1f} us a job in a row; one by one:")
            for name, each in cost.items():
                print(f"  {name:8} {each['us']:7.1f} us  {each.get('calls', 0.0):5.1f} commands inside")
            for what in ("us", "calls"):
                print(f"  all      {sum(each.get(what, 0.0) for each in cost.values()):7.1f} {what}")


if __name__ == "__main__":
    main()
