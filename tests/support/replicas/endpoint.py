"""One address for whichever server is the primary, as a virtual address or a proxy gives; with TLS where asked for."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from types import TracebackType
from typing import Self

from jobs.redis.embedded import free_port
from tests.support.replicas.certificates import Authority

HOST = "127.0.0.1"


def server_context(authority: Authority, *, asks_clients: bool = True) -> ssl.SSLContext:
    """`asks_clients`: for a certificate of the same authority."""
    given = authority.give("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(given.certificate, given.key)
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED if asks_clients else ssl.CERT_NONE
    return context


class Endpoint:
    """New connections lead to `target`, a port; those that there are stay where they are."""

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        self.port, self.target = free_port(), target
        self._tls = tls
        self._passing: set[asyncio.Task[None]] = set()
        self._ends = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._listens = threading.Event()

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._accept, HOST, self.port, ssl=self._tls):
            self._listens.set()
            await self._ends.wait()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._pass(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both ways, until either side ends."""
        with contextlib.suppress(OSError), contextlib.closing(writer):
            server_reader, server_writer = await asyncio.open_connection(HOST, self.target)
            with contextlib.closing(server_writer):
                both = {
                    asyncio.create_task(_pass_on(reader, server_writer)),
                    asyncio.create_task(_pass_on(server_reader, writer)),
                }
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in both:
                        each.cancel()
                    await asyncio.gather(*both, return_exceptions=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(60)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join()
        self._loop.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # an error of TLS is one too
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
