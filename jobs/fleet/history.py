"""History of the last day as three series in Redis, from fine and short to coarse and long.

The sweeper that holds the lock looks at workers and queues, and writes a sample into each series when its step is over.
A sample is a stream entry. Fields written by another version are ignored, and fields that it did not write are unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import redis

from jobs.errors import StoreFull
from jobs.fleet.workers import WorkerInfo
from jobs.redis.client import translated

LOOK_EVERY_S = 1.0  # as often as workers beat
COUNTED = ("succeeded", "failed", "cancelled")  # jobs that ended so since the ledger began


@dataclass(frozen=True, slots=True)
class Series:
    """One resolution of the history."""

    name: str  # as pages ask for it
    step_s: float
    window_s: float

    @property
    def kept(self) -> int:
        """The number of samples to keep: those of its window and one before, from which rates are computed."""
        return round(self.window_s / self.step_s) + 1


SERIES = {one.name: one for one in (Series("5m", 5, 300), Series("1h", 30, 3600), Series("24h", 300, 86_400))}


@dataclass(frozen=True, slots=True)
class Sample:
    """One step; unknown is None. `workers`, `busy` and `power_w` are means over it, the counts are rising totals."""

    at: datetime
    workers: float | None = None
    busy: float | None = None
    power_w: float | None = None  # of all devices that report it
    waiting: float | None = None  # at its end
    oldest_s: float | None = None  # the longest time that a job had waited
    succeeded: float | None = None
    failed: float | None = None
    cancelled: float | None = None


FIELDS = ("workers", "busy", "power_w", "waiting", "oldest_s", *COUNTED)


class History:
    """Reads and writes the series. Raises StoreUnavailable, StoreFull."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client, self._prefix = client, prefix

    def _key(self, series: Series) -> str:
        return f"{self._prefix}history:{series.name}"

    @translated()
    def write(self, series: Series, values: Mapping[str, float | None]) -> None:
        fields: Any = {name: f"{value:.10g}" for name, value in values.items() if value is not None}
        self._drop_ahead(self._key(series))
        self._client.xadd(self._key(series), fields, maxlen=series.kept, approximate=False)

    def _drop_ahead(self, key: str) -> None:
        """Samples of before Redis' clock was set back lie ahead of it. A stream takes no entry before its last one, so
        it is made again from the others.
        """
        seconds, micros = self._client.time()
        now_ms = seconds * 1000 + micros // 1000
        last: Any = self._client.xrevrange(key, count=1)
        if not last or _ms_of(last[0][0]) <= now_ms:
            return
        others: Any = self._client.xrange(key, max=str(now_ms))
        pipe = self._client.pipeline()
        pipe.delete(key)
        for entry_id, fields in others:
            pipe.xadd(key, fields, id=entry_id)
        pipe.execute()

    @translated()
    def counts(self) -> dict[str, float]:
        found: Any = self._client.hmget(f"{self._prefix}counts", [f"ended:{state}" for state in COUNTED])
        return {state: float(value or 0) for state, value in zip(COUNTED, found, strict=True)}

    @translated()
    def read(self, series: Series) -> Sequence[Sample]:
        """The samples of the window up to now, by Redis' clock, and the one before it, oldest first."""
        seconds, _ = self._client.time()
        since = int((seconds - series.window_s - series.step_s) * 1000)
        found: Any = self._client.xrange(self._key(series), min=str(max(0, since)))
        return [_sample(entry_id, values) for entry_id, values in found]


def _sample(entry_id: bytes, values: Mapping[bytes, bytes]) -> Sample:
    known = {name: number for name in FIELDS if (number := _number(values.get(name.encode()))) is not None}
    return Sample(datetime.fromtimestamp(_ms_of(entry_id) / 1e3, UTC), **known)


def _ms_of(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0])


def _number(text: bytes | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


@dataclass(slots=True)
class _Step:
    """The observations since the last sample of a series."""

    ends_at_s: float
    looks: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    power_looks: int = 0
    oldest_s: float = 0.0

    def add(self, workers: Sequence[WorkerInfo], oldest_s: float) -> None:
        powers = [worker.telemetry.power_w for worker in workers if worker.telemetry.power_w is not None]
        seen = {"workers": len(workers), "busy": sum(worker.job is not None for worker in workers)}
        self.looks += 1
        self.power_looks += bool(powers)
        for name, value in (*seen.items(), ("power_w", sum(powers))):
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.oldest_s = max(self.oldest_s, oldest_s)

    def means(self) -> dict[str, float | None]:
        power = self.sums["power_w"] / self.power_looks if self.power_looks else None
        return {
            "workers": self.sums["workers"] / self.looks,
            "busy": self.sums["busy"] / self.looks,
            "power_w": power,
            "oldest_s": self.oldest_s,
        }


class HistoryKeeper:
    """The part of the sweeper that holds the lock. For use by one thread. When a process loses the lock, its unwritten
    observations are lost. `depths`: for each queue, how many jobs wait, and for how many seconds the first has waited.
    """

    def __init__(
        self,
        history: History,
        live: Callable[[], Sequence[WorkerInfo]],
        depths: Callable[[], Sequence[tuple[int, float]]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history, self._live, self._depths, self._clock = history, live, depths, clock
        self._look_at_s = 0.0
        self._steps: dict[str, _Step] = {}

    def look(self) -> None:
        """Takes observations; called with each sweep."""
        now = self._clock()
        if now < self._look_at_s:
            return
        self._look_at_s = now + LOOK_EVERY_S
        workers, depths = self._live(), self._depths()
        oldest_s = max((age_s for _, age_s in depths), default=0.0)
        for series in SERIES.values():
            step = self._steps.get(series.name)
            if step is None or now > step.ends_at_s + series.step_s:  # another process held the lock in between
                step = self._steps[series.name] = _Step(now + series.step_s)
            step.add(workers, oldest_s)
            if now >= step.ends_at_s:
                self._end(series, step, sum(waiting for waiting, _ in depths))
                self._steps[series.name] = _Step(now + series.step_s)

    def _end(self, series: Series, step: _Step, waiting: int) -> None:
        with suppress(StoreFull):  # a gap in a picture must not keep the sweeper from making room
            self._history.write(series, {**step.means(), "waiting": float(waiting), **self._history.counts()})
