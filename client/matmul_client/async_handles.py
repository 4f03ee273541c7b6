"""The objects returned by an `AsyncClient`: stored matrices, pending products, jobs and benchmarks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from matmul_client.core import benchmarks, jobs, matrices, products
from matmul_client.core.bodies import Reference
from matmul_client.core.elements import Array
from matmul_client.core.events import Event
from matmul_client.core.operands import ChainedProduct, Operand
from matmul_client.core.results import BenchmarkResult, Plot, Point, point_of, record_html
from matmul_client.core.wire import Call, Flow

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from matmul_client.core.options import ReportFields

Record = dict[str, Any]
T = TypeVar("T")


class _AsyncClient(Protocol):
    """What handles ask of the `matmul_client.async_client.AsyncClient` that made them."""

    @property
    def url(self) -> str: ...

    async def job(self, job_id: str) -> AsyncJob: ...

    def _call(self, timeout: float | None) -> Call: ...

    async def _run(self, call: Call, flow: Flow[T]) -> T: ...

    def _product(self, left: Any, right: Any) -> AsyncProduct: ...

    def _events(self, job_id: str) -> AsyncIterator[Event]: ...


class _Handle(Operand):
    """An operand of a client's."""

    def __init__(self, client: _AsyncClient, source: Reference | ChainedProduct) -> None:
        super().__init__(source)
        self._client = client

    def __matmul__(self, other: Any) -> AsyncProduct:
        return self._client._product(self, other)

    def __rmatmul__(self, other: Any) -> AsyncProduct:
        return self._client._product(other, self)


class AsyncMatrix(_Handle):
    """A matrix stored on the service; `dtype` and `shape` are those of the stored matrix."""

    def __init__(self, client: _AsyncClient, matrix_id: str, dtype: str, shape: tuple[int, ...]) -> None:
        super().__init__(client, Reference("matrix", matrix_id))
        self.id, self.dtype, self.shape = matrix_id, dtype, shape

    async def numpy(self, *, timeout: float | None = None) -> Array:
        """Fetches it."""
        call = self._client._call(timeout)
        return matrices.resolve_view(await self._client._run(call, matrices.download(call, self.id)), self)

    async def delete(self) -> None:
        """Deletes the matrix; jobs that need it keep it until they end."""
        call = self._client._call(None)
        await self._client._run(call, matrices.delete(call, self.id))

    def __repr__(self) -> str:
        return f"<Matrix {self.id[:12]}… {self.dtype} {'×'.join(map(str, self.shape))}>"


class AsyncProduct(_Handle):
    """A product written with `@`. It is computed on the service, once, when its result is requested."""

    _source: ChainedProduct

    async def result(self, *, timeout: float | None = None) -> Array:
        """Computes and fetches the product. Raises JobFailed and the other errors of `matmul`."""
        call = self._client._call(timeout)
        return matrices.resolve_view(await self._client._run(call, products.multiply_chain(call, self._source)), self)

    async def submit(self, *, timeout: float | None = None) -> AsyncJob:
        """Has it computed, and does not wait."""
        call = self._client._call(timeout)
        job = await self._client.job(await self._client._run(call, products.submit_chain_detached(call, self._source)))
        job._seen_as(self)
        return job


class AsyncJob(_Handle):
    """A product's job. `record` is its latest known record. The job can be used as an operand before it has ended."""

    def __init__(self, client: _AsyncClient, record: Record) -> None:
        super().__init__(client, Reference("job", record["id"]))
        self.id: str = record["id"]
        self.record = record

    async def status(self, *, timeout: float | None = None) -> Record:
        """Fetches the job's record."""
        return await self._heard(timeout, wait=False)

    async def wait(self, *, timeout: float | None = None) -> Record:
        """Waits for the job's end, whatever it is, and returns its record. Raises DeadlineExceeded; the job then
        continues.
        """
        return await self._heard(timeout, wait=True)

    async def _heard(self, timeout: float | None, *, wait: bool) -> Record:
        call = self._client._call(timeout)
        flow = jobs.wait(call, self.id) if wait else jobs.find(call, self.id)
        self.record = await self._client._run(call, flow)
        return self.record

    async def result(self, *, timeout: float | None = None) -> Array:
        """Waits for the product and returns it. Raises JobFailed, JobCancelled, or DeadlineExceeded, after which the
        job continues.
        """
        call = self._client._call(timeout)
        return matrices.resolve_view(await self._client._run(call, products.fetch(call, self.id)), self)

    async def cancel(self, *, timeout: float | None = None) -> Record:
        """Cancels the job and returns its record. Raises Conflict if it had already ended."""
        call = self._client._call(timeout)
        self.record = await self._client._run(call, jobs.cancel(call, self.id))
        return self.record

    def events(self) -> AsyncIterator[Event]:
        """Yields the job's changes, from the first one on, until it ends."""
        return self._client._events(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self.record['state']}>"

    def _repr_html_(self) -> str:
        return record_html(self.record, self._client.url)


class AsyncBenchmark(AsyncJob):
    """A benchmark's job. Iterating yields each measurement as it arrives, from the first one on."""

    async def __aiter__(self) -> AsyncIterator[Point]:
        async for event in self.events():
            if (point := point_of(event)) is not None:
                yield point

    async def result(self, *, timeout: float | None = None) -> BenchmarkResult:  # type: ignore[override]  # no matrix
        """Waits for the whole result and returns it. Raises JobFailed, JobCancelled, DeadlineExceeded."""
        call = self._client._call(timeout)
        return await self._client._run(call, benchmarks.result(call, self.id))

    async def so_far(self) -> BenchmarkResult:
        """The measurements so far."""
        call = self._client._call(None)
        return await self._client._run(call, benchmarks.results(call, self.id))

    async def plot(self, name: str = "gflops") -> Plot:
        """One of the service's plots. The error for an unknown name lists the valid ones."""
        return Plot((await self.drawn(name, "svg")).decode(errors="replace"))

    async def drawn(self, name: str, form: str) -> bytes:
        """Fetches a plot as `svg` or `png`."""
        return await self._shown(f"plots/{name}", form)

    async def report(self, form: str = "html", **fields: Unpack[ReportFields]) -> bytes:
        """The report, as `html`, `pdf`, `markdown`, or `zip`: Markdown with its pictures. With your `title`, `author`,
        `question`, `text` and `conclusion`."""
        return await self._shown("report", form, fields)

    async def _shown(self, what: str, form: str, fields: Mapping[str, Any] | None = None) -> bytes:
        call = self._client._call(None)
        return await self._client._run(call, benchmarks.rendered(call, self.id, what, form, fields))
