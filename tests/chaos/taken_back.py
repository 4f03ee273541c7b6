"""How long jobs were without a worker after a fault took theirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from jobs.models import JobEvent
from tests.chaos.driver import Struck
from tests.chaos.plan import KINDS

LATEST_S = 30.0  # what is taken back later is some other fault's


def taken_back(lives: Mapping[str, Sequence[JobEvent]], struck: Iterable[Struck]) -> dict[str, dict[str, float]]:
    """By kind of fault: the jobs that it took from their worker, and the seconds until they were queued again."""
    takers = sorted((each for each in struck if KINDS[each.fault.kind].of_worker), key=lambda each: each.began_at)
    seconds: dict[str, list[float]] = defaultdict(list)
    for events in lives.values():
        for at in _when(events):
            before = [each for each in takers if each.began_at <= at <= each.began_at + LATEST_S]
            if before:
                seconds[before[-1].fault.kind].append(at - before[-1].began_at)
    return {kind: _summary(times) for kind, times in sorted(seconds.items())}


def _when(events: Sequence[JobEvent]) -> list[float]:
    """When a running job was queued again, in seconds since 1970: the server's clock, which is this machine's."""
    times = []
    for one, other in pairwise(events):
        if one.event in ("running", "progress") and other.event == "queued":
            times.append(int(other.id.partition("-")[0]) / 1000)
    return times


def _summary(times: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(times, [50, 99])
    return {
        "jobs": len(times),
        "p50_s": round(float(p50), 2),
        "p99_s": round(float(p99), 2),
        "max_s": round(max(times), 2),
    }
