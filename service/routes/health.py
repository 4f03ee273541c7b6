"""Probes and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from jobs.errors import NoWorkers
from jobs.fleet.workers import WorkerInfo, WorkerState
from jobs.redis.layout import check_layout
from service.context import Context, context_of
from service.http.negotiation import JSON
from service.ledger_metrics import LedgerCollector
from service.openapi.manual import rest as manual

router = APIRouter()


@router.get("/livez", **manual.LIVEZ)
async def live() -> Response:
    return Response(b'{"status":"ok"}', media_type=JSON)


@router.get("/readyz", **manual.READYZ)
async def ready(request: Request) -> Response:
    context = context_of(request)
    workers = await context.call(_checked, context)
    serving = sum(worker.serves for worker in workers)
    out = Counter(worker.state for worker in workers if not worker.serves)
    if not serving:
        raise NoWorkers(_all_out(out)) if out else NoWorkers
    said: dict[str, Any] = {"status": "ok", "workers": serving}
    return Response(orjson.dumps(said | ({"out_of_service": dict(out)} if out else {})), media_type=JSON)


def _all_out(out: Counter[WorkerState]) -> str:
    counts = " and ".join(f"{count} {state}" for state, count in sorted(out.items()))
    return f"No worker serves: {counts}; GET /v1/devices says why."


def _checked(context: Context) -> Sequence[WorkerInfo]:
    """The workers. Raises StoreUnavailable, also where no matrix could be stored; WrongLayout."""
    context.store.check_ready()
    context.ledger.check_written()
    context.sync_policy.check()
    check_layout(context.client, context.settings.key_prefix)
    return context.registry.known()


@router.get("/metrics", **manual.METRICS)
async def metrics(request: Request) -> Response:
    text = await context_of(request).call(_figures, context_of(request))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _figures(context: Context) -> bytes:
    """What was counted here, then what the ledger says now. Raises StoreUnavailable."""
    of_ledger = CollectorRegistry()
    of_ledger.register(LedgerCollector(context))
    return context.metrics.text() + generate_latest(of_ledger)
