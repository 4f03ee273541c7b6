"""The HTTP server: uvicorn with the service's limits. Several processes may run it on the same sockets."""

from __future__ import annotations

import asyncio
import resource
import socket

import uvicorn
from fastapi import FastAPI

from jobs.matrices.factory import make_matrix_store
from jobs.redis.layout import claim_layout
from jobs.settings import Settings
from service.api_process.share import ALONE, Share
from service.app import create_app
from service.audit import check_file
from service.server.accepting import Acceptor, ConnectionCounts, OpenConnections
from service.server.addresses import SHUTDOWN_S, Addresses
from service.server.deadlines import protocol_class

KEEP_ALIVE_S = 30  # how long a connection may idle between requests


class Server(uvicorn.Server):
    """A server on these addresses. When it stops, it first wakes callers who wait for a job, so that stopping does not
    wait for them.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, addresses: Addresses, counts: ConnectionCounts) -> None:
        super().__init__(config)
        self._app, self._addresses, self._counts = app, addresses, counts
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # everything except listening: uvicorn would let any process accept
        self.server_state.connections = OpenConnections(self._counts)
        await self._counts.all_there()
        self._acceptor = Acceptor(self._addresses.sockets, self._counts, self._make_protocol)

    @property
    def listening(self) -> bool:
        return self._acceptor is not None

    def _make_protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._acceptor is not None:
            await self._acceptor.close()
        self._addresses.close()
        self._app.state.context.hub.close()
        await super().shutdown()


def make_server(
    settings: Settings, addresses: Addresses, counts: ConnectionCounts | None = None, share: Share = ALONE
) -> Server:
    """Raises InvalidSettings, WrongLayout, OSError."""
    make_matrix_store(settings)  # reports a bad directory in one sentence; once uvicorn runs it would be a traceback
    check_file(settings)
    claim_layout(settings)
    app = create_app(settings, share)
    config = uvicorn.Config(
        app,
        http=protocol_class(settings, share),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return Server(config, app, addresses, counts or ConnectionCounts.alone())


def _allow_connections() -> None:
    """Raises the limit of open files as far as the system allows: each connection takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve(
    settings: Settings, addresses: Addresses, counts: ConnectionCounts | None = None, share: Share = ALONE
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the answers in progress. Raises InvalidSettings, OSError."""
    try:
        server = make_server(settings, addresses, counts, share)
        _allow_connections()
        server.run()
    finally:
        addresses.close()
