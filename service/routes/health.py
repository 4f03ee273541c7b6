"""Probes and figures."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from jobs.errors import NoWorkers, StoreUnavailable
from jobs.fleet.workers import WorkerInfo
from jobs.redis.layout import check_layout
from jobs.redis.persistence import memory_of, persistence_of
from jobs.redis.replication import missing_replicas
from service.context import Context, context_of
from service.http.negotiation import JSON
from service.ledger_metrics import LedgerCollector
from service.openapi.manual import rest as manual

NO_AOF = "Redis keeps no append-only file, so its restart loses all jobs; set its appendonly to yes."
NO_MEMORY = "Redis has no memory left, so new work gets 503; raise its maxmemory."
NO_WORKERS = "No worker is live; products wait until one is."

router = APIRouter()


@router.get("/livez", **manual.LIVEZ)
async def live() -> Response:
    return Response(b'{"status":"ok"}', media_type=JSON)


@router.get("/readyz", **manual.READYZ)
async def ready(request: Request) -> Response:
    context = context_of(request)
    workers, others = await context.call(_check, context)
    if not workers and context.settings.queue_without_workers != "always":
        raise context.fleet.explained(NoWorkers())
    said: dict[str, object] = {"status": "ok", "workers": len(workers)}
    none = [] if workers else [NO_WORKERS]
    if warnings := [*none, *context.fleet.warnings, *others]:
        said["warnings"] = warnings
    return Response(orjson.dumps(said), media_type=JSON)


def _check(context: Context) -> tuple[Sequence[WorkerInfo], Sequence[str]]:
    """Checks readiness: returns the live workers, and warnings about Redis and of pauses. Raises StoreUnavailable, also
    if no matrix could be stored; WrongLayout.
    """
    context.store.check_ready()
    if missing := missing_replicas(context.client, context.settings.redis_replicas):
        raise StoreUnavailable(missing)
    context.ledger.check_writable()
    context.sync_policy.check()
    check_layout(context.client, context.settings.key_prefix)
    of_redis = [
        *([] if persistence_of(context.client).has_aof else [NO_AOF]),
        *([NO_MEMORY] if memory_of(context.client).is_full else []),
    ]
    return context.fleet.read(), [*of_redis, *context.pause.warnings()]


@router.get("/metrics", **manual.METRICS)
async def metrics(request: Request) -> Response:
    text = await context_of(request).call(_figures, context_of(request))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _figures(context: Context) -> bytes:
    """The HTTP metrics, then those from the ledger. Raises StoreUnavailable."""
    of_ledger = CollectorRegistry()
    of_ledger.register(LedgerCollector(context))
    return context.metrics.text() + generate_latest(of_ledger)
