"""Whether Redis has as many replicas as a 202 waits for, in words for operators."""

from __future__ import annotations

from typing import Any

import redis
import structlog

from jobs.errors import StoreFull, StoreUnavailable
from jobs.redis.client import connect, translated
from jobs.settings import Settings

log = structlog.get_logger(__name__)


@translated()
def missing_replicas(client: redis.Redis, wanted: int) -> str | None:
    """A sentence for operators if fewer replicas are connected than `MATMUL_REDIS_REPLICAS` requires for a 202; None if
    there are enough. Raises StoreUnavailable.
    """
    if not wanted:
        return None
    said: dict[str, Any] = client.info("replication")
    if said.get("role") == "slave":
        return None  # which every write reports anyway
    there = sum(isinstance(each, dict) and each.get("state") == "online" for each in said.values())
    if there >= wanted:
        return None
    return (
        f"MATMUL_REDIS_REPLICAS is {wanted}, but Redis has {there} connected replica{'' if there == 1 else 's'}, so "
        "each 202 is a 503 instead; start a replica (`replicaof`), or set MATMUL_REDIS_REPLICAS=0."
    )


def warn_of_missing_replicas(settings: Settings) -> None:
    """Called at the API's start: logs an error if replicas are missing. The API starts all the same, because a failover
    leaves fewer replicas for a while, and ended jobs can still be read. /readyz checks again.
    """
    if not settings.redis_replicas:
        return
    with connect(settings) as client:
        try:
            missing = missing_replicas(client, settings.redis_replicas)
        except (StoreUnavailable, StoreFull, redis.ResponseError):
            return  # `claim_layout` reports an unavailable Redis
    if missing is not None:
        log.error("Redis has too few replicas", reason=missing)
