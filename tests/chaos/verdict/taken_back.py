"""How long jobs were without a worker after a fault took theirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from jobs.models import JobEvent
from tests.chaos.driver import Struck
from tests.chaos.plan import KINDS


def taken_back(lives: Mapping[str, Sequence[JobEvent]], struck: Iterable[Struck]) -> dict[str, dict[str, float]]:
    """By kind of fault that kills: the jobs that it took from their worker, and the seconds until they were queued
    again. What is only stopped may go on, and lose its job to a later fault."""
    takers = sorted((each for each in struck if KINDS[each.fault.kind].of_worker), key=lambda each: each.began_at)
    seconds: dict[str, list[float]] = defaultdict(list)
    for events in lives.values():
        for started, queued in _spans(events):
            while_it_ran = [each for each in takers if started <= each.began_at <= queued]
            if while_it_ran:
                first = while_it_ran[0]
                seconds[first.fault.kind].append(queued - first.began_at)
    return {kind: _summary(times) for kind, times in sorted(seconds.items()) if kind.endswith("killed")}


def _spans(events: Sequence[JobEvent]) -> list[tuple[float, float]]:
    """When an attempt began, and when its job was queued again, in seconds since 1970: by the server's clock, which is
    this machine's."""
    changes = [event for event in events if event.event != "progress"]
    return [
        (_at(one), _at(other)) for one, other in pairwise(changes) if (one.event, other.event) == ("running", "queued")
    ]


def _at(event: JobEvent) -> float:
    return int(event.id.partition("-")[0]) / 1000


def _summary(times: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(times, [50, 99])
    return {
        "jobs": len(times),
        "p50_s": round(float(p50), 2),
        "p99_s": round(float(p99), 2),
        "max_s": round(max(times), 2),
    }
