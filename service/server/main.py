"""The HTTP server: uvicorn in one process, with our limits, on the address that the settings name."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

from jobs.matrices.factory import make_matrix_store
from jobs.settings import Settings
from service.app import create_app
from service.server.deadlines import protocol_class

KEEP_ALIVE_S = 30  # how long a connection may idle between requests
SHUTDOWN_S = 10  # for answers under way
BACKLOG = 2048


class Server(uvicorn.Server):
    """Sends those who wait for a job home first, so that stopping does not wait for them."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.context.hub.close()
        await super().shutdown(sockets)


def make_server(settings: Settings) -> Server:
    """Raises InvalidSettings."""
    make_matrix_store(settings)  # what is wrong with its place is one sentence here, and a traceback once uvicorn runs
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol_class(settings),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return Server(config, app)
