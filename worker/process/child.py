"""The child process of a worker: it has the device and connections to the ledger and the store, and takes jobs from
messages to their ends. Celery forks it from its parent, and forks another when it ends. CUDA is used only here, never
in the parent.

A message's job is claimed (`claim_batch`), begun in this thread or in one of its own (`job_threads`), computed
(`job_computer`), and its end recorded (`ends`), while its lease is renewed (`lease`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from jobs.errors import StoreFull, StoreUnavailable
from jobs.fleet.measured import MeasuredShapes
from jobs.fleet.places import ServicePlace
from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.claims.by_message import ClaimTerms, NextClaims
from jobs.ledger.interface import Claimed, Ledger
from jobs.ledger.limits import Beside
from jobs.matrices.interface import MatrixStore
from jobs.models import MatmulRequest
from jobs.redis.client import connect
from jobs.settings import Settings
from jobs.tracing.spans import Tracing
from kernels.selection.ahead import warm_up
from worker.device.host_lock import HostLock
from worker.device.measured_model import measured_model
from worker.device.retry import pause, retry_until
from worker.device.runner import Runner
from worker.process.device_loans import DeviceLoans
from worker.process.ends import WORK_TIMEOUT_S, JobEnds
from worker.process.heartbeat import Heartbeat
from worker.process.job_computer import JobComputer
from worker.process.job_threads import JobThreads
from worker.process.lease import EXIT_FAULT, EXIT_NOT_READY, LeaseKeeper
from worker.process.readiness import NotReady, prove
from worker.process.spare_time import SpareTime
from worker.product.claim_parts import Part, is_light, parts_of
from worker.product.fresh_random import fresh_rng
from worker.product.spent_operands import SpentOperands
from worker.queues.next_messages import NextMessages
from worker.tracing.launches import Launches, named
from worker.tracing.phases import now

CLAIM_TIMEOUT_S = 5.0  # the sweeper sends an abandoned message again
MAX_LIGHT = 16  # light jobs of a claim
ELSEWHERE_PAUSE_S = 0.2  # before this worker takes another message, which may be the same job's again
SMALL_BYTES = 1 << 20  # of operands
UNTOLD = "the job store did not serve for long; jobs whose ends it was not told run again"
HANGS = "a measurement between jobs does not give the device back"

log = structlog.get_logger(__name__)


class Child:
    """One per process. For the thread that runs the tasks."""

    def __init__(
        self,
        settings: Settings,
        runner: Runner,
        ledger: Ledger,
        store: MatrixStore,
        tracing: Tracing | None = None,
    ) -> None:
        self._settings, self._runner, self._ledger = settings, runner, ledger
        self._loans = DeviceLoans(lambda: self._lease.end_child(EXIT_FAULT, HANGS))
        self._under_way: set[tuple[str, int]] = set()  # jobs and attempts; changed in one step of the interpreter
        self._jobs_under_way = settings.jobs_under_way or runner.jobs_under_way
        self._light_extent = runner.light_extent if tracing is None else 0  # each has spans of its own
        self._threads = JobThreads(self._jobs_under_way)
        claims = ledger if isinstance(ledger, NextClaims) and tracing is None else None  # spans tell claims apart
        self.next_messages = NextMessages(settings, claims, self._terms)
        self.launches, self.spent = Launches(tracing, ledger), SpentOperands(ledger, store)
        self._lease = LeaseKeeper(ledger, settings, launches=self.launches)
        client = connect(settings)
        self._registry = WorkerRegistry(client, prefix=settings.key_prefix)
        shared = MeasuredShapes(client, prefix=settings.key_prefix, model=measured_model(runner.device))
        # No other device has a table, or a choice.
        mode = settings.auto_measures if runner.device.device_class == "gpu" else "off"
        self.spare_time = SpareTime(runner, shared, self._loans, mode)
        self._place = ServicePlace(client, settings)
        self.heartbeat = Heartbeat(
            self._registry,
            self._place,
            runner,
            settings,
            give_up=lambda problem: self._lease.end_child(EXIT_NOT_READY, problem),
        )
        worker_id, auto = self.heartbeat.worker_id, self.spare_time.choices
        self._ends = JobEnds(settings, ledger, store, runner, self.heartbeat, self._lease, self.launches, self.spent)
        self._computer = JobComputer(
            settings, runner, ledger, store, self._registry, auto, self._ends, worker_id=worker_id
        )

    def prove_ready(self) -> None:
        """Raises NotReady, DeviceFault, StoreUnavailable."""
        started = time.monotonic()
        if problem := retry_until(self._place.misplaced, timeout_s=WORK_TIMEOUT_S / 2):
            self.heartbeat.tell_problem(problem)
            raise NotReady(problem)
        roofs = retry_until(lambda: self._registry.roofs(self._runner.device), timeout_s=WORK_TIMEOUT_S / 2)
        self._runner.device = self._runner.device.model_copy(update={"measured": roofs})
        count = prove(self._runner, fresh_rng())
        device = self._runner.device
        warm_up(device.traits)
        about = {"products": count, "left_out": len(device.left_out)}
        log.info("ready", device=device.name, **about, seconds=round(time.monotonic() - started, 2))

    # ---- jobs ----
    def run(self, job_id: str, attempt: int, *, alone: bool = False, claimed: Sequence[Claimed] | None = None) -> None:
        """Claims the job if it is not `claimed` yet, with others that can share its launch or run in free threads;
        computes them and records their ends. A product that is stored runs in a thread: this returns once another job
        may begin, and at once if the message is stale. `alone`: no other job may run meanwhile. The same holds for a
        job that was tried before, so that one that kills the process does not affect others twice.
        """
        job = (job_id, attempt)
        if job in self._under_way:  # claimed with another: the ledger would take this for the same claim
            return
        alone = alone or attempt > 1
        if alone:
            self._threads.wait_for_all()
        with ExitStack() as stack:
            with self._waiting(claimed or ()):
                stack.enter_context(self._loans.job())
            asked_ns = now()
            if claimed is None:
                claimed = retry_until(lambda: self._claim(job_id, attempt), timeout_s=CLAIM_TIMEOUT_S)
            claim = asked_ns, now()
            if not claimed:
                log.debug("a message came for a job that is not waiting", job=job_id, attempt=attempt)
            parts = parts_of(claimed, self._runner, self._light_extent)
            for number, part in enumerate(parts, 1):
                with self._waiting([each for later in parts[number:] for each in later.jobs]):
                    self._begin(part, claim, alone=alone)
        if not claimed and attempt > 1:  # it may be for another worker, who is to have its message first
            pause(ELSEWHERE_PAUSE_S)
        with suppress(SoftTimeLimitExceeded):  # of a job in a thread: its lease ends it
            self._threads.wait_for_one()

    def _waiting(self, claimed: Sequence[Claimed]) -> AbstractContextManager[object]:
        """Keeps the leases of jobs that have not begun."""
        return self._lease.hold(claimed, waits=True) if claimed else nullcontext()

    def _begin(self, part: Part, claim: tuple[int, int], *, alone: bool) -> None:
        """`claim`: when it was asked for and had, in nanoseconds."""
        self._under_way |= {(each.job.id, each.attempt) for each in part.jobs}
        with named(part.jobs):
            if alone or self._jobs_under_way == 1 or self._is_soon_done(part):
                self._run_part(part, claim)
            else:
                self._threads.start(lambda: self._run_part_in_thread(part, claim))

    def _is_soon_done(self, part: Part) -> bool:
        """Whether the products would be done before a thread could be woken for them. A launch of several stored ones
        waits for device and Redis long enough for others to be claimed and computed meanwhile."""
        first = part.jobs[0]
        request = first.job.record.request
        small = isinstance(request, MatmulRequest) and request.problem.operand_bytes <= SMALL_BYTES
        if small and first.job.product_in_record:
            return True
        is_alone = len(part.jobs) == 1 or not part.is_launch or not self._threads.free
        return is_alone and is_light(first, self._runner.light_extent)

    def wait_until_idle(self) -> None:
        """Waits until no job is running and nothing is left to be done for those that ended."""
        self._threads.wait_for_all()
        self.spent.clear_up()

    def _run_part_in_thread(self, part: Part, claim: tuple[int, int]) -> None:
        with self._loans.job(), HostLock():
            self._run_part(part, claim)
            self.spent.clear_up()  # its task may have ended before

    def _run_part(self, part: Part, claim: tuple[int, int]) -> None:
        try:
            with self.launches.under_way(part.jobs, claim):
                self._compute_and_record(part)
        finally:
            self._under_way -= {(each.job.id, each.attempt) for each in part.jobs}

    def _compute_and_record(self, part: Part) -> None:
        claimed = part.jobs
        self.heartbeat.begin(claimed[0].job.id)
        try:
            if not part.is_launch:
                self._computer.light_jobs(claimed, self._lease, self._ends.in_steps)
                return
            with self._lease.hold(claimed) as hold:
                ends = self._computer.one_launch(claimed, hold)
            self._ends.record(ends)
        except (StoreUnavailable, StoreFull) as error:
            log.error(UNTOLD, jobs=[each.job.id for each in claimed], reason=error.type)
        finally:
            self.heartbeat.end(claimed[0].job.id)

    def _terms(self) -> ClaimTerms:
        settings = self._settings
        beside = Beside(self._threads.free, min(MAX_LIGHT, settings.max_batch), self._light_extent)
        return ClaimTerms(self.heartbeat.worker_id, settings.lease_s, settings.max_batch, beside)

    def _claim(self, job_id: str, attempt: int) -> Sequence[Claimed]:
        return self._ledger.claim_batch(job_id, attempt, **self._terms()._asdict())
