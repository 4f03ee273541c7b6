"""The service's health in sentences, each with a colour: what works, what waits, what is wrong and what to do about
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import QueueDepth
from service.dashboard.words import duration

SLOW_S = 60.0  # a longer wait is reported

LEVELS = ("good", "wait", "bad")
HEADLINES = {"good": "All is well", "wait": "Running, with something to look at", "bad": "Something is wrong"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about health. `level` is one of LEVELS; `leads` is the page to look at."""

    level: str
    name: str
    words: str
    leads: str = ""

    @property
    def rank(self) -> int:
        """The sort key: problems come first."""
        return LEVELS.index(self.level)


def headline(findings: Sequence[Finding]) -> Finding:
    """The worst finding, in words."""
    worst = max((finding.level for finding in findings), key=LEVELS.index, default="good")
    return Finding(worst, "Health", HEADLINES[worst])


def findings_of(
    known: Sequence[WorkerInfo], depths: Mapping[str, QueueDepth], paused: Sequence[str], dead: int, failed: int
) -> Sequence[Finding]:
    """`paused`: queues, or `all`. `dead`: the reader's dead letters; `failed`: the reader's failures of the time."""
    return [*_workers(known), *_queues(known, depths, paused), *_failures(dead, failed)]


def _workers(known: Sequence[WorkerInfo]) -> Iterator[Finding]:
    serving = [worker for worker in known if worker.serves]
    busy = sum(worker.job is not None for worker in serving)
    if serving:
        yield Finding("good", "Workers", f"{len(serving)} live, {busy} busy", "/ui/devices")
    else:
        yield Finding("bad", "Workers", "none live: jobs wait until one is. `make worker` starts one", "/ui/devices")
    for worker in known:
        if worker.state == "drained":
            yield Finding("wait", worker.id, "drained: it takes no more jobs", "/ui/operations")
        elif not worker.serves:
            yield Finding("bad", worker.id, worker.reason or f"out of service: {worker.state}", "/ui/devices")
        elif worker.telemetry.throttle_reasons:
            reasons = ", ".join(worker.telemetry.throttle_reasons)
            yield Finding("wait", worker.device.name, f"its clock is held down by {reasons}", "/ui/devices")


def _queues(known: Sequence[WorkerInfo], depths: Mapping[str, QueueDepth], paused: Sequence[str]) -> Iterator[Finding]:
    if "all" in paused:
        yield Finding("wait", "Service", "paused: jobs are accepted, none is started", "/ui/operations")
    taken = {queue for worker in known if worker.serves for queue in (worker.queue, worker.bench_queue)}
    waiting = sum(depth.waiting for depth in depths.values())
    for name, depth in depths.items():
        age = f", the oldest for {duration(depth.oldest_age_s)}" if depth.oldest_age_s is not None else ""
        if name in paused:
            yield Finding("wait", f"Queue {name}", f"paused, {depth.waiting} waiting{age}", "/ui/operations")
        elif depth.waiting and name not in taken:
            yield Finding("bad", f"Queue {name}", f"{depth.waiting} waiting{age}, and no worker for it is live")
        elif (depth.oldest_age_s or 0.0) > SLOW_S:
            yield Finding("wait", f"Queue {name}", f"{depth.waiting} waiting{age}", "/ui/jobs?state=queued")
    if not waiting:
        yield Finding("good", "Queues", "empty")
    elif not any(depth.oldest_age_s and depth.oldest_age_s > SLOW_S for depth in depths.values()):
        yield Finding("good", "Queues", f"{waiting} waiting, none for long", "/ui/jobs?state=queued")


def _failures(dead: int, failed: int) -> Iterator[Finding]:
    if dead:
        yield Finding("wait", "Dead letters", f"{dead}: they used up their attempts", "/ui/dead-letters")
    if failed:
        yield Finding("wait", "Failures", f"{failed} in the time shown below", "/ui/jobs?state=failed")
    else:
        yield Finding("good", "Failures", "none in the time shown below")
