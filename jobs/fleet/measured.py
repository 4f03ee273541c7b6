"""What workers measured for `auto`, in Redis: shared by all workers on a model of device, with its driver and kernels.

A shape goes by a name and what was measured there is a text; the workers say what both mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from jobs.redis.client import translated
from jobs.redis.scripts import SERVER_CLOCK, RedisScripts

LUA_DIR = Path(__file__).parent / "lua"
MAX_MEASURED, MAX_WANTED = 4096, 1024  # shapes
KEPT_S = 90 * 86_400  # after the last change
TUNE_S = 3600  # how long workers that measure only when they are asked to are asked


class MeasuredShapes:
    """Of one model. Safe to share between threads. Raises StoreUnavailable, StoreFull."""

    def __init__(self, client: redis.Redis, *, prefix: str, model: str, clock: str = SERVER_CLOCK) -> None:
        self._client = client
        self._prefix = prefix
        self._model = model
        self._run = RedisScripts(client, prefix, LUA_DIR, clock=clock).run

    @translated()
    def all(self) -> Mapping[str, str]:
        """Texts by name; empty ones where nothing came of measuring."""
        found: Any = self._client.hgetall(self._key("measured"))
        return {name.decode(): text.decode() for name, text in found.items()}

    @translated()
    def of(self, names: Sequence[str]) -> Mapping[str, str]:
        """The same of these, where there is something."""
        found: Any = self._client.hmget(self._key("measured"), list(names)) if names else []
        return {name: text.decode() for name, text in zip(names, found, strict=True) if text}

    def want(self, names: Sequence[str]) -> None:
        """Lists shapes that were asked for, but for those that were tried."""
        if names:
            self._run("want_shapes", self._model, MAX_WANTED, KEPT_S, *names)

    @translated()
    def wanted(self, count: int) -> Sequence[str]:
        """So many of them at most, the last that were asked for first."""
        found: Any = self._client.zrevrange(self._key("wanted"), 0, count - 1)
        return [name.decode() for name in found]

    def begin(self, name: str) -> bool:
        """Marks a shape as tried; whether it is to be measured here, and was not tried elsewhere."""
        return bool(self._run("begin_shape", self._model, MAX_MEASURED, KEPT_S, name))

    def keep(self, name: str, text: str) -> None:
        """What was measured there."""
        self._run("keep_shape", self._model, MAX_MEASURED, KEPT_S, name, text)

    def put_back(self, name: str) -> None:
        """It was begun here and something came in between."""
        self._run("put_back_shape", self._model, name)

    @translated()
    def ask(self) -> None:
        """Asks workers that measure only when they are asked to, for TUNE_S."""
        self._client.set(f"{self._prefix}tune", "1", ex=TUNE_S)

    @translated()
    def end_asking(self) -> None:
        self._client.delete(f"{self._prefix}tune")

    @translated()
    def is_asked(self) -> bool:
        return bool(self._client.exists(f"{self._prefix}tune"))

    def _key(self, kind: str) -> str:
        return f"{self._prefix}{kind}:{self._model}"
