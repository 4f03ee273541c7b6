"""Detects clients that close the connection while their answer is being computed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from service.bodies.body import ClientGone

R = TypeVar("R")


async def unless_gone(request: Request, reply: Coroutine[Any, Any, R]) -> R:
    """The result of `reply`. Raises ClientGone as soon as the client closes the connection; its Idempotency-Key is then
    released. The request's body must have been read.
    """
    replying, gone = asyncio.ensure_future(reply), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({replying, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not replying.done():
            raise ClientGone
        return replying.result()
    finally:
        gone.cancel()
        replying.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
