"""The register of live workers, in Redis: who said lately that it is there, what it runs on and what it serves."""

from __future__ import annotations

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

log = structlog.get_logger(__name__)

LUA_DIR = Path(__file__).parent / "lua"


class WorkerRegistry:
    """Safe to share between threads. Raises StoreUnavailable. `clock` is for tests (`RedisScripts`)."""

    def __init__(self, client: redis.Redis, *, prefix: str, clock: str = SERVER_CLOCK) -> None:
        self._client = client
        self._prefix = prefix
        self._run = RedisScripts(client, prefix, LUA_DIR, clock=clock).run

    def beat(self, info: WorkerInfo, ttl_s: float) -> None:
        """This worker is live for `ttl_s` from now. Works in a full Redis too: the fleet must not seem gone then."""
        self._run("beat", info.id, info.model_dump_json(), microseconds(ttl_s))

    def live(self) -> Sequence[WorkerInfo]:
        """Workers heard of within their time that take jobs, by name."""
        return [info for info in self.all() if info.problem is None]

    def all(self) -> Sequence[WorkerInfo]:
        """The same, with those that take none."""
        infos = (_read(text) for text in self._run("live"))
        return sorted((info for info in infos if info is not None), key=lambda info: info.id)

    @translated()
    def keep_roofs(self, device: DeviceInfo) -> None:
        """The device's measured roofs, for its workers to come."""
        self._client.hset(f"{self._prefix}roofs", device.uuid or device.name, device.measured.model_dump_json())

    @translated()
    def roofs(self, device: DeviceInfo) -> Ceilings:
        """As kept last for this GPU, or this model of CPU; empty where there are none."""
        found: Any = self._client.hget(f"{self._prefix}roofs", device.uuid or device.name)
        try:
            return Ceilings.model_validate_json(found) if found else Ceilings()
        except ValidationError as error:
            log.warning("a device's roofs cannot be read", reason=str(error))
            return Ceilings()

    @translated()
    def gone(self, worker_id: str) -> None:
        """The worker stops; do not wait until its time is up."""
        pipe = self._client.pipeline()
        pipe.zrem(f"{self._prefix}workers", worker_id)
        pipe.hdel(f"{self._prefix}workers:info", worker_id)
        pipe.execute()


def _read(text: Any) -> WorkerInfo | None:
    """None where a worker of another version wrote what this one cannot read: a rolling update must not stop it."""
    try:
        return WorkerInfo.model_validate_json(text)
    except ValidationError as error:
        log.warning("a worker's heartbeat cannot be read", reason=str(error))
        return None
