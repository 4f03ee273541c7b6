"""Redis' state of persistence and memory. Everything that must survive a restart is in its append-only file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

import redis
import structlog

from jobs.errors import StoreUnavailable
from jobs.redis.client import translated
from jobs.settings import Durability

LOOK_EVERY_S = 5.0
NOT_SYNCED = (
    "The job store does not sync what it records before it answers, as MATMUL_DURABILITY=disk asks; set its appendonly "
    "to yes and its appendfsync to always."
)
SYNCED = {"appendonly": "yes", "appendfsync": "always"}

log = structlog.get_logger(__name__)


def server_options(durability: str) -> tuple[str, ...]:
    """Persistence options for an embedded server."""
    return ("appendfsync always",) if durability == "disk" else ()


class SyncPolicy:
    """Checks that Redis' sync policy matches the setting `MATMUL_DURABILITY`. Safe to share between threads."""

    def __init__(self, client: redis.Redis, durability: Durability) -> None:
        self._client = client
        self._is_wanted = durability == "disk"
        self._good_until = 0.0

    @property
    def is_due(self) -> bool:
        return self._is_wanted and time.monotonic() > self._good_until

    def check(self) -> None:
        """Checks every LOOK_EVERY_S. Raises StoreUnavailable if a power cut could lose more than is promised."""
        if not self.is_due:
            return
        with translated():
            found = self._policy()
        if found != SYNCED:
            raise StoreUnavailable(NOT_SYNCED)
        self._good_until = time.monotonic() + LOOK_EVERY_S

    def _policy(self) -> dict[str, str]:
        try:
            found = cast(dict[str, str], self._client.config_get("append*"))
        except redis.ResponseError as error:
            log.warning("the job store does not say whether it syncs; it is trusted to", reason=str(error))
            return SYNCED
        return {name: found.get(name, "") for name in SYNCED}


@dataclass(frozen=True, slots=True)
class Persistence:
    """`is_ok`: the last write to it was whole; also where there is no such file."""

    has_aof: bool
    is_ok: bool
    delayed_writes: int  # writes delayed to their limit because the disk was busy with the previous sync
    size_bytes: int


@translated()
def persistence_of(client: redis.Redis) -> Persistence:
    """Raises StoreUnavailable."""
    said: dict[str, Any] = client.info("persistence")
    return Persistence(
        has_aof=bool(said.get("aof_enabled")),
        is_ok=said.get("aof_last_write_status", "ok") == "ok",
        delayed_writes=int(said.get("aof_delayed_fsync", 0)),
        size_bytes=int(said.get("aof_current_size", 0)),
    )


@dataclass(frozen=True, slots=True)
class Memory:
    used_bytes: int
    limit_bytes: int  # 0: none

    @property
    def is_full(self) -> bool:
        return 0 < self.limit_bytes <= self.used_bytes


@translated()
def memory_of(client: redis.Redis) -> Memory:
    """Raises StoreUnavailable."""
    said: dict[str, Any] = client.info("memory")
    return Memory(used_bytes=int(said["used_memory"]), limit_bytes=int(said.get("maxmemory", 0)))
