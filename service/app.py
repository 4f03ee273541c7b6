"""The application: its routes, middleware, and the objects that live as long as the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from threading import Event, Thread
from typing import Any, ClassVar

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute

from jobs.errors import MatmulError, StoreFull, StoreUnavailable
from jobs.fleet.history import HistoryKeeper
from jobs.matrices.interface import MatrixStore
from jobs.memory_tuning import tune_memory
from jobs.settings import Settings, get_settings
from jobs.sweeper.stranded import StrandedJobs
from jobs.sweeper.sweeper import Sweeper
from jobs.tracing.export import OtlpTracing, make_tracing
from service import error_handlers
from service.api_process.share import ALONE, Share
from service.context import Context, make_context
from service.dashboard.routers import ROUTERS
from service.http.direct_routes import DirectRoutes
from service.http.queries import QueryWall
from service.http.security import Gate, key_ring
from service.http.tracing import telemetry
from service.keys import KeyRing
from service.metrics import HttpMetrics
from service.middleware import OutermostMiddleware
from service.openapi.document import make_document
from service.routes import (
    benchmarks,
    catalogue,
    events,
    health,
    infer,
    inference,
    jobs,
    leaderboard,
    matmul,
    matrices,
    operations,
    pages,
    pinned,
    published,
    uploads,
)

ROUTES = (
    *(matmul, infer, inference, pinned, benchmarks, jobs, events, matrices, uploads, catalogue),
    *(published, leaderboard, operations, health, pages),
)
SWEEPER_STOP_S = 5.0
TIDY_EVERY_S, MAPPED_BYTES = 0.5, 256 << 20  # of slots that one process keeps mapped
FLUSH_S = 2.0  # for spans that were not sent yet


class MatmulApi(FastAPI):
    """FastAPI with the service's own OpenAPI document, made once in a process: its applications share routes."""

    document: ClassVar[dict[str, Any]] = {}

    def openapi(self) -> dict[str, Any]:
        if not self.document:
            self.document.update(make_document(self))
        return self.document


def _version() -> str:
    """The installed version; a checkout that is run without being installed has none."""
    try:
        return version("matmul-service")
    except PackageNotFoundError:
        return "0+unknown"


def create_app(settings: Settings | None = None, share: Share = ALONE) -> FastAPI:
    """Creates the application. Raises InvalidSettings for settings that are not safe or not complete."""
    settings = settings or get_settings()
    metrics = HttpMetrics(share)
    keys = key_ring(settings)
    tracing = make_tracing("api")
    app = MatmulApi(
        title="matmul-service",
        version=_version(),
        default_response_class=Response,  # routes make their responses themselves
        lifespan=_lifespan(settings, metrics, share, keys, tracing),
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry=telemetry(tracing),
        middleware=[
            Middleware(OutermostMiddleware, metrics=metrics, behind_tls=settings.behind_tls),
            Middleware(Gate, settings=settings, keys=keys),
            Middleware(QueryWall, routes=_routes(), on_error=error_handlers.ours),
            *([] if tracing else [_direct_routes()]),  # the spans of requests are FastAPI's
        ],
        exception_handlers={
            MatmulError: error_handlers.ours,
            RequestValidationError: error_handlers.validation,
            HTTPException: error_handlers.http,
        },
    )
    for module in ROUTES:
        app.include_router(module.router)
    for router in ROUTERS:
        app.include_router(router)
    return app


def _routes() -> list[BaseRoute]:
    return [route for module in ROUTES for route in module.router.routes]


def _direct_routes() -> Middleware:
    routes = *matmul.router.routes, *infer.router.routes
    return Middleware(DirectRoutes, routes=routes, on_error=error_handlers.ours, values=infer.MODEL_PATHS)


@contextmanager
def sweeping(context: Context, tracing: OtlpTracing | None) -> Iterator[None]:
    """Runs the sweeper in a separate thread, if the settings say so."""
    if not context.settings.sweeper:
        yield
        return
    stop = Event()
    sweeper = Sweeper(
        context.ledger,
        context.client,
        context.settings,
        sweep_matrices=lambda: _sweep_matrices(context),
        give_up_refused=lambda: context.ledger.refusals.give_up(
            context.registry.live(), older_than_s=context.settings.refused_ttl_s
        ),
        move_stranded=StrandedJobs(
            context.ledger.moves, context.registry.live, after_s=context.settings.move_after_s
        ).sweep,
        keep_history=HistoryKeeper(context.history, context.registry.live, lambda: _depths(context)).look,
        tracing=tracing,
    )
    thread = Thread(target=sweeper.run_forever, args=(stop,), name="sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(SWEEPER_STOP_S)


def _depths(context: Context) -> list[tuple[int, float]]:
    depths = context.ledger.depths(context.ledger.queues()).values()
    return [(depth.waiting, depth.oldest_age_s or 0.0) for depth in depths]


def _sweep_matrices(context: Context) -> int:
    """Sweeps the store, and announces which store the service uses to workers that wait for it."""
    context.place.tell()
    return context.store.sweep()


async def _tidy_maps(store: MatrixStore) -> None:
    """Every process does so: its maps keep the memory of deleted matrices."""
    while True:
        await asyncio.sleep(TIDY_EVERY_S)
        store.tidy_maps(MAPPED_BYTES)


def _lifespan(
    settings: Settings, metrics: HttpMetrics, share: Share, keys: KeyRing | None, tracing: OtlpTracing | None
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        context = app.state.context = make_context(settings, metrics, share, keys)
        ending = Event()
        listening = asyncio.create_task(context.hub.run())
        tidying = asyncio.create_task(_tidy_maps(context.store))
        with suppress(StoreUnavailable, StoreFull):  # then the first process that misses them loads them
            await asyncio.to_thread(context.ledger.scripts.load_functions)
        try:
            with sweeping(context, tracing):
                tune_memory(ending)
                yield
        finally:
            ending.set()
            tidying.cancel()
            context.hub.close()
            await listening
            await context.workers.close()
            await context.line.close()
            await context.replicas.close()
            context.client.close()
            if tracing is not None:
                await asyncio.to_thread(tracing.flush, FLUSH_S)

    return lifespan
