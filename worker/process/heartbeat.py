"""The worker's heartbeat. The child sends it, because only the child knows that it can compute."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from threading import Event, Lock, Thread

import structlog

from jobs.errors import MatmulError
from jobs.fleet.places import ServicePlace, agreed
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import WorkerInfo, WorkerState
from jobs.settings import Settings
from worker.device.out_of_service import LAST_BEAT_S
from worker.device.runner import Runner
from worker.process.ended_child import worker_id
from worker.process.signs_of_life import parent_signs
from worker.queues.device_name import consumed_bench_queue
from worker.queues.stopping import is_stopping

MISPLACED_BEATS = 10  # heartbeats with a different store of the service before the worker gives up
PROBLEM_TTL_S = 30.0  # the next child tells it again
DRAINED = "An operator drained it: it ends its jobs and takes no more."
PARENT_STOPPED = "Its parent process does not run, so it takes no jobs."
BEAT_S = 1.0  # at most this long, and a fifth of the time that a silent worker counts as live

log = structlog.get_logger(__name__)


class Today:
    """The part of a rising count that belongs to the current day."""

    def __init__(self, day: date) -> None:
        self._day = day
        self._before = 0

    def part_of(self, count: int, day: date) -> int:
        """Asked often: what came between the last question of a day and its end is lost to it."""
        if day != self._day:
            self._day, self._before = day, count
        return count - self._before


class Heartbeat:
    """Beats from its own thread until `stop`. The worker's id outlives its child, so a restart leaves no ghost.

    `give_up` is told why, once the service keeps its matrices where this worker does not.
    """

    def __init__(
        self,
        registry: WorkerRegistry,
        place: ServicePlace,
        runner: Runner,
        settings: Settings,
        *,
        give_up: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self._place = place
        self._runner = runner
        self._settings = settings
        self._give_up = give_up
        self._pause_s = min(BEAT_S, settings.worker_ttl_s / 5)
        self._misplaced_beats = 0
        self._is_drained = self._is_cut_off = False
        self._started_at = datetime.now(UTC)
        self._jobs: tuple[str, ...] = ()  # under way, in the order in which they began
        self._lock = Lock()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="heartbeat", daemon=True)
        self._bench_queue = consumed_bench_queue(runner.device.name)
        self.verified_products = 0
        self._today = Today(self._started_at.date())
        self.worker_id = worker_id(settings.device, os.getppid())

    def start(self) -> None:
        """The first beat goes out now. Raises StoreUnavailable."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Takes the worker off the register."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(LAST_BEAT_S)
        self._registry.gone(self.worker_id)

    def count_product(self, *, is_verified: bool) -> None:
        with self._lock:
            self.verified_products += is_verified

    def count_mismatch(self, what: str) -> int:
        """A product was wrong; how many such things are known of this worker. Raises StoreUnavailable."""
        return self._registry.count_mismatch(self.worker_id, what)

    def begin(self, job_id: str) -> None:
        """Heartbeats report that the job is running, until `end`."""
        with self._lock:
            self._jobs = (*self._jobs, job_id)

    def end(self, job_id: str) -> None:
        with self._lock:
            self._jobs = tuple(each for each in self._jobs if each != job_id)

    def _run(self) -> None:
        while not self._stopped.wait(self._pause_s):
            self._beat_and_look()

    def _beat_and_look(self) -> None:
        try:
            self._beat()
            self._look_for_the_store()
            self._look_for_the_parent()
        except MatmulError as error:
            log.debug("a heartbeat was not heard", reason=error.type)

    def _beat(self) -> None:
        """The answer to a beat says whether the worker is drained. If that changed, the new state is sent at once."""
        before, self._is_drained = self._is_drained, self._registry.beat(self._info(), self._settings.worker_ttl_s)
        if self._is_drained != before:
            self._registry.beat(self._info(), self._settings.worker_ttl_s)

    def _look_for_the_store(self) -> None:
        """Checks the service's store. A deleted directory is created again by the first process that needs it, and
        announced by the API a little later.
        """
        problem = self._place.misplaced()
        self._misplaced_beats = self._misplaced_beats + 1 if problem else 0
        if problem and self._misplaced_beats >= MISPLACED_BEATS:
            self._give_up(problem)

    def _look_for_the_parent(self) -> None:
        """Whether the parent fetches messages: it counts as stopped after as long as a silent worker counts as gone.
        Not looked for while beats fail, for the parent then waits for Redis as well.
        """
        looks = math.ceil(self._settings.worker_ttl_s / self._pause_s)
        self._is_cut_off = parent_signs.is_silent(looks) and not is_stopping()

    def tell_problem(self, problem: str) -> None:
        """Reports that this worker is live but takes no jobs. Raises StoreUnavailable."""
        info = self._info().model_copy(update={"state": "misplaced", "reason": problem})
        self._registry.beat(info, max(PROBLEM_TTL_S, self._settings.worker_ttl_s))

    @property
    def _out_of_service(self) -> tuple[WorkerState, str] | None:
        if self._is_drained:
            return "drained", DRAINED
        return ("unavailable", PARENT_STOPPED) if self._is_cut_off else None

    def _info(self) -> WorkerInfo:
        job, now = next(iter(self._jobs), None), datetime.now(UTC)
        state, reason = self._out_of_service or ("busy" if job else "ready", None)
        return WorkerInfo(
            id=self.worker_id,
            state=state,
            reason=reason,
            device=self._runner.device,
            queue=self._runner.device.device_class,
            bench_queue=self._bench_queue,
            kernels=self._runner.kernels,
            job=job,
            verified_products=self.verified_products,
            verified_today=self._today.part_of(self.verified_products, now.date()),
            started_at=self._started_at,
            seen_at=now,
            lease_s=self._settings.worker_ttl_s,
            telemetry=self._runner.telemetry(),
            store=self._place.mine or "",
            settings=agreed(self._settings),
        )
