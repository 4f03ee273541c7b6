"""The objects that routes use, built once per process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import redis
from starlette.requests import Request

from jobs.errors import StoreUnavailable
from jobs.fleet.history import History
from jobs.fleet.places import ServicePlace
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.redis import RedisLedger
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import MatrixStore
from jobs.models import Job, new_id
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.redis.line import ScriptLine
from jobs.redis.persistence import SyncPolicy
from jobs.redis.replicas import Mark, ReplicaLine
from jobs.settings import Settings
from service.api_process.body_memory import BodyMemory
from service.api_process.event_text import EventText
from service.api_process.fleet import Fleet
from service.api_process.in_thread import in_thread
from service.api_process.known_matrices import KnownMatrices
from service.api_process.live_workers import LiveWorkers
from service.api_process.render_cache import Renders
from service.api_process.round_robin import RoundRobin
from service.api_process.share import Share
from service.api_process.single_flight import SingleFlight
from service.api_process.unclaimed import UnclaimedBytes
from service.api_process.work_threads import WorkThreads
from service.audit import Audit
from service.changes import ChangeHub
from service.keys import KeyRing
from service.keys.limits import KeyLimits
from service.keys.sessions import Sessions
from service.keys.wrong_keys import WrongKeys
from service.metrics import HttpMetrics
from service.pause import Pause

P = ParamSpec("P")
R = TypeVar("R")

MAX_THREADS, MIN_THREADS = 64, 16  # over all API processes; at least, for each
BREAK_S = 0.25


class Breaker:
    """A circuit breaker: right after Redis did not answer one request, other requests fail at once instead of waiting
    too. A failing disk, or a Redis that refuses changes, answers immediately, so these do not open the breaker.
    """

    def __init__(self) -> None:
        self._closed_again_at = 0.0
        self._reason: str | None = None

    def run(self, work: Callable[[], R]) -> R:
        """Runs `work`. For a moment after any `work` raised StoreUnavailable, raises it at once."""
        with self.watching():
            return work()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The same, for the body of a context."""
        if time.monotonic() < self._closed_again_at:
            raise StoreUnavailable(self._reason)
        try:
            yield
        except StoreUnavailable as error:
            if error.resource == "redis" and not isinstance(error.__cause__, redis.ResponseError):
                self._closed_again_at, self._reason = time.monotonic() + BREAK_S, error.detail
            raise


@dataclass(frozen=True, slots=True)
class Context:
    """The service's parts. The ledger and the store block: routes use them through `call`."""

    settings: Settings
    client: redis.Redis
    ledger: RedisLedger
    line: ScriptLine  # to the ledger, for small requests that need no worker thread
    replicas: ReplicaLine
    sync_policy: SyncPolicy
    store: MatrixStore
    registry: WorkerRegistry
    pause: Pause
    history: History
    hub: ChangeHub
    place: ServicePlace
    fleet: Fleet
    workers: LiveWorkers
    metrics: HttpMetrics
    sessions: Sessions
    keys: KeyRing | None  # None if keys are off
    limits: KeyLimits
    failed_keys: WrongKeys
    audit: Audit | None
    threads: WorkThreads
    renders: Renders
    bodies: BodyMemory
    breaker: Breaker = field(default_factory=Breaker)
    tasks: set[asyncio.Future[None]] = field(default_factory=set)  # work that continues after its reply
    events: SingleFlight[EventText | None] = field(default_factory=SingleFlight)  # pending reads of jobs' events
    known_matrices: KnownMatrices = field(default_factory=KnownMatrices)
    unclaimed: UnclaimedBytes = field(default_factory=UnclaimedBytes)
    plans: RoundRobin = field(default_factory=RoundRobin)  # to expand a benchmark: more at once would not be faster

    @property
    def staging_dir(self) -> Path | None:
        """Scratch directory for transposing uploads; None uses the system's temporary directory."""
        return None if self.settings.store == "redis" else self.settings.store_dir

    def new_job_id(self) -> str:
        """A new job id, by which a proxy finds this cell."""
        return new_id("job", self.settings.cell_digits)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` after the reply; it is cancelled when the service stops."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def fresh_workers(self) -> Sequence[WorkerInfo] | None:
        """The live workers if they need not be read from Redis, for the event loop; from now on they are kept fresh for
        a while.
        """
        self.workers.keep_fresh(self.call_anyway)
        return self.workers.fresh()

    async def check_written(self, *jobs: Job) -> None:
        """Call it before a reply says that something is recorded, or that jobs are as given. Raises StoreUnavailable if
        that might not survive a crash.
        """
        if self.sync_policy.is_due:
            await self.call(self.sync_policy.check)
        with self.breaker.watching():
            await self.line.written()
        await self.replicas.wait(*(Mark(job.id, minimum=job.version) for job in jobs))

    async def call_anyway(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `call`, but also while the breaker is open."""
        return await in_thread(lambda: work(*args, **kwargs), self.threads)

    async def call(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs blocking work in a worker thread, to its end."""
        return await in_thread(lambda: self.breaker.run(lambda: work(*args, **kwargs)), self.threads)


def make_context(settings: Settings, metrics: HttpMetrics, share: Share, keys: KeyRing | None) -> Context:
    """Creates the context. Needs a running event loop. Does not connect yet. Raises InvalidSettings."""
    client = connect(settings)
    registry = WorkerRegistry(client, prefix=settings.key_prefix)
    limits = KeyLimits(settings, keys)
    ledger = make_ledger(settings, client, limits.quota, when_unreadable=metrics.unreadable.inc)
    place = ServicePlace(client, settings)
    fleet = Fleet(registry, place, settings)
    return Context(
        settings=settings,
        client=client,
        ledger=ledger,
        line=ScriptLine(settings, ledger.scripts),
        replicas=ReplicaLine(settings),
        sync_policy=SyncPolicy(client, settings.durability),
        store=make_matrix_store(settings, client, keeps_maps=True),
        registry=registry,
        pause=Pause(client, settings.key_prefix),
        history=History(client, settings.key_prefix),
        hub=ChangeHub(settings),
        place=place,
        fleet=fleet,
        workers=LiveWorkers(fleet.read),
        metrics=metrics,
        sessions=Sessions(client, settings),
        keys=keys,
        limits=limits,
        failed_keys=WrongKeys(settings.max_failed_keys_per_minute),
        audit=Audit(settings) if keys is not None or settings.audit_file is not None else None,
        threads=WorkThreads(share.of(MAX_THREADS, minimum=MIN_THREADS)),
        renders=Renders(share),
        bodies=BodyMemory(settings.max_json_bytes),
    )


def context_of(request: Request) -> Context:
    return cast(Context, request.app.state.context)


def owner_of(request: Request) -> str:
    """The owner whose jobs and matrices the request may see and create."""
    return cast(str, request.state.owner)
