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
    """For operators: why no 202 can be given, as fewer replicas follow than `MATMUL_REDIS_REPLICAS` says; None where
    there are enough. Raises StoreUnavailable."""
    if not wanted:
        return None
    said: dict[str, Any] = client.info("replication")
    if said.get("role") == "slave":
        return None  # which is told by whatever is written
    there = sum(isinstance(each, dict) and each.get("state") == "online" for each in said.values())
    if there >= wanted:
        return None
    return (
        f"MATMUL_REDIS_REPLICAS is {wanted}, but Redis has {there} connected replica{'' if there == 1 else 's'}, so "
        "each 202 is a 503 instead. Start a replica (`replicaof`), or set MATMUL_REDIS_REPLICAS=0."
    )


def warn_of_missing_replicas(settings: Settings) -> None:
    """At the API's start: an error in the log. It starts all the same: a failover leaves fewer replicas for a while,
    and jobs that ended can be read meanwhile. /readyz asks again."""
    if not settings.redis_replicas:
        return
    with connect(settings) as client:
        try:
            missing = missing_replicas(client, settings.redis_replicas)
        except (StoreUnavailable, StoreFull, redis.ResponseError):
            return  # of a Redis that is away `claim_layout` tells
    if missing is not None:
        log.error("Redis has too few replicas", reason=missing)
