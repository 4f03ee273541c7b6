"""The register of live workers, in Redis: recent heartbeats, with each worker's device and the kernels it serves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
import structlog
from pydantic import ValidationError

from jobs.fleet.workers import Ceilings, DeviceInfo, WorkerInfo
from jobs.redis.client import translated
from jobs.redis.clock import microseconds
from jobs.redis.scripts import SERVER_CLOCK, RedisScripts
from jobs.stored import read

log = structlog.get_logger(__name__)

MISMATCHES_TTL_S = 86_400  # after the last one
DRAINED_TTL_S = 30 * 86_400

LUA_DIR = Path(__file__).parent / "lua"


class WorkerRegistry:
    """Safe to share between threads. Raises StoreUnavailable. `clock` is for tests (`RedisScripts`)."""

    def __init__(self, client: redis.Redis, *, prefix: str, clock: str = SERVER_CLOCK) -> None:
        self._client = client
        self._prefix = prefix
        self._run = RedisScripts(client, prefix, LUA_DIR, clock=clock).run

    def beat(self, info: WorkerInfo, ttl_s: float) -> bool:
        """Records that this worker is live for `ttl_s` seconds from now. Also works when Redis is full, so that workers
        do not seem gone. Returns whether an operator drained the worker.
        """
        return bool(self._run("beat", info.id, info.model_dump_json(), microseconds(ttl_s)))

    def clock_set_back(self, ttl_s: float) -> None:
        """After Redis' clock was set back: no worker counts as live for longer than `ttl_s` from now."""
        self._run("set_back", microseconds(ttl_s))

    def live(self) -> Sequence[WorkerInfo]:
        """Live workers that take jobs, by name."""
        return [info for info in self.known() if info.serves]

    def known(self) -> Sequence[WorkerInfo]:
        """All live workers, including those out of service; `state` tells which."""
        infos = (_read(text) for text in self._run("live"))
        return sorted((info for info in infos if info is not None), key=lambda info: info.id)

    @translated()
    def last(self, worker_id: str) -> WorkerInfo | None:
        """A worker's last heartbeat, even if it has expired; None if it is no longer stored."""
        found: Any = self._client.hget(f"{self._prefix}workers:info", worker_id)
        return _read(found) if found else None

    @translated()
    def count_mismatch(self, worker_id: str, what: str) -> int:
        """Counts a wrong product of that worker and returns the total. The same `what` is counted only once."""
        key = f"{self._prefix}mismatches:{worker_id}"
        pipe = self._client.pipeline()
        pipe.sadd(key, what)
        pipe.expire(key, MISMATCHES_TTL_S)
        pipe.scard(key)
        return int(pipe.execute()[-1])

    @translated()
    def keep_roofs(self, device: DeviceInfo) -> None:
        """Stores the device's measured roofs for its future workers."""
        self._client.hset(f"{self._prefix}roofs", device.uuid or device.name, device.measured.model_dump_json())

    @translated()
    def roofs(self, device: DeviceInfo) -> Ceilings:
        """The roofs stored last for this GPU, or this CPU model; empty if there are none."""
        found: Any = self._client.hget(f"{self._prefix}roofs", device.uuid or device.name)
        try:
            return read(Ceilings, found) if found else Ceilings()
        except ValidationError as error:
            log.warning("a device's roofs cannot be read", reason=str(error))
            return Ceilings()

    @translated()
    def drain(self, worker_id: str) -> None:
        """Asks the worker to finish its jobs and take no more until `resume`. Requests for workers that are long gone
        are forgotten.
        """
        key, now = f"{self._prefix}workers:drained", time.time()
        said: Any = self._client.hgetall(key)
        if old := [worker for worker, at in said.items() if float(at) < now - DRAINED_TTL_S]:
            self._client.hdel(key, *old)
        self._client.hset(key, worker_id, f"{now:.0f}")

    @translated()
    def resume(self, worker_id: str) -> None:
        """Lets the worker take jobs again. A new worker process also calls this, since it may have the id of a drained
        one.
        """
        self._client.hdel(f"{self._prefix}workers:drained", worker_id)

    @translated()
    def is_drained(self, worker_id: str) -> bool:
        return bool(self._client.hexists(f"{self._prefix}workers:drained", worker_id))

    @translated()
    def gone(self, worker_id: str) -> None:
        """Removes a worker that stops, without waiting for its heartbeat to expire."""
        pipe = self._client.pipeline()
        pipe.zrem(f"{self._prefix}workers", worker_id)
        pipe.hdel(f"{self._prefix}workers:info", worker_id)
        pipe.hdel(f"{self._prefix}workers:drained", worker_id)
        pipe.execute()


def _read(text: Any) -> WorkerInfo | None:
    """Parses a heartbeat; None if a worker of another version wrote it in an unreadable form."""
    try:
        return read(WorkerInfo, text)
    except ValidationError as error:
        log.warning("a worker's heartbeat cannot be read", reason=str(error))
        return None
