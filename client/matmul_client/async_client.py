"""The asynchronous client. It runs the flows of `core` and never blocks the event loop."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx2

from matmul_client.async_connections import AsyncConnections, headers_of
from matmul_client.async_handles import AsyncBenchmark, AsyncJob, AsyncMatrix, AsyncProduct
from matmul_client.core import benchmarks, jobs, matrices, products
from matmul_client.core.elements import Array
from matmul_client.core.errors import MatmulError, NotFound
from matmul_client.core.events import Event, EventFeed
from matmul_client.core.exchange import get_json, get_records, segment
from matmul_client.core.http import (
    CLEAN_UP_S,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
    EVENTS_ENDED,
    Service,
)
from matmul_client.core.operands import ChainedProduct
from matmul_client.core.options import Options, retries_of, seconds_of
from matmul_client.core.wire import (
    Call,
    Compute,
    Concurrent,
    Contact,
    Flow,
    NoReply,
    Outcome,
    Pause,
    Reply,
    Request,
    Step,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")
Record = dict[str, Any]


class AsyncClient:
    """`Client` for one event loop, of asyncio or trio: the same parameters and the same methods, to be awaited. Used in
    another event loop, it raises MatmulError."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        max_retries: int = DEFAULT_RETRIES,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._service = Service(url, api_key)
        self._timeout_s, self._max_retries = seconds_of(timeout), retries_of(max_retries)
        self._contact = Contact()
        self._connections = AsyncConnections(self._service, ssl_context)

    @property
    def url(self) -> str:
        return self._service.url

    async def matmul(self, a: Any, b: Any, *, timeout: float | None = None, **options: Unpack[Options]) -> Array:
        """Multiplies two matrices, or batches of them: arrays, or matrices that are already on the service.

        If the call fails, passes its deadline, or its task is cancelled, its job is cancelled. Raises subclasses of
        MatmulError.
        """
        call = self._call(timeout)
        return await self._run(call, products.multiply(call, a, b, options))

    async def submit(self, a: Any, b: Any, *, timeout: float | None = None, **options: Unpack[Options]) -> AsyncJob:
        """Submits a product and returns its job, without waiting for it."""
        call = self._call(timeout)
        return AsyncJob(self, await self._run(call, products.submit(call, a, b, options)))

    async def upload(self, a: Any, *, timeout: float | None = None) -> AsyncMatrix:
        """Stores a matrix for use in many products. A matrix that the service already has is not sent again."""
        call = self._call(timeout)
        stored = await self._run(call, matrices.upload(call, a))
        return AsyncMatrix(self, stored.id, stored.dtype, stored.shape)

    async def matrix(self, matrix_id: str) -> AsyncMatrix:
        """A stored matrix, by its id. Raises NotFound."""
        call = self._call(None)
        info = await self._run(call, matrices.find(call, matrix_id))
        return AsyncMatrix(self, info["id"], info["dtype"], tuple(info["shape"]))

    async def job(self, job_id: str) -> AsyncJob:
        """A job that was submitted earlier, by any client; an AsyncBenchmark if it is a benchmark."""
        call = self._call(None)
        record = await self._run(call, jobs.find(call, job_id))
        return AsyncBenchmark(self, record) if record.get("kind") == "benchmark" else AsyncJob(self, record)

    async def jobs(self, *, limit: int = 50, **where: str | None) -> list[Record]:
        """Job records, newest first. Filters in `where`: `state`, `kind`, `kernel`, `q`; None for no filter."""
        call = self._call(None)
        return await self._run(call, jobs.list_jobs(call, limit, where))

    async def benchmark(
        self, preset: str | None = None, *, timeout: float | None = None, **fields: Any
    ) -> AsyncBenchmark:
        """Starts a benchmark from a preset's name, the fields of a spec, or both. `timeout` applies to the request, not
        to the measurement.
        """
        call = self._call(timeout)
        return AsyncBenchmark(self, await self._run(call, benchmarks.start(call, preset, fields)))

    async def open_benchmark(self, job_id: str) -> AsyncBenchmark:
        """A benchmark that was started earlier, by any client. Raises NotFound."""
        job = await self.job(job_id)
        if not isinstance(job, AsyncBenchmark):
            raise NotFound(f"{job_id} is a product, not a benchmark.", code="not_found", job_id=job_id)
        return job

    async def compare(self, before: str, after: str) -> Record:
        """Compares two benchmarks case by case, given the ids of their jobs."""
        call = self._call(None)
        return await self._run(call, benchmarks.compare(call, before, after))

    async def kernels(self) -> list[Record]:
        call = self._call(None)
        return await self._run(call, get_records(call, "kernels"))

    async def kernel(self, name: str) -> Record:
        """One kernel, with its tile parameters and requirements."""
        call = self._call(None)
        return await self._run(call, get_json(call, f"/v1/kernels/{segment(name)}", "name"))

    async def devices(self) -> list[Record]:
        call = self._call(None)
        return await self._run(call, get_records(call, "devices"))

    async def presets(self) -> list[Record]:
        call = self._call(None)
        return await self._run(call, get_records(call, "benchmarks", "presets"))

    async def aclose(self) -> None:
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _call(self, timeout: float | None) -> Call:
        return Call(self._timeout_s if timeout is None else seconds_of(timeout), self._max_retries, self._contact)

    def _product(self, left: Any, right: Any) -> AsyncProduct:
        return AsyncProduct(self, ChainedProduct(left, right))

    async def _run(self, call: Call, flow: Flow[T]) -> T:
        """Runs a flow to its end. If that fails or is cancelled, what the call had started is cancelled too."""
        try:
            return await self._play(call, flow)
        except BaseException:
            if call.has_started:
                await self._abandon(call)
            raise

    async def _play(self, call: Call, flow: Flow[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                outcome = await self._do(call, flow.send(outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _abandon(self, ended: Call) -> None:
        """Cancels what a failed call had started. It cannot be cancelled in turn; its deadline is short."""
        call = Call(CLEAN_UP_S, self._max_retries, self._contact)
        with anyio.CancelScope(shield=True), contextlib.suppress(MatmulError):  # the first error is the one to tell
            await self._run(call, products.abandon(call, ended))

    async def _do(self, call: Call, step: Step) -> Outcome:
        match step:
            case Request():
                return await self._perform(call, step)
            case Pause():
                await anyio.sleep(step.seconds)
            case Compute():
                await anyio.to_thread.run_sync(step.work)
            case Concurrent():
                await self._run_concurrently(call, step)
        return None

    async def _run_concurrently(self, call: Call, step: Concurrent) -> None:
        errors: list[Exception] = []

        async def run(flow: Flow[None]) -> None:
            try:
                await self._play(call, flow)
            except Exception as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            for flow in step.flows:
                tasks.start_soon(run, flow())
        if errors:
            raise errors[0]

    async def _perform(self, call: Call, request: Request) -> Reply | NoReply:
        return await self._connections.exchange(request, call.deadline, call.sending)

    async def _events(self, job_id: str) -> AsyncIterator[Event]:
        """Yields events up to the job's last one, reconnecting after interruptions and restarts of the service."""
        feed = EventFeed(job_id, self._max_retries)
        while not feed.ended:
            async with self._connections.opened(feed.request(), self._call(None).deadline, is_stream=True) as opened:
                outcome: Reply | NoReply = NoReply(EVENTS_ENDED, may_have_arrived=True)
                try:
                    if isinstance(opened, NoReply):
                        outcome = opened
                    elif opened.status_code == 200:
                        async for piece in opened.aiter_raw():
                            for event in feed.feed(piece):
                                yield event
                    else:
                        outcome = Reply(opened.status_code, headers_of(opened), await opened.aread())
                except httpx2.TransportError:
                    pass  # it is asked again
            if not feed.ended:
                await anyio.sleep(feed.broken(outcome))
