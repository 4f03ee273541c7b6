"""The blocking client. It runs the flows of `core` on blocking connections."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from matmul_client.connections import Connections
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
from matmul_client.handles import Benchmark, Job, Matrix, Product

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")
Record = dict[str, Any]


class Client:
    """The service at `url` (MATMUL_URL), asked with `api_key` (MATMUL_API_KEY). Safe to share between threads.

    `timeout`, in seconds, is the deadline of a whole call, retries and waiting included. A call that is cut off, or
    refused for a limit, is tried again `max_retries` times under one Idempotency-Key: it makes one job. With
    `max_retries=0` no key is sent, which saves the service some work; a job whose id had not come when the call failed
    then goes on.
    To cancel a job whose id has not come, its request is sent again, for 2 s at most: where operands take longer to
    send, the job goes on.
    `ssl_context`: for certificates that the system does not know.
    """

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
        self._connections = Connections(self._service, ssl_context)

    @property
    def url(self) -> str:
        return self._service.url

    def matmul(self, a: Any, b: Any, *, timeout: float | None = None, **options: Unpack[Options]) -> Array:
        """Multiplies two matrices, or batches of them: arrays, or matrices that are already on the service. Arrays of
        different types become one as in numpy; integers such as int64 are sent as int32 or float64, exactly.

        If the call fails, passes its deadline, or is interrupted by Ctrl-C, its job is cancelled. Raises subclasses of
        MatmulError.
        """
        call = self._call(timeout)
        return self._run(call, products.multiply(call, a, b, options))

    def submit(self, a: Any, b: Any, *, timeout: float | None = None, **options: Unpack[Options]) -> Job:
        """Submits a product and returns its job, without waiting for it."""
        call = self._call(timeout)
        return Job(self, self._run(call, products.submit(call, a, b, options)))

    def upload(self, a: Any, *, timeout: float | None = None) -> Matrix:
        """Stores a matrix for use in many products. A matrix that the service already has is not sent again."""
        call = self._call(timeout)
        stored = self._run(call, matrices.upload(call, a))
        return Matrix(self, stored.id, stored.dtype, stored.shape)

    def matrix(self, matrix_id: str) -> Matrix:
        """A stored matrix, by its id. Raises NotFound."""
        call = self._call(None)
        info = self._run(call, matrices.find(call, matrix_id))
        return Matrix(self, info["id"], info["dtype"], tuple(info["shape"]))

    def job(self, job_id: str) -> Job:
        """A job that was submitted earlier, by any client; a Benchmark if it is a benchmark."""
        call = self._call(None)
        record = self._run(call, jobs.find(call, job_id))
        return Benchmark(self, record) if record.get("kind") == "benchmark" else Job(self, record)

    def jobs(self, *, limit: int = 50, **where: str | None) -> list[Record]:
        """Job records, newest first. Filters in `where`: `state`, `kind`, `kernel`, `q`; None for no filter."""
        call = self._call(None)
        return self._run(call, jobs.list_jobs(call, limit, where))

    def benchmark(self, preset: str | None = None, *, timeout: float | None = None, **fields: Any) -> Benchmark:
        """Starts a benchmark from a preset's name, the fields of a spec, or both. `timeout` applies to the request, not
        to the measurement.
        """
        call = self._call(timeout)
        return Benchmark(self, self._run(call, benchmarks.start(call, preset, fields)))

    def open_benchmark(self, job_id: str) -> Benchmark:
        """A benchmark that was started earlier, by any client. Raises NotFound."""
        job = self.job(job_id)
        if not isinstance(job, Benchmark):
            raise NotFound(f"{job_id} is a product, not a benchmark.", code="not_found", job_id=job_id)
        return job

    def compare(self, before: str, after: str) -> Record:
        """Compares two benchmarks case by case, given the ids of their jobs."""
        call = self._call(None)
        return self._run(call, benchmarks.compare(call, before, after))

    def kernels(self) -> list[Record]:
        call = self._call(None)
        return self._run(call, get_records(call, "kernels"))

    def kernel(self, name: str) -> Record:
        """One kernel, with its tile parameters and requirements."""
        call = self._call(None)
        return self._run(call, get_json(call, f"/v1/kernels/{segment(name)}", "name"))

    def devices(self) -> list[Record]:
        call = self._call(None)
        return self._run(call, get_records(call, "devices"))

    def presets(self) -> list[Record]:
        call = self._call(None)
        return self._run(call, get_records(call, "benchmarks", "presets"))

    def close(self) -> None:
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, timeout: float | None) -> Call:
        return Call(self._timeout_s if timeout is None else seconds_of(timeout), self._max_retries, self._contact)

    def _product(self, left: Any, right: Any) -> Product:
        return Product(self, ChainedProduct(left, right))

    def _run(self, call: Call, flow: Flow[T]) -> T:
        """Does what the flow asks for, to its end. What the call has started is cancelled where it ends badly."""
        try:
            return self._play(call, flow)
        except BaseException:
            if call.has_started:
                self._abandon(call)
            raise

    def _play(self, call: Call, flow: Flow[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                outcome = self._do(call, flow.send(outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    def _abandon(self, ended: Call) -> None:
        call = Call(CLEAN_UP_S, self._max_retries, self._contact)
        with contextlib.suppress(MatmulError):  # the first error is the one to tell
            self._run(call, products.abandon(call, ended))

    def _do(self, call: Call, step: Step) -> Outcome:
        match step:
            case Request():
                return self._perform(call, step)
            case Pause():
                time.sleep(step.seconds)
            case Compute():
                step.work()
            case Concurrent():
                self._run_concurrently(call, step)
        return None

    def _run_concurrently(self, call: Call, step: Concurrent) -> None:
        errors: list[BaseException] = []

        def run(flow: Flow[None]) -> None:
            try:
                self._play(call, flow)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(flow(),), daemon=True) for flow in step.flows]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # as by Ctrl-C: no flow sends anything more
            call.deadline = 0.0
            raise
        if errors:
            raise errors[0]

    def _perform(self, call: Call, request: Request) -> Reply | NoReply:
        return self._connections.exchange(request, call.deadline, call.sending)

    def _events(self, job_id: str) -> Iterator[Event]:
        """Yields events up to the job's last one, reconnecting after interruptions and restarts of the service."""
        feed = EventFeed(job_id, self._max_retries)
        while not feed.ended:
            with self._connections.opened(feed.request(), self._call(None).deadline) as opened:
                outcome: Reply | NoReply = NoReply(EVENTS_ENDED, may_have_arrived=True)
                try:
                    if isinstance(opened, NoReply):
                        outcome = opened
                    elif opened.response.status == 200:
                        for piece in opened.pieces(inf):
                            yield from feed.feed(piece)
                    else:
                        outcome = Reply(opened.response.status, opened.headers(), b"".join(opened.pieces(inf)))
                except (OSError, HTTPException):
                    pass  # it is asked again
            if not feed.ended:
                time.sleep(feed.broken(outcome))
