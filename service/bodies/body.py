"""Reads a request's body in batches, with an exact size limit; only a small body is ever held whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from jobs.errors import MalformedBody
from jobs.models import ANONYMOUS
from service.api_process.body_bytes import EXTENSION, BodyBytes
from service.api_process.body_memory import BodyMemory
from service.bodies.inflate import WINDOW_BITS, Inflater
from service.bodies.piece import Piece
from service.bodies.sizes import in_units
from service.problems import PayloadTooLarge, UnsupportedMediaType

BATCH_BYTES = 8 << 20  # bytes of a large body passed to a worker thread at a time
FIRST_BYTES = 64 << 10  # bytes of the first batch
SMALL_BYTES = 1 << 20  # a body up to this declared size is read whole
# A thread may read a body up to this size. Of a larger one the event loop receives what comes next while a thread
# stores what came, because then both take long.
BY_THREAD_BYTES = 32 << 20

MAX_INFLATED_BYTES = 64 << 20  # of a compressed body, which is cheap for its sender

Batch = list[Piece]
ByThread = Callable[[], AbstractContextManager[BodyBytes | None]]


class ClientGone(Exception):
    """The client closed the connection before its body was complete; there is no one to answer."""


class Body:
    """A request's body. Raises PayloadTooLarge as soon as the declared length, or the number of received bytes, exceeds
    the limit. With `inflates`, a compressed body is decompressed; the limit then applies to its contents, and
    `declared_bytes` is None.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        limit_bytes: int,
        memory: BodyMemory | None = None,
        inflates: bool = False,
    ) -> None:
        headers = Headers(scope=scope)
        self.owner: str = scope.get("state", {}).get("owner", ANONYMOUS)  # who sends it
        self._memory = memory or BodyMemory()  # a body with a small limit is not counted elsewhere
        has_matrices = memory is not None and headers.get("content-type", "").startswith("application/json")
        self._advice = "; JSON is for small matrices, so send .npy or safetensors" if has_matrices else ""
        self._receive = receive
        self._by_thread: ByThread | None = scope.get("extensions", {}).get(EXTENSION)
        self._limit_bytes = limit_bytes
        self._seen_bytes = 0
        self._ended = False
        self._has_come = False  # whether the last byte of a compressed body has been read
        self.declared_bytes = _declared_bytes(headers)
        if self.declared_bytes is not None and self.declared_bytes > limit_bytes:
            raise self._too_large()
        encoding = ", ".join(filter(None, headers.getlist("content-encoding"))).strip().lower() or "identity"
        self._inflater = Inflater(encoding) if inflates and encoding in WINDOW_BITS else None
        if self._inflater is not None:
            self.declared_bytes, self._limit_bytes = None, min(limit_bytes, MAX_INFLATED_BYTES)
        elif encoding != "identity":
            codings = [*WINDOW_BITS] if inflates else []
            ways = " or ".join(["without Content-Encoding", *codings])
            raise UnsupportedMediaType(
                f"Bodies are not taken {encoding}-encoded here; send it {ways}.",
                field="Content-Encoding",
                headers={"accept-encoding": ", ".join(["identity", *codings])},
            )

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"The body is larger than the {in_units(self._limit_bytes)} taken here{self._advice}.",
            headers={"connection": "close"},
            members={"limit_bytes": self._limit_bytes},
        )

    async def _next_piece(self) -> Piece:
        piece = await (self._received() if self._inflater is None else self._inflated(self._inflater))
        self._seen_bytes += len(piece)
        if self._seen_bytes > self._limit_bytes:
            raise self._too_large()
        return piece

    async def _received(self) -> Piece:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._ended = not message.get("more_body", False)
        piece: Piece = message.get("body", b"")
        return piece

    async def _inflated(self, inflater: Inflater) -> bytes:
        """Inflates one step, in a worker thread."""
        if inflater.needs_more():
            inflater.put(await self._received())
            self._has_come, self._ended = self._ended, False
        piece = await anyio.to_thread.run_sync(inflater.step)
        if self._has_come and inflater.needs_more():
            inflater.end()
            self._ended = True
        return piece

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yields the whole body as lists of pieces. A small body is one batch; the first batch of a large one is short,
        so that its headers are checked early.
        """
        is_small = self.declared_bytes is not None and self.declared_bytes <= SMALL_BYTES
        enough_bytes = SMALL_BYTES if is_small else FIRST_BYTES
        while not self._ended:
            batch, size = [], 0
            try:
                while size < enough_bytes and not self._ended and not (size and self._memory.is_scarce):
                    if piece := await self._next_piece():
                        batch.append(piece)
                        size += len(piece)
                        self._memory.waiting_bytes += len(piece)
            finally:
                self._memory.waiting_bytes -= size
            enough_bytes = BATCH_BYTES
            yield batch

    @contextmanager
    def by_thread(self) -> Iterator[BodyBytes | None]:
        """The next bytes, for a thread that reads them itself; None where they come in `batches`: those of a compressed
        body, and of a very large one."""
        is_short = self.declared_bytes is not None and self.declared_bytes <= BY_THREAD_BYTES
        if self._by_thread is None or not is_short:
            yield None
            return
        with self._by_thread() as coming:
            yield coming
        if coming is not None:
            self._seen_bytes += coming.came_bytes
            self._ended = self._seen_bytes == self.declared_bytes

    @property
    def ended(self) -> bool:
        """Whether the last byte has been read."""
        return self._ended

    async def read(self) -> bytes:
        """The whole body at once; for bodies with a small limit."""
        return b"".join([piece async for batch in self.batches() for piece in batch])


def _declared_bytes(headers: Headers) -> int | None:
    """Content-Length; None for a chunked body. Raises MalformedBody."""
    text = headers.get("content-length")
    if text is None:
        codings = ", ".join(headers.getlist("transfer-encoding")).lower()
        if codings not in ("", "chunked"):
            raise MalformedBody(
                "A body may be chunked, but not compressed as well; send it uncompressed.", field="Transfer-Encoding"
            )
        return None if codings else 0
    if not (text.isascii() and text.isdigit()):
        raise MalformedBody("Content-Length must be a whole number of bytes.", field="Content-Length")
    return int(text)
